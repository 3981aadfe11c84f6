"""Adds iteration, times and the trial's id to the reports of a trial's worker. They continue when the trial continues."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

from rtrain.train._values import _metrics
from rtrain.tune._context import trial_of_environment

if TYPE_CHECKING:
    from rtrain.train._report._call import ReportCall
    from rtrain.train._session._cluster import ClusterSession


class TrialReports:
    """Adds the values that a sweep reads to each report of a trial."""

    def __init__(self, session: ClusterSession) -> None:
        trial = trial_of_environment()
        self._trial_id = str(trial["trial_id"])
        checkpoint = session.get_checkpoint()
        before = (checkpoint.metrics if checkpoint is not None else {}) or trial.get("base") or {}
        self._iteration = int(before.get("training_iteration") or 0)
        self._total_s = float(before.get("time_total_s") or 0.0)
        self._last = time.monotonic()

    def __call__(self, call: ReportCall) -> ReportCall:
        now = time.monotonic()
        passed, self._last = now - self._last, now
        self._iteration += 1
        self._total_s += passed
        given = call.metrics
        metrics: dict[str, Any] = {
            **given,
            "training_iteration": given.get("training_iteration", self._iteration),
            "time_this_iter_s": given.get("time_this_iter_s", passed),
            "time_total_s": given.get("time_total_s", self._total_s),
            "timestamp": given.get("timestamp", int(time.time())),
            "trial_id": self._trial_id,
        }
        return dataclasses.replace(call, metrics_json=_metrics.encode(metrics))


def join(session: ClusterSession) -> None:
    session.add_to_report = TrialReports(session)
