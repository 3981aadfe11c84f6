"""What a sweep's driver tells the user's own code."""

from __future__ import annotations

from typing import Any

from rtrain.tune._trial import Trial

__all__ = ["Callback", "Trial"]


class Callback:
    """Functions that the driver of a sweep calls. An exception in one ends the sweep, and its trials are stopped."""

    def setup(self, **info: Any) -> None:
        """Called before the first trial."""

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Called when a trial's run was submitted."""

    def on_trial_result(self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any) -> None:
        """Called when a trial reported; `result` has the metrics."""

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Called when a trial has succeeded, or was stopped by the sweep."""

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Called when a trial has failed for good."""

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """Called when the sweep is over."""


def checked(callbacks: list[Any] | None) -> list[Callback]:
    """ValueError names what is none."""
    for callback in callbacks or []:
        if not isinstance(callback, Callback):
            raise ValueError(f"RunConfig(callbacks=): {callback!r} is not a rtrain.tune.Callback; derive its class from it")
    return list(callbacks or [])
