"""The session of a process that an agent started. Uses librtrain_worker for reports and collectives, and the head
for requests about the whole run.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import pathlib
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from rtrain.train import _worker
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._report._call import ReportCall
from rtrain.train._report._reports import Reports
from rtrain.train._run_directory import _elsewhere
from rtrain.train._session import _loop_environment
from rtrain.train._session._protocol import ReportedCheckpoint
from rtrain.train._values import _metrics, _names
from rtrain.train._values._facts import (
    CheckpointConsistencyMode,
    Facts,
    LoopEnded,
    PreemptionInfo,
    ResizeInfo,
)
from rtrain.train._worker import _behind
from rtrain.train._worker._library import check, library

_STOPS = 2  # result of rtw_wanted: the run is being stopped
_HEAD_S = 1.0  # seconds for which a report waits for a head that does not answer
_PIECE = 32 << 20  # bytes of a piece of a broadcast; a frame holds at most 48 MiB


class ClusterSession:
    def __init__(self) -> None:
        self._facts: Facts | None = None
        self._reports = Reports()
        # The attributes below are set by the main module of a worker of `fit()`. A bare worker does not have them.
        self.shards: Any = None
        self.stop: Callable[[str, dict[str, Any]], bool] | None = None
        # a function that adds the fields of a sweep's trial to each report
        self.add_to_report: Callable[[ReportCall], ReportCall] | None = None
        self.validates = False
        self._gathered = self._exchanged = 0
        self._collectives = 0
        self._watch: Any = None
        self.resume_from: dict[str, str] | None = None
        # set on rank 0 if the checkpoints' files are on another file system
        self.sweeper: _elsewhere.Sweeper | None = None

    @property
    def facts(self) -> Facts:
        return self._facts if self._facts is not None else self._reports.facts

    @property
    def reports_made(self) -> int:
        return self._reports.count

    def describe(self, metadata: dict[str, Any]) -> None:
        """Sets the trainer's `metadata` in the facts."""
        self._facts = dataclasses.replace(self.facts, metadata=metadata)

    def report(self, call: ReportCall) -> None:
        if self.add_to_report is not None:
            call = self.add_to_report(call)
        something_follows = self.stop is not None or self.sweeper is not None or bool(call.validation)
        self._reports.make(call, validates=self.validates, then=self._follow if something_follows else None)

    def _follow(self, call: ReportCall) -> None:
        """Runs the steps that follow a report of all ranks."""
        if self.sweeper is not None and call.directory is not None:
            self.sweep()
        if call.validation:
            self._request_validation(call)
        if self.stop is not None:
            self._end_when_reached(call)

    def sweep(self) -> None:
        """Removes files of checkpoints that the run no longer keeps. A failure is retried at the next report."""
        from rtrain.train._session import _reported

        assert self.sweeper is not None
        try:
            _reported.sweep(self.sweeper, self.facts, _HEAD_S)
        except Exception as error:  # The user's file system may raise any exception; the report has been made.
            print(f"rtrain: files of checkpoints that are gone stay for now: {error}", file=sys.stderr, flush=True)

    def _fresh_directory(self) -> str:
        """Returns a new directory for a checkpoint. While a report is being made behind the loop, the worker library
        must not be called. Then the directory is in scratch, and its files are copied when they are reported without an
        upload function.
        """
        if not _behind.under_way():
            return _worker.fresh_directory()
        directory = tempfile.mkdtemp(prefix="checkpoint-", dir=self.scratch_dir())
        self._reports.given_away.add(directory)
        return directory

    def _request_validation(self, call: ReportCall) -> None:
        """Requests a validation, on rank 0. Waits for the commit first, since the request needs the committed name."""
        if self.facts.world_rank != 0:
            return
        from rtrain.train._session import _validations

        self.flush(None)
        committed = self.get_checkpoint()
        if committed is not None:
            _validations.request(_worker.head(), self.facts.run_id, committed.name, call.validation)

    def _end_when_reached(self, call: ReportCall) -> None:
        """Calls the run's `stop` on rank 0. Every rank ends at the same report."""
        assert self.stop is not None
        reached = bool(self.stop(self.facts.experiment_name, call.metrics)) if self.facts.world_rank == 0 else None
        if self.broadcast_from_rank_zero(reached, "report()"):
            raise LoopEnded(0)

    def get_checkpoint(self) -> Checkpoint | None:
        _behind.join()
        text = library().rtw_checkpoint_json(_worker.handle("get_checkpoint"))
        if text is None:
            return self._given_checkpoint()
        newest = json.loads(text)
        metrics = _metrics.decode(newest["metrics"])
        # An empty path means that the head stores the checkpoint, so it is read through the head.
        path = newest["path"] or f"{self.facts.run_path}/{newest['directory']}"
        if (elsewhere := _elsewhere.of(self.facts.run_path)) is not None and _elsewhere.of(path) is None:
            _elsewhere.remember(path, elsewhere)  # `path` is that of the agent's copy
        return Checkpoint._kept(
            path,
            metrics=metrics if isinstance(metrics, dict) else None,
            name=newest["directory"],
            run_path=self.facts.run_path,
        )

    def goes_on(self) -> bool:
        """Returns whether the run has a checkpoint of its own."""
        return library().rtw_checkpoint_json(_worker.handle("get_checkpoint")) is not None

    def _given_checkpoint(self) -> Checkpoint | None:
        """Returns the trainer's `resume_from_checkpoint`, which is used only while the run has no checkpoint of its
        own.
        """
        if self.resume_from is None:
            return None
        if "blob" not in self.resume_from:
            return Checkpoint(self.resume_from["path"])
        from rtrain.train._archive._package import untar

        folder = pathlib.Path(self.scratch_dir()) / f"resume-{self.facts.world_rank}"
        if not folder.is_dir():
            untar(_worker.head().content(f"/v1/blobs/{self.resume_from['blob']}"), folder)
        return Checkpoint(str(folder))

    def all_reported_checkpoints(
        self, consistency: CheckpointConsistencyMode, timeout_s: float | None
    ) -> list[ReportedCheckpoint]:
        from rtrain.train._session import _reported

        self.flush(timeout_s)
        newest = self.get_checkpoint()
        return _reported.of_run(self.facts, consistency, timeout_s, newest.name if newest else "")

    def should_checkpoint(self) -> bool:
        request = int(library().rtw_wanted(_worker.handle("should_checkpoint")))
        # A report that is being made already fulfils the request.
        return request == _STOPS or (request != 0 and not _behind.under_way())

    def resize_info(self) -> ResizeInfo:
        from rtrain.train._session import _reported

        return _reported.resize_info(self.facts)

    def resources(self) -> dict[str, float]:
        from rtrain.train._session import _reported

        return _reported.resources(self.facts)

    def preemption_info(self) -> PreemptionInfo | None:
        from rtrain.train._session import _reported
        from rtrain.train._worker import _checkpoint_request

        preemption = (
            _reported.preemption_info(self.facts, _checkpoint_request.checkpoint_wanted()) if self.facts.world_rank == 0 else None
        )
        answer: PreemptionInfo | None = self.broadcast_from_rank_zero(preemption, "get_preemption_info()")
        return answer

    def barrier(self, caller: str = "collective.barrier()") -> None:
        self._broadcast(b"" if self.facts.world_rank == 0 else None, caller)

    def broadcast_from_rank_zero(self, data: Any, caller: str = "collective.broadcast_from_rank_zero()") -> Any:
        """Returns rank 0's object on every rank. It is pickled, and sent in pieces, so that its size is not limited."""
        if self.facts.world_rank != 0:
            pieces = int.from_bytes(self._broadcast(None, caller), "big")
            return pickle.loads(b"".join([self._broadcast(None, caller) for _ in range(pieces)]))
        text = pickle.dumps(data)
        pieces = -(-len(text) // _PIECE)
        self._broadcast(pieces.to_bytes(4, "big"), caller)
        for number in range(pieces):
            self._broadcast(text[number * _PIECE : (number + 1) * _PIECE], caller)
        return data

    def _broadcast(self, data: bytes | None, caller: str) -> bytes:
        _behind.join()
        self._collectives += 1
        if self.facts.world_size == 1:
            return self._broadcast_now(data)
        from rtrain.train._worker import _collective_limit

        coming = _collective_limit.Coming(self.facts, "collective", self._collectives, caller)
        limit = _names.setting("COLLECTIVE_TIMEOUT_S")
        if limit:
            return _collective_limit.within(float(limit), lambda: self._broadcast_now(data), coming)
        if self._watch is None:
            self._watch = _collective_limit.Watch()
        with self._watch.over(coming):
            return self._broadcast_now(data)

    def _broadcast_now(self, data: bytes | None) -> bytes:
        out, size = ctypes.c_void_p(), ctypes.c_uint64()
        code = library().rtw_broadcast(
            _worker.handle("collective"), data, 0 if data is None else len(data), ctypes.byref(out), ctypes.byref(size)
        )
        check(code, "collective")
        return ctypes.string_at(out.value, size.value) if out.value and size.value else b""

    def gather_to_rank_zero(self, value: Any) -> list[Any]:
        """Gathers through values of the run at the head, so it is only for small objects and rare calls."""
        from rtrain.train._session import _gather

        self._gathered += 1
        return _gather.to_rank_zero(self.facts, str(self._gathered), value)

    def exchange(self, value: Any, caller: str = "get_dataset_shard()") -> list[Any]:
        """Returns the objects of all ranks. The barrier has no time limit."""
        from rtrain.train._session import _gather

        if self.facts.world_size == 1:
            return [value]
        self.barrier(caller)
        self._exchanged += 1
        gathered = _gather.to_rank_zero(self.facts, "all", value, self._exchanged)
        objects: list[Any] = self.broadcast_from_rank_zero(gathered, caller)
        return objects

    def dataset_shard(self, name: str | None, state_dict: Any = None) -> Any:
        return _loop_environment.shard_of(self.shards, name, state_dict)

    @contextlib.contextmanager
    def checkpoint_dir(self) -> Iterator[str]:
        with _loop_environment.removed_unless_reported(self._fresh_directory(), self._reports.taken_over) as directory:
            yield directory
            self._reports.given_away.discard(directory)

    def scratch_dir(self) -> str:
        return _loop_environment.scratch_dir()

    def flush(self, timeout_s: float | None) -> None:
        _behind.join()
        milliseconds = -1 if timeout_s is None else int(timeout_s * 1000)
        check(library().rtw_flush(_worker.handle("flush"), milliseconds), "flush")
