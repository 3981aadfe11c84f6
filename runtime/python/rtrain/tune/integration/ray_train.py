"""Passes the reports of an inner trainer's run on as the trial's reports."""

from __future__ import annotations

from typing import Any

from rtrain._http import Head, HeadError, part
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._run_context import TrainRunContext, UserCallback
from rtrain.tune._context import report

CHECKPOINT_PATH = "checkpoint_path"


class TuneReportCallback(UserCallback):
    """Makes the reports of a run inside of a trial the trial's own: rank 0's metrics.

    Use it by `RunConfig(callbacks=[TuneReportCallback()])` of the inner trainer. `checkpoint_path` is the inner run's newest
    committed checkpoint. A commit comes after its report. So if the run has ended with a newer checkpoint, its last metrics are
    reported once more, with that.
    """

    def __init__(self) -> None:
        self._last: dict[str, Any] | None = None
        self._path = ""

    def after_report(self, run_context: TrainRunContext, metrics: list[dict[str, Any]], checkpoint: Checkpoint | None) -> None:
        """Called after each report of the inner run: reports rank 0's metrics for the trial."""
        self._last = dict(metrics[0]) if metrics else {}
        self._path = checkpoint._at if checkpoint is not None else self._newest(run_context)
        self._report()

    def after_run(self, run_context: TrainRunContext) -> None:
        """Called after the inner run has ended: reports a checkpoint that was committed since."""
        newest = self._newest(run_context)
        if self._last is not None and newest != self._path:
            self._path = newest
            self._report()

    def _report(self) -> None:
        report({**(self._last or {}), **({CHECKPOINT_PATH: self._path} if self._path else {})})

    def _newest(self, run_context: TrainRunContext) -> str:
        try:
            run = Head.current().get(f"/v1/runs/{part(run_context.run_id)}")
        except HeadError:
            return self._path  # the run continues without its head; the next report asks again
        name = run.get("latest_checkpoint")
        return f"{run['run_path']}/{name}" if name else ""


RTrainReportCallback = TuneReportCallback
__all__ = ["CHECKPOINT_PATH", "RTrainReportCallback", "TuneReportCallback"]
