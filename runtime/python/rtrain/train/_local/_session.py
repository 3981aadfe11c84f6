"""The session of local mode: implements the calls of `rtrain.train` in the process that called `fit()`, or in
torchrun's ranks. It does the work that an agent does on a cluster, and does it synchronously: `report` returns when its
checkpoint is committed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rtrain.train._checkpoint import Checkpoint
from rtrain.train._local._ranks import Ranks
from rtrain.train._report import _bring, _check
from rtrain.train._report._bring import brought_by_fn, one_in_the_other
from rtrain.train._report._call import ReportCall
from rtrain.train._report._left_over import LeftOver
from rtrain.train._report._place import is_place, name_of, place_in_run, taken
from rtrain.train._result import by_score, no_score
from rtrain.train._run_directory import _elsewhere
from rtrain.train._run_directory._claims import Claim, claim_in_place
from rtrain.train._run_directory._writer import Directory, Found, files_below, give_back, take_files
from rtrain.train._session import _loop_environment
from rtrain.train._session._protocol import ReportedCheckpoint
from rtrain.train._values import _metrics
from rtrain.train._values._checkpoint_names import MANIFEST, Names
from rtrain.train._values._facts import (
    CheckpointConsistencyMode,
    CheckpointUploadMode,
    Facts,
    LoopEnded,
    PreemptionInfo,
    ReportedCheckpointStatus,
    ResizeInfo,
)
from rtrain.train._values._metrics import nested
from rtrain.train._worker import _behind
from rtrain.train._worker._library import CheckpointUploadError

_DELETIONS_MOST = 10  # most checkpoints that one report deletes, the worst first; the head has the same limit
Reported = Callable[[list[dict[str, Any]], Checkpoint | None], None]


class LocalSession:
    """shards: name to this rank's dataset. stop: (run name, metrics) -> whether the run ends. validate: (checkpoint,
    argument of report) -> metrics. reported: called on rank 0 for every report.
    """

    def __init__(self, facts: Facts, ranks: Ranks, directory: Directory, keep: Any, reported: Reported) -> None:
        self._facts = facts
        self._ranks = ranks
        self._directory = directory
        self._keep = keep  # the run's CheckpointConfig
        self._reported = reported
        self._calls = 0  # number of calls of report()
        self._index = 0  # number of the current report; reports are made in the order of their calls
        self._interrupt = _behind.interrupting_this_thread()
        self._unscored_noticed = False
        self._names_given = Names()
        self._latest: Checkpoint | None = None
        self._own_directories: set[str] = set()  # directories that checkpoint_dir() has made
        self._reported_directories: set[str] = set()  # directories of reports that are made behind the loop
        # key: the checkpoint; value: state of the validation that was requested for it
        self._statuses: dict[str, ReportedCheckpointStatus] = {}
        self.last_metrics: list[str] = []
        # set on rank 0 if the checkpoints' files are on another file system
        self.sweeper: _elsewhere.Sweeper | None = None
        self.shards: Any = None
        self.stop: Callable[[str, dict[str, Any]], bool] | None = None
        self.validate: Callable[[Checkpoint, object], Mapping[str, Any]] | None = None

    @property
    def facts(self) -> Facts:
        return self._facts

    @property
    def reports_made(self) -> int:
        return self._calls

    # -- report ---------------------------------------------------------------------------------------------------------
    def report(self, call: ReportCall) -> None:
        if not call.goes_behind:
            _behind.join()
        _check.check(call, _elsewhere.of(self.facts.run_path), self.facts, validates=self.validate is not None)
        self._calls += 1
        if not call.goes_behind:
            self._make_report(call, lambda bring: bring())
            return
        if call.directory in self._own_directories:
            self._reported_directories.add(str(call.directory))
            call = dataclasses.replace(call, left_over=LeftOver(str(call.directory)))
        _behind.start(
            f"report {self._calls}, {name_of(call, self._calls)}", lambda bring: self._make_report(call, bring), self._interrupt
        )

    def _make_report(self, call: ReportCall, bring: _behind.Bring) -> None:
        self._index += 1
        carried = _bring.carried(call, _elsewhere.of(self.facts.run_path), self.facts, self._index, self._fresh_directory)
        try:
            calls, name = self._called_by_all(carried)
            self._store(bring(lambda: self._brought(carried, name)), name, calls)
        finally:
            if carried is not call:
                shutil.rmtree(str(carried.directory), ignore_errors=True)

    def _called_by_all(self, call: ReportCall) -> tuple[list[Any], str]:
        """Waits for the report's call of every rank. Returns the calls and the checkpoint's directory."""
        late = call.upload_fn is not None
        place = self._place_in_run(call)
        own_call = (call.metrics_json, call.directory_name, [] if late else self._names(call), late, place)
        calls = self._ranks.gather(own_call, f"in report {self._index}")
        return calls, self._place(calls)

    def _brought(self, call: ReportCall, name: str) -> ReportCall:
        """Calls the upload function of the report, if there is one. Returns the call with the directory in which the
        function has stored the files.
        """
        if call.directory is None:
            return call
        call = dataclasses.replace(call, left_over=call.left_over or call.directory_to_remove(self.facts.run_path))
        return call if call.upload_fn is None else dataclasses.replace(call, directory=brought_by_fn(call, name)._at)

    def _store(self, call: ReportCall, name: str, calls: list[Any]) -> None:
        root = self._facts.world_rank == 0
        if any(late for _, _, _, late, _ in calls):
            name, calls = self._put_by_functions(call, name, calls)
        entries, fault = self._bring(call, name, calls) if name else ([], "")
        checkpoint = self._commit(call, name, entries, fault, calls) if name else None
        if checkpoint is not None:
            self._latest = checkpoint
            self.sweep()
            if call.left_over is not None and not one_in_the_other(call.left_over.path, checkpoint._at):
                call.left_over.remove()
        self.last_metrics = [rank_call[0] for rank_call in calls]
        if root:
            self._directory.journal(self._index, self.last_metrics)
        metrics = [ReportCall(rank_call[0]).metrics for rank_call in calls]
        if root:
            self._reported(metrics, checkpoint)
        if self.stop is not None:
            self._end_when_reached(metrics[0])

    def _put_by_functions(self, call: ReportCall, name: str, calls: list[Any]) -> tuple[str, list[Any]]:
        """Finds the directory in which the ranks' upload functions have stored the files. Returns the checkpoint's
        directory, which may be another one in the run's directory than `name`, and the calls with their files. All
        ranks raise ValueError if one rank used an invalid place.
        """
        own = self._names(call)
        place, fault = self._place_of_function(call, name)
        brought = self._ranks.gather((own, place, fault), f"bringing the files of report {self._index}")
        if faults := [f"rank {rank}: {rank_fault}" for rank, (_, _, rank_fault) in enumerate(brought) if rank_fault]:
            raise ValueError("; ".join(faults))
        calls = [
            (*rank_call[:2], names, rank_call[3], put or rank_call[4])
            for rank_call, (names, put, _) in zip(calls, brought, strict=True)
        ]
        places = sorted({put or name for _, _, names, late, put in calls if names is not None and (late or put)})
        return (name, calls) if places in ([], [name]) else (self._claimed_place(places), calls)

    def _place_of_function(self, call: ReportCall, name: str) -> tuple[str, str]:
        """Returns the directory of the run that this rank's function has returned, if it is not `name`; otherwise an
        empty text. Also returns why that directory cannot be a checkpoint; empty: it can.
        """
        if call.upload_fn is None or call.directory is None or is_place(call.directory, self._facts.run_path, name):
            return "", ""
        try:
            return place_in_run(dataclasses.replace(call, directory_name=None), self._facts), ""
        except (ValueError, OSError) as error:
            return "", str(error)

    def _claimed_place(self, places: list[str]) -> str:
        """Returns the directory of the run that already holds the files of this report. Raises ValueError on all
        ranks if this report cannot claim it.
        """
        if len(places) > 1:
            raise ValueError(f"ranks bring the directories {' and '.join(places)} of the run; of one report all bring the same")
        (place,) = places
        if not self._ranks.broadcast(self._claims(place, in_place=True), f"claiming the name {place!r} in report {self._index}"):
            raise ValueError(taken(str(self._directory.path), place))
        self._names_given.given(place.removesuffix(f"-a{self._facts.attempt:03d}"))
        return place

    def _fresh_directory(self) -> str:
        aside = self._directory.path / ".staging"
        aside.mkdir(exist_ok=True)
        return tempfile.mkdtemp(prefix=f"rank-{self._facts.world_rank}-", dir=aside)

    def sweep(self) -> None:
        """On rank 0, removes files that lie on another file system and belong to checkpoints that are no longer kept."""
        if self.sweeper is None:
            return
        kept = [manifest.parent.name for manifest in self._directory.path.glob(f"*/{MANIFEST}")]
        try:
            self.sweeper.sweep(kept, lambda name: _elsewhere.pointers(self._directory.path / name))
        except Exception as error:  # The user's file system may raise any exception; the report has been made.
            print(f"rtrain: files of checkpoints that are gone stay for now: {error}", file=sys.stderr, flush=True)

    def _end_when_reached(self, metrics: dict[str, Any]) -> None:
        """Calls the run's `stop` on rank 0. Every rank ends at the same report."""
        assert self.stop is not None
        reached = bool(self.stop(self._facts.experiment_name, metrics)) if self._facts.world_rank == 0 else None
        if self._ranks.broadcast(reached, f"at the end of report {self._index}"):
            raise LoopEnded(0)

    def wait_for_ends(self) -> None:
        """Waits until every rank's loop has ended. Raises RuntimeError if a rank still reports."""
        self._ranks.gather(None, f"has ended after {self._index} reports")

    def _names(self, call: ReportCall) -> list[str] | None:
        """Returns the names of the files that this rank reports; None if it reports no checkpoint."""
        if call.directory is None:
            return None
        return files_below(pathlib.Path(call.directory))

    def _place(self, calls: list[Any]) -> str:
        """Returns the name of the checkpoint's directory; empty if no rank reports files."""
        if all(names is None for _, _, names, _, _ in calls):
            return ""
        if places := sorted({place for *_, place in calls if place}):
            return self._claimed_place(places)
        wish: str | None = calls[0][1]
        if wish and self._ranks.broadcast(self._claims(wish), f"claiming the name {wish!r} in report {self._index}"):
            self._names_given.given(wish)
            return wish
        name = self._names_given.next(wish or f"checkpoint_{self._index:06d}")
        if self._names_given.notice and self._facts.world_rank == 0:
            print(f"rtrain: {self._names_given.notice}", file=sys.stderr)
        return f"{name}-a{self._facts.attempt:03d}"

    def _place_in_run(self, call: ReportCall) -> str:
        """Returns the directory in the run's directory that this rank reports and that becomes the checkpoint itself.
        Returns an empty text if the rank reports no such directory.
        """
        if call.upload is not CheckpointUploadMode.NO_UPLOAD or call.directory is None or call.upload_fn is not None:
            return ""
        return place_in_run(call, self._facts)

    def _claims(self, wish: str, *, in_place: bool = False) -> bool:
        """On rank 0, returns whether this report gets exactly the name `wish`."""
        if self._facts.world_rank != 0:
            return False
        try:
            if in_place:
                return claim_in_place(self._directory.path, wish, self._facts.attempt, self._index) is not Claim.TAKEN
            return self._directory.claim_name(wish, self._index)
        except OSError as error:
            print(f"rtrain: the name {wish!r} of a checkpoint could not be claimed: {error}", file=sys.stderr)
            return False

    def _bring(self, call: ReportCall, name: str, calls: list[Any]) -> tuple[list[dict[str, Any]], str]:
        """Moves or copies this rank's files into the directory that all ranks share. If several ranks report a name,
        the file of the lowest rank is used.
        """
        rank, source = self._facts.world_rank, call.directory
        if source is None:
            return [], ""
        own_files = self._own_files(calls)
        if not calls[rank][4] and (twice := sorted(set(calls[rank][2]).difference(own_files))):
            print(f"rtrain: rank {rank}: {', '.join(twice[:3])} came from a lower rank too, whose is kept", file=sys.stderr)
        target = self._directory.path / name
        try:
            # files that an upload function has stored are in place already
            move = call.owned and call.upload_fn is None
            return take_files(pathlib.Path(source), target, own_files, rank, move=move), ""
        except OSError as error:
            return [], f"rank {rank}: {error}"

    def _own_files(self, calls: list[Any]) -> list[str]:
        """Returns this rank's files, except those that a lower rank reports too."""
        rank = self._facts.world_rank
        lower = {file for _, _, names, _, _ in calls[:rank] for file in names or []}
        return [file for file in calls[rank][2] or [] if file not in lower]

    def _commit(self, call: ReportCall, name: str, entries: list[dict[str, Any]], fault: str, calls: list[Any]) -> Checkpoint:
        """Commits the checkpoint: rank 0 writes the manifest once every rank has stored its files. All ranks raise
        if one rank could not.
        """
        brought = self._ranks.gather((entries, fault), f"storing the checkpoint of report {self._index}")
        faults = [rank_fault for _, rank_fault in brought if rank_fault]
        committed = ""
        metrics: dict[str, Any] = {}
        status: ReportedCheckpointStatus | None = None
        if self._facts.world_rank == 0 and not faults:
            files = [entry for part, _ in brought for entry in part]
            try:
                new_checkpoint = self._directory.write_manifest(name, self._index, files, calls[0][0], self._facts.world_size)
            except OSError as error:
                committed = f"rank 0: {error}"
            else:
                status, metrics = self._after_commit(call, new_checkpoint)
        refused, metrics, status = self._ranks.broadcast(
            (committed, metrics, status), f"committing the checkpoint of report {self._index}"
        )
        if refused:
            faults.append(refused)
        if faults:
            faults += self._discard(call, name, calls)
            raise CheckpointUploadError(f"checkpoint {name} could not be kept in {self._directory.path}: {'; '.join(faults)}")
        if status is not None:
            self._statuses[name] = status
        return Checkpoint._kept(
            str(self._directory.path / name), metrics={**ReportCall(calls[0][0]).metrics, **metrics}, name=name
        )

    def _discard(self, call: ReportCall, name: str, calls: list[Any]) -> list[str]:
        """Undoes a failed commit. Rank 0 removes the manifest, which may exist though it could not be made durable.
        Every rank moves its files back, then rank 0 removes the directory. The directory stays if it may hold the only
        copy of files: if they were reported in place, stored by a rank's function, or could not be moved back. Returns
        messages about files that stay.
        """
        target = self._directory.path / name
        faults: list[str] = []
        if self._facts.world_rank == 0:
            try:
                (target / MANIFEST).unlink(missing_ok=True)
            except OSError as error:
                faults.append(f"rank 0: the checkpoint may count as committed: {error}")
        if call.directory is not None and call.owned and call.upload_fn is None:
            try:
                give_back(pathlib.Path(call.directory), target, self._own_files(calls))
            except OSError as error:
                faults.append(f"rank {self._facts.world_rank}: {call.directory} lacks files that stay in {target}: {error}")
        of_ranks = self._ranks.gather(faults, f"taking back the files of report {self._index}")
        faults = [fault for of_rank in of_ranks for fault in of_rank]
        if any(late or place for *_, late, place in calls):
            faults += [f"the files stay in {target}"] if target.exists() else []
        elif self._facts.world_rank == 0 and not faults:
            with contextlib.suppress(OSError):
                self._directory.remove(Found(name, {}))
        return faults

    def _after_commit(self, call: ReportCall, committed: Found) -> tuple[ReportedCheckpointStatus | None, dict[str, Any]]:
        """Runs the steps after a commit. Their errors do not undo the commit."""
        status: ReportedCheckpointStatus | None = None
        metrics: dict[str, Any] = {}
        try:
            status, metrics = self._validation(call, committed.name)
            if metrics:  # later starts of the loop get the metrics of the validation too
                all_metrics = _metrics.encode({**ReportCall(committed.manifest["metrics"]).metrics, **metrics})
                self._directory.write_manifest(
                    committed.name, self._index, committed.manifest["files"], all_metrics, self._facts.world_size
                )
            self.forget_worse()
        except OSError as error:
            print(f"rtrain: checkpoint {committed.name} is committed; what was to follow failed: {error}", file=sys.stderr)
        return status, metrics

    def _validation(self, call: ReportCall, name: str) -> tuple[ReportedCheckpointStatus | None, dict[str, Any]]:
        """Validates in this process, so a validation has no time limit. Its failure does not end the run, as on a
        cluster.
        """
        if not call.validation or self.validate is None:
            return None, {}
        try:
            metrics = _metrics.decode(
                json.loads(_metrics.encode(self.validate(Checkpoint._kept(str(self._directory.path / name)), call.validation)))
            )
        except Exception:
            print(f"rtrain: the validation of {name} failed:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
            return ReportedCheckpointStatus.VALIDATION_FAILED, {}
        return ReportedCheckpointStatus.VALIDATED, metrics if isinstance(metrics, dict) else {}

    def forget_worse(self, *, succeeded: bool = False) -> None:
        """Removes the worst checkpoints. Keeps the k best, and also the latest. Keeps the checkpoint from which this
        attempt started until the attempt has a checkpoint of its own.
        """
        if self._keep.num_to_keep is None:
            return
        committed = self._directory.committed()
        by_name = {checkpoint.name: checkpoint for checkpoint in committed}
        kept = [self._as_checkpoint(checkpoint) for checkpoint in committed]
        if self._unscored(kept):
            return
        order = by_score(
            kept,
            self._keep.checkpoint_score_attribute,
            self._keep.checkpoint_score_order,
        )
        latest_goes = succeeded and self._keep.keep_latest == "until_success"
        going = [
            checkpoint.name
            for checkpoint, _ in order[: -self._keep.num_to_keep]
            if latest_goes or checkpoint.name != committed[-1].name
        ]
        for name in going[:_DELETIONS_MOST]:
            self._directory.remove(by_name[name])

    def _unscored(self, kept: list[Checkpoint]) -> bool:
        """Returns whether no checkpoint has the score. Then the score's name must be a mistake, and retention would
        delete the best checkpoints. Prints that once.
        """
        name = self._keep.checkpoint_score_attribute
        if not name or any(nested(checkpoint.metrics, name) is not None for checkpoint in kept):
            return False
        if len(kept) > self._keep.num_to_keep and not self._unscored_noticed:
            self._unscored_noticed = True
            print(f"rtrain: {no_score(name)}", file=sys.stderr)
        return True

    def _as_checkpoint(self, checkpoint: Found) -> Checkpoint:
        metrics = _decoded(dict(checkpoint.metrics))
        return Checkpoint._kept(str(self._directory.path / checkpoint.name), metrics=metrics, name=checkpoint.name)

    # -- the rest -------------------------------------------------------------------------------------------------------
    def get_checkpoint(self) -> Checkpoint | None:
        _behind.join()
        if self._latest is not None:
            return self._latest
        start = self._directory.start
        return None if start is None else self._as_checkpoint(start)

    def start_from(self, checkpoint: Checkpoint | None) -> None:
        """Uses `resume_from_checkpoint` as the start, if the run has no checkpoint of its own."""
        if checkpoint is not None and self._directory.start is None:
            self._latest = checkpoint

    def all_reported_checkpoints(
        self, consistency: CheckpointConsistencyMode, timeout_s: float | None
    ) -> list[ReportedCheckpoint]:
        _behind.join()
        committed = ReportedCheckpointStatus.COMMITTED
        return [
            ReportedCheckpoint(checkpoint, checkpoint.metrics, self._statuses.get(checkpoint.name, committed))
            for checkpoint in map(self._as_checkpoint, self._directory.committed())
        ]

    def should_checkpoint(self) -> bool:
        return False  # local mode has no preemption, so no checkpoint is ever requested

    def resize_info(self) -> ResizeInfo:
        size = self._facts.world_size
        return ResizeInfo(size, None, size, size)

    def resources(self) -> dict[str, float]:
        return {}

    def preemption_info(self) -> PreemptionInfo | None:
        _behind.join()
        return None

    def barrier(self) -> None:
        _behind.join()
        self._ranks.gather(None, "in collective.barrier()")

    def broadcast_from_rank_zero(self, data: Any) -> Any:
        _behind.join()
        return self._ranks.broadcast(data, "in collective.broadcast_from_rank_zero()")

    def gather_to_rank_zero(self, value: Any) -> list[Any]:
        _behind.join()
        return self._ranks.gather(value, "telling rank 0 of something")

    def exchange(self, value: Any) -> list[Any]:
        _behind.join()
        return self._ranks.gather(value, "telling each other of something")

    def dataset_shard(self, name: str | None, state_dict: Any = None) -> Any:
        return _loop_environment.shard_of(self.shards, name, state_dict)

    @contextlib.contextmanager
    def checkpoint_dir(self) -> Iterator[str]:
        folder = self._fresh_directory()
        self._own_directories.add(folder)
        try:
            with _loop_environment.removed_unless_reported(folder, self._reported_directories):
                yield folder
        finally:
            self._own_directories.discard(folder)

    def scratch_dir(self) -> str:
        return _loop_environment.scratch_dir()

    def flush(self, timeout_s: float | None) -> None:
        # only reports behind the loop must be waited for; all others return after their checkpoint is committed
        _behind.join()


def _decoded(metrics: dict[str, Any]) -> dict[str, Any]:
    decoded = _metrics.decode(metrics)
    return decoded if isinstance(decoded, dict) else {}
