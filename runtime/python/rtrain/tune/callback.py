"""The hooks of a sweep's driver, which a script overrides."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from rtrain.train._checkpoint import Checkpoint
from rtrain.tune._trial import Trial

__all__ = ["Callback", "Trial"]


class Callback:
    """Functions that the driver of a sweep calls. An exception in one ends the sweep, and its trials are stopped.

    iteration: how many rounds the driver has made. trials: all trials so far. info: nothing yet; take it, as Ray's callbacks do.
    """

    def setup(self, stop: Any = None, num_samples: int | None = None, total_num_samples: int | None = None, **info: Any) -> None:
        """Called before the first trial.

        stop: RunConfig(stop=). num_samples: of TuneConfig. total_num_samples: how many trials there will be, grids counted; None
        where the searcher decides.
        """

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Called at the beginning of each round of the driver."""

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Called at the end of each round of the driver, which counts in `iteration`."""

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Called when a trial's run was submitted."""

    def on_trial_restore(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Called when a trial's workers have started from a checkpoint: after a failure or a drain, or another trial's checkpoint."""

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Called when a trial has failed and FailureConfig(max_failures=) lets it start once more."""

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Called when a checkpoint of a trial was committed, after `on_checkpoint`."""

    def on_checkpoint(self, iteration: int, trials: list[Trial], trial: Trial, checkpoint: Checkpoint, **info: Any) -> None:
        """Called when a checkpoint of a trial was committed, in the order of reports."""

    def on_trial_result(self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any) -> None:
        """Called when a trial reported; `result` has the metrics. Searcher and scheduler were called before."""

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Called when a trial has succeeded, or was stopped by the sweep."""

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Called when a trial has failed for good."""

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """Called when the sweep is over."""

    def get_state(self) -> dict[str, Any] | None:
        """Returns what is kept with the sweep for `set_state`; None: nothing. It is called whenever the sweep's file is written."""
        return None

    def set_state(self, state: dict[str, Any]) -> None:
        """Called by `Tuner.restore(...).fit()`, after `setup`, with what `get_state` returned last."""


def checked(callbacks: list[Any] | None) -> list[Callback]:
    """Returns the callbacks. Raises ValueError for an object that is none."""
    for callback in callbacks or []:
        if not isinstance(callback, Callback):
            raise ValueError(f"RunConfig(callbacks=): {callback!r} is not a rtrain.tune.Callback; derive its class from it")
    return list(callbacks or [])


class Callbacks:
    """Calls the hooks of all callbacks of a sweep, in their order."""

    def __init__(self, callbacks: list[Callback]) -> None:
        self.callbacks = callbacks

    def call(self, hook: str, **named: Any) -> None:
        """Calls the hook of each callback with these arguments, by their names."""
        for callback in self.callbacks:
            _call(getattr(callback, hook), named)

    def states(self, kept: Sequence[object] | None) -> list[dict[str, Any] | None]:
        """Returns the result of `get_state` of each callback in `kept`; None: of all."""
        asked = (
            self.callbacks
            if kept is None
            else [callback for callback in self.callbacks if any(callback is other for other in kept)]
        )
        return [callback.get_state() for callback in asked]

    def restore(self, states: list[dict[str, Any] | None]) -> None:
        """Gives each callback its own state. There may be fewer states, from a sweep of an earlier version."""
        for callback, state in zip(self.callbacks, states, strict=False):
            if state is not None:
                callback.set_state(state)


def _call(hook: Any, named: dict[str, Any]) -> None:
    """Calls a hook with named arguments. A hook with other argument names gets them in their order; `setup(self)` gets none."""
    try:
        signature = inspect.signature(hook)
    except (TypeError, ValueError):
        hook(**named)
        return
    for arguments, by_name in (((), named), (tuple(named.values()), {}), ((), {})):
        try:
            signature.bind(*arguments, **by_name)
        except TypeError:
            continue
        hook(*arguments, **by_name)
        return
    hook(**named)  # raises the TypeError that names the wrong argument
