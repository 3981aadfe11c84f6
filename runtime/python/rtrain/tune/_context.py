"""Facts and functions for code inside a trial."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from rtrain._lazy import public_in
from rtrain.train import _loop, _session
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._context import TrainContext
from rtrain.train._values._facts import Facts

VARIABLE = "RTRAIN_TUNE_TRIAL"


class TuneContext(TrainContext):
    """The facts about this trial, which are constant during the life of the process."""

    def __init__(self, facts: Facts, trial: Mapping[str, Any]) -> None:
        super().__init__(facts)
        self._trial = trial

    def get_experiment_name(self) -> str:
        """The sweep's name."""
        return str(self._trial.get("experiment") or super().get_experiment_name())

    def get_trial_id(self) -> str:
        """This trial's id."""
        return str(self._trial.get("trial_id") or super().get_trial_id())

    def get_trial_name(self) -> str:
        """This trial's name."""
        return str(self._trial.get("trial_name") or super().get_trial_name())

    def get_trial_resources(self) -> dict[str, float]:
        """Returns the resources of all workers of the trial together: {"CPU": 1}."""
        return dict(self._trial.get("resources") or {})


def trial_of_environment() -> dict[str, Any]:
    """Returns the driver's facts about this trial; empty if this process is no trial."""
    text = os.environ.get(VARIABLE, "")
    trial = json.loads(text) if text else {}
    return trial if isinstance(trial, dict) else {}


def get_context() -> TuneContext:
    """Returns the facts about this trial. RuntimeError outside of one."""
    return TuneContext(_in_a_trial("get_context").facts, trial_of_environment())


def get_checkpoint() -> Checkpoint | None:
    """Returns the checkpoint to go on from, the trial's newest committed one; None where there is none.

    RuntimeError outside of a trial.
    """
    return _in_a_trial("get_checkpoint").get_checkpoint()


def report(
    metrics: Mapping[str, Any] | None = None,
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
    **named: Any,
) -> None:
    """Reports this trial's metrics, and a checkpoint if one is given. `rtrain.train.report` does the same and takes more.

    metrics: names to numbers, strings, lists and dicts of these. The older shape `report(loss=...)` is taken too.
    checkpoint: a directory, which may be deleted once this returns.

    `training_iteration`, `time_total_s`, `time_this_iter_s`, `timestamp` and `trial_id` are added.
    """
    _in_a_trial("report")
    if metrics is not None and not isinstance(metrics, Mapping):
        raise TypeError(f"tune.report takes a dict of metrics, not {metrics!r}")
    _loop.report({**(metrics or {}), **named}, checkpoint)


def _in_a_trial(name: str) -> _session.Session:
    session = _session.active()
    if session is None:
        raise RuntimeError(
            f"`rtrain.tune.{name}` cannot be used outside of a trial: call it in the function that is given to tune.Tuner"
        )
    return session


public_in("rtrain.tune", TuneContext, get_checkpoint, get_context, report)
