"""Passes reports to experiment trackers, on rank 0: TensorBoard, MLflow, Weights & Biases.

A run has one tracked run for all its attempts. The step is the number of the report on the live branch, so an
attempt that starts from a checkpoint continues after that checkpoint's step. Steps that an earlier attempt wrote are
not written again. An exception of a tracker is printed once. It ends that tracker alone, never the run.
"""

from __future__ import annotations

import atexit
import functools
import os
import pathlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rtrain._nested import flatten
from rtrain.train._report._call import ReportCall
from rtrain.train._session._protocol import Session
from rtrain.train._values._facts import Facts
from rtrain.train._worker import _behind
from rtrain.train._workers._tracked_run import TrackedRun, Tracker, numbers, tracked


class Tracking:
    """All trackers of this process, made at the first report."""

    def __init__(self, run: TrackedRun, makers: Mapping[str, Callable[[TrackedRun], Tracker]]) -> None:
        self._run = run
        # key: a tracker's name; value: the function that makes it; without trackers that have failed
        self.makers = dict(makers)
        self._trackers: dict[str, Tracker] = {}
        self._reports = 0

    def reported(self, metrics: Mapping[str, Any]) -> None:
        self._reports += 1
        # Empty dicts are left out.
        values = {name: value for name, value in flatten(metrics).items() if not isinstance(value, Mapping)}
        for name, make in list(self.makers.items()):
            try:
                if name not in self._trackers:
                    self._trackers[name] = make(self._run)
                self._trackers[name].log(self._run.reports_before + self._reports, values)
            except Exception as fault:  # an exception of a tracker never fails the run
                self._give_up(name, fault)

    def finish(self, *, failed: bool = False) -> None:
        for name, tracker in list(self._trackers.items()):
            try:
                tracker.finish(failed=failed)
            except Exception as fault:
                self._give_up(name, fault)
        self._trackers.clear()
        self.makers.clear()

    def _give_up(self, name: str, fault: Exception) -> None:
        self.makers.pop(name, None)
        self._trackers.pop(name, None)
        print(
            f"rtrain: {name} gets no more metrics of this run, which goes on: {type(fault).__name__}: {fault}",
            file=sys.stderr,
            flush=True,
        )


class TensorBoard:
    """Writes event files to `<run directory>/tensorboard` with TensorBoard's own writer. The writer of torch would
    import torch, and so make the process group, on rank 0 alone. TensorBoard's reader drops the steps that an
    earlier attempt wrote after the checkpoint from which this one starts.
    """

    def __init__(self, run: TrackedRun, folder: str | os.PathLike[str] | None = None) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        if folder is None and run.folder is None:
            raise ValueError(
                "the run's directory is not on a file system of this node, so there is no place for event files; give the "
                "run a storage_path that the nodes mount, or set RTRAIN_TENSORBOARD_DIR"
            )
        place = pathlib.Path(folder) if folder is not None else (run.folder or pathlib.Path()) / "tensorboard"
        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        self._writer = EventFileWriter(str(place), flush_secs=2)
        if run.attempt > 1:
            begins = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
            self._write(run.reports_before + 1, session_log=begins)

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in numbers(metrics).items()]
        self._write(step, summary=self._summary(value=values))

    def _write(self, step: int, **what: Any) -> None:
        self._writer.add_event(self._event(wall_time=time.time(), step=step, **what))

    def finish(self, *, failed: bool) -> None:
        self._writer.close()


def makers(names: Sequence[str]) -> dict[str, Callable[[TrackedRun], Tracker]]:
    """Returns functions that make the named trackers. Only their calls import the trackers' packages."""
    known: dict[str, Callable[[TrackedRun], Tracker]] = {
        "tensorboard": lambda run: TensorBoard(run, os.environ.get("RTRAIN_TENSORBOARD_DIR") or None),
        "mlflow": _mlflow,
        "wandb": _wandb,
    }
    return {name: known[name] for name in names if name in known}


def _mlflow(run: TrackedRun) -> Tracker:
    from rtrain.integrations.mlflow import MLflowTracker

    return MLflowTracker(run)


def _wandb(run: TrackedRun) -> Tracker:
    from rtrain.integrations.wandb import WandbTracker

    return WandbTracker(run)


def names_of_job() -> list[str]:
    """Returns the trackers in the job's `tracking`, from the environment that the agent set."""
    return [name for name in os.environ.get("RTRAIN_TRACKING", "").split(",") if name]


_of_process: Tracking | None = None


def reported(session: Session, call: ReportCall) -> None:
    """Passes a report that every rank has made to the trackers. The first report makes them."""
    tracking = _of_process if _of_process is not None else _begin(session.facts)
    if tracking.makers:
        tracking.reported(call.metrics)


def _begin(facts: Facts) -> Tracking:
    global _of_process
    _of_process = Tracking(tracked(facts), makers(names_of_job()) if facts.world_rank == 0 else {})
    atexit.register(finish_at_exit)
    _behind.before_failed_exit["trackers"] = functools.partial(finish, failed=True)
    return _of_process


def start(facts: Facts, names: Sequence[str]) -> None:
    """Starts the trackers of a run that this process makes itself, in local mode."""
    global _of_process
    _of_process = Tracking(tracked(facts), makers(names) if facts.world_rank == 0 else {})
    _behind.before_failed_exit["trackers"] = functools.partial(finish, failed=True)


def finish(*, failed: bool) -> None:
    global _of_process
    if _of_process is not None:
        _of_process.finish(failed=failed)
        _of_process = None


def finish_at_exit() -> None:
    finish(failed=getattr(sys, "last_type", None) is not None)
