"""Local mode: `num_workers=0` trains in this process, and under torchrun in all of its ranks, without a cluster.
Reports, checkpoints and the Result are stored in the run's directory as on a cluster. A later run of the same name
resumes from them.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rtrain._local_cluster import RESULTS
from rtrain.train import _session
from rtrain.train._archive import _package
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._driver._submission import Submission
from rtrain.train._driver._training import Training
from rtrain.train._local._ranks import Alone, Ranks, UnderTorchrun, node_name, torchruns_own_name, under_torchrun
from rtrain.train._local._session import LocalSession
from rtrain.train._result import Result
from rtrain.train._run_context import TrainRunContext, UserCallback, callback_errors, checked, end_reported
from rtrain.train._run_directory import _elsewhere, _views
from rtrain.train._run_directory._writer import Directory
from rtrain.train._values import _names
from rtrain.train._values._errors import ControllerError
from rtrain.train._values._facts import Facts, LoopEnded
from rtrain.train._worker import _behind
from rtrain.train._workers import _log_files, _loop_call, _tracking
from rtrain.train._workers._datasets import Shards
from rtrain.train._workers._setup import stop_function
from rtrain.train.backend import Hooks


def fit(trainer: Training) -> Result:
    """Trains in this process. Returns the Result on every rank. An exception of the loop is raised unchanged."""
    ranks: Ranks = UnderTorchrun(trainer.backend_config) if under_torchrun() else Alone()
    try:
        return _Fit(trainer, ranks).run()
    finally:
        ranks.close()


class _Fit:
    def __init__(self, trainer: Training, ranks: Ranks) -> None:
        self.trainer = trainer
        self.ranks = ranks
        self.root = ranks.world_rank == 0
        self.callbacks: list[UserCallback] = checked(trainer.run_config.callbacks) if self.root else []
        self.started_ms = int(time.time() * 1000)

    def run(self) -> Result:
        directory = self._directory()
        facts = self._facts(directory)
        context = TrainRunContext(
            directory.run_id,
            directory.name,
            str(directory.path),
            self.trainer.run_config,
            self.trainer.scaling_config,
            self.trainer.train_loop_config,
        )
        session = LocalSession(
            facts, self.ranks, directory, self.trainer.run_config.checkpoint_config, self._reports_to_callbacks(context)
        )
        with contextlib.closing(directory), _kept_code(self.trainer):
            self._furnish(session)
            _tracking.start(facts, _trackers(self.trainer.run_config))
            with end_reported(self.callbacks, context):
                with callback_errors():
                    for callback in self.callbacks:
                        callback.before_run(context)
                value = self._train(session, directory, context)
        self.ranks.gather(None, "at the run's end")  # Rank 0 has written the run's end when all ranks come here.
        result = Result.from_path(directory.path)  # the Result shows its paths on the run's storage_filesystem
        result.return_value = self.ranks.broadcast(value, "returning from fit()")
        return result

    # -- before the loop ------------------------------------------------------------------------------------------------
    def _directory(self) -> Directory:
        """Returns the run's directory. Rank 0 makes or opens it and broadcasts it."""
        config = self.trainer.run_config
        opening: dict[str, Any] = {}
        opened: Directory | None = None
        if self.root:
            try:
                name = torchruns_own_name() if not config.is_named and under_torchrun() else _names.run_name(config.name)
                opened = Directory(_storage(config.runs_path) / name, name)
                opened.open(self._job(name), self.ranks.world_size, [node_name()])
                opening = {"path": str(opened.path), "run_id": opened.run_id, "attempt": opened.attempt, "start": opened.start}
                opening.update(name=name, reports_before=opened.reports_before, writes_as=opened.writes_as)
                self._keep_driver(opened)
                for warning in opened.warnings:
                    _say(f"{name}: {warning}")
            except (OSError, ValueError, RuntimeError) as error:
                opening = {"error": error}
                if opened is not None:
                    opened.close()
        opening = self.ranks.broadcast(opening, "opening the run's directory")
        if "error" in opening:
            raise opening["error"]
        if not config.is_named:
            config.take_name(opening["name"])  # the name that rank 0 has chosen
        directory = opened or Directory(pathlib.Path(opening["path"]), opening["name"])
        directory.run_id, directory.attempt = opening["run_id"], opening["attempt"]
        directory.start, directory.reports_before, directory.writes_as = (
            opening["start"],
            opening["reports_before"],
            opening["writes_as"],
        )
        seen = self.ranks.gather((directory.path / "run.json").is_file(), "looking for the run's directory")
        missing = [rank for rank, there in enumerate(seen) if not there]
        if missing:
            directory.close()
            raise RuntimeError(
                f"ranks {missing} do not see {directory.path}, which rank 0 made: with several nodes RunConfig(storage_path=) must "
                "be a directory that all of them mount"
            )
        if self.root:
            _say(f"local mode: {directory.name} trains in {self.ranks.world_size} process(es); its run is in {directory.path}")
        return directory

    def _job(self, name: str) -> dict[str, Any]:
        config = self.trainer.run_config
        job: dict[str, Any] = {"version": 1, "name": name, "entrypoint": ["python", "-m", "rtrain.train._worker_main"]}
        job["scaling"] = {"workers": self.ranks.world_size}
        if config.checkpoint_config is not None:
            job["checkpoint"] = config.checkpoint_config.job()
        return job

    def _keep_driver(self, directory: Directory) -> None:
        """Stores the parts that `restore(path)` needs. If a part cannot be pickled or packed, the training runs
        without them.
        """
        no_head: Any = None
        try:
            kept = _Kept(self.trainer, no_head)
            kept.name = directory.name
            directory.keep(kept._payload().to_bytes(), kept.project.digest, kept.project.content)
        except Exception as error:
            directory.warnings.append(
                f"{directory.path} does not keep this training function, so restore() cannot go on with it; a fit() of the same name "
                f"can: {type(error).__name__}: {error}"
            )

    def _facts(self, directory: Directory) -> Facts:
        return Facts(
            world_size=self.ranks.world_size,
            world_rank=self.ranks.world_rank,
            local_rank=self.ranks.local_rank,
            local_world_size=self.ranks.local_world_size,
            node_rank=self.ranks.node_rank,
            node=node_name(),
            experiment_name=directory.name,
            run_id=directory.run_id,
            writes_as=directory.writes_as,
            attempt=directory.attempt,
            reports_before=directory.reports_before,
            storage_path=str(directory.path.parent),
            run_path=str(directory.path),
            metadata=self.trainer.metadata,
        )

    def _furnish(self, session: LocalSession) -> None:
        trainer = self.trainer
        datasets = _loaded(trainer._kept.get("datasets")) or trainer.datasets
        if datasets:
            session.shards = Shards(datasets, trainer.dataset_config, session.facts)
        if trainer.run_config.stop is not None:
            session.stop = stop_function(trainer.run_config.stop)
        if trainer.validation_config is not None:
            session.validate = _validation(trainer.validation_config)
        _views.remember(session.facts.run_path, trainer.run_config._view)
        if (elsewhere := trainer.run_config.elsewhere) is not None:
            _elsewhere.remember(session.facts.run_path, elsewhere)
            if self.root:
                elsewhere.begin(session.facts)
                session.sweeper = _elsewhere.Sweeper(elsewhere, session.facts)
        session.start_from(trainer.resume_from_checkpoint)

    # -- the loop -------------------------------------------------------------------------------------------------------
    def _train(self, session: LocalSession, directory: Directory, context: TrainRunContext) -> Any:
        loop = _loaded(self.trainer.train_loop_per_worker)
        config = _loaded(self.trainer._kept.get("config")) or self.trainer.train_loop_config
        value = None
        hooks = Hooks(session, self.trainer.backend_config)
        with _session.use(session), self._log_files():
            try:
                hooks.call("on_start")
                hooks.call("on_training_start")
                with contextlib.suppress(LoopEnded), hooks.around_loop():
                    try:
                        value = _loop_call.called(loop, config)
                        _behind.join()
                    except _behind.LoopInterrupted:
                        _behind.join()  # raises the error of a report that was made behind the loop
                        raise
                hooks.call("on_shutdown")
                session.wait_for_ends()
            except BaseException as error:
                _behind.abandon()
                _tracking.finish(failed=True)
                if self.root:
                    stopped = isinstance(error, KeyboardInterrupt)
                    self._end(session, directory, "STOPPED" if stopped else "FAILED", f"{type(error).__name__}: {error}")
                if isinstance(error, Exception) and not (isinstance(error, ControllerError) and error._of_a_callback):
                    with callback_errors():
                        for callback in self.callbacks:
                            callback.after_exception(context, {self.ranks.world_rank: error})
                raise
        _tracking.finish(failed=False)
        if self.root:
            session.forget_worse(succeeded=True)
            session.sweep()
            self._end(session, directory, "SUCCEEDED", "")
        return value

    def _log_files(self) -> contextlib.AbstractContextManager[None]:
        names = self.trainer.run_config.log_to_file
        return _log_files.copied(names) if isinstance(names, tuple) else contextlib.nullcontext()

    def _end(self, session: LocalSession, directory: Directory, state: str, cause: str) -> None:
        directory.end(state, cause, self.started_ms, session.last_metrics[0] if session.last_metrics else "null")

    def _reports_to_callbacks(self, context: TrainRunContext) -> Callable[[list[dict[str, Any]], Checkpoint | None], None]:
        def after_report(metrics: list[dict[str, Any]], checkpoint: Checkpoint | None) -> None:
            with callback_errors():
                for callback in self.callbacks:
                    callback.after_report(context, metrics, checkpoint)

        return after_report


class _Kept(Submission):
    """The submission that is stored in the run's directory. On a cluster, the same submission is sent to the head."""

    def _resume_from(self) -> dict[str, str] | None:
        given = self.trainer.resume_from_checkpoint
        return None if given is None else {"path": given._at}


@contextlib.contextmanager
def _kept_code(trainer: Training) -> Iterator[None]:
    """Makes the modules of the run from which this trainer was restored importable during the block."""
    _, archive = trainer._code or ("", b"")
    if not archive:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="rtrain-code-") as folder:
        _package.untar(_package.decompressed(archive), pathlib.Path(folder))
        sys.path.insert(0, folder)
        try:
            yield
        finally:
            with contextlib.suppress(ValueError):
                sys.path.remove(folder)


def _loaded(value: Any) -> Any:
    """Unpickles a part that a restored trainer keeps in pickled form."""
    return value.load() if isinstance(value, _package.Pickled) else value


def _validation(config: Any) -> Callable[[Checkpoint, object], Mapping[str, Any]]:
    def validate(checkpoint: Checkpoint, request: object) -> Mapping[str, Any]:
        arguments: dict[str, Any] = {}
        for task in (config.task_config, request):
            arguments.update(getattr(task, "fn_kwargs", None) or {})
        metrics = config.fn(checkpoint, **arguments)
        if not isinstance(metrics, Mapping):
            raise TypeError(f"the validation function gave a {type(metrics).__name__}; it gives a dict of metrics")
        return metrics

    return validate


def _trackers(config: Any) -> list[str]:
    return [name for name, enabled in config.tracking.items() if enabled]


def _storage(given: str | os.PathLike[str] | None) -> pathlib.Path:
    text = os.fspath(given or RESULTS)
    if "://" in text:
        raise ValueError(f"local mode keeps its runs in a directory, not in {text}; give RunConfig(storage_path=) a path")
    return pathlib.Path(text).expanduser().absolute()


def _say(text: str) -> None:
    print(f"rtrain: {text}", file=sys.stderr, flush=True)
