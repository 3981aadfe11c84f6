"""Adds the parts of a worker of `fit()` to its session: shares of datasets, `stop` as a function, validation,
metadata, and the fields of a sweep's trial.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from rtrain.train._archive._package import Payload
from rtrain.train._run_directory import _elsewhere, _views
from rtrain.train._session._cluster import ClusterSession
from rtrain.train._session._protocol import Session
from rtrain.train._values._metrics import nested
from rtrain.train._workers._datasets import Shards


def prepare(session: Session, payload: Payload) -> None:
    if not isinstance(session, ClusterSession):
        return
    session.describe(payload.header.get("metadata") or {})
    if "datasets" in payload.parts:
        session.shards = Shards(payload.part("datasets"), payload.part("data_config"), session.facts)
    if "stop" in payload.parts:
        session.stop = stop_function(payload.part("stop"))
    session.validates = bool(payload.header.get("validation"))
    session.resume_from = payload.header.get("resume_from")
    if "view" in payload.parts:
        _views.remember(session.facts.run_path, payload.part("view"))
    if "elsewhere" in payload.parts:
        elsewhere = payload.part("elsewhere")
        _elsewhere.remember(session.facts.run_path, elsewhere)
        if session.facts.world_rank == 0:
            elsewhere.begin(session.facts)
            session.sweeper = _elsewhere.Sweeper(elsewhere, session.facts)
    if (place := payload.header.get("goes_on_in")) and not session.goes_on():
        raise RuntimeError(
            f"this run was restored from {place}, where its driver sees checkpoints, and node {session.facts.node} finds no sound one in "
            f"{session.facts.run_path}: it would begin anew. Let the nodes mount that path, or copy the directory to one that they "
            "mount and restore that"
        )
    if os.environ.get("RTRAIN_TUNE_TRIAL"):
        from rtrain.tune import _trial_reports

        _trial_reports.join(session)


def finish(session: Session) -> None:
    """After the last report, removes files on the run's other file system to which no pointer leads."""
    if isinstance(session, ClusterSession) and session.sweeper is not None:
        session.sweep()


def stop_function(stop: Any) -> Callable[[str, dict[str, Any]], bool]:
    """Returns the run's `stop` as a function. `{"metric": value}` is reached if the metric is equal to or above the
    value.
    """
    if not isinstance(stop, Mapping):
        users_function: Callable[[str, dict[str, Any]], bool] = stop
        return users_function

    def reached(_name: str, metrics: dict[str, Any]) -> bool:
        values_and_limits = ((nested(metrics, key), value) for key, value in stop.items())
        return any(
            isinstance(metric, int | float) and not isinstance(metric, bool) and metric >= limit
            for metric, limit in values_and_limits
        )

    return reached
