"""A run as experiment trackers see it, and the interface of a tracker. rtrain.integrations has the trackers for MLflow
and W&B.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rtrain.train._values._facts import Facts


@dataclass(frozen=True)
class TrackedRun:
    """The facts about the run and its attempt that a tracker needs."""

    name: str
    run_id: str
    attempt: int
    reports_before: int  # number of reports on the live branch before this attempt began
    folder: pathlib.Path | None  # the run's directory; None: this machine does not have it


class Tracker(Protocol):
    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Writes one report's values. `metrics` is flat: "loss", "val/accuracy"."""

    def finish(self, *, failed: bool) -> None: ...


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.items() if isinstance(value, int | float)}


def tracked(facts: Facts, name: str | None = None) -> TrackedRun:
    here = pathlib.Path(facts.run_path)
    folder = here if facts.run_path.startswith("/") and here.is_dir() else None
    known = _first_id(folder) if folder is not None else ""
    return TrackedRun(
        name or facts.experiment_name,
        known or facts.run_id or facts.experiment_name,
        facts.attempt,
        facts.reports_before,
        folder,
    )


def _first_id(folder: pathlib.Path) -> str:
    """Returns the id of the first run in this directory. It stays the same when another cluster resumes the run."""
    try:
        return str(json.loads((folder / "run.json").read_text())["run_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
