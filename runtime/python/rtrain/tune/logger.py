"""Callbacks that write the reports of trials, under Ray Tune's names."""

from __future__ import annotations

from typing import Any

from rtrain.train._refused import refused
from rtrain.tune._trial import Trial
from rtrain.tune.callback import Callback

__all__ = ["CSVLoggerCallback", "JsonLoggerCallback", "LoggerCallback", "TBXLoggerCallback"]


class LoggerCallback(Callback):
    """A callback whose methods concern one trial. Override `log_trial_result`, and others if needed."""

    def log_trial_start(self, trial: Trial) -> None:
        """Called when a trial's run was submitted."""

    def log_trial_restore(self, trial: Trial) -> None:
        """Called when a trial's workers have started from a checkpoint."""

    def log_trial_save(self, trial: Trial) -> None:
        """Called when a checkpoint of a trial was committed; `trial.checkpoint` is that."""

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """Called when a trial reported."""

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:  # noqa: FBT001, FBT002
        """Called when a trial has ended. failed: whether it has failed for good."""

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Calls `log_trial_start`."""
        self.log_trial_start(trial)

    def on_trial_restore(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Calls `log_trial_restore`."""
        self.log_trial_restore(trial)

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Calls `log_trial_save`."""
        self.log_trial_save(trial)

    def on_trial_result(self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any) -> None:
        """Calls `log_trial_result`."""
        self.log_trial_result(iteration, trial, result)

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Calls `log_trial_end`."""
        self.log_trial_end(trial, failed=False)

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Calls `log_trial_end` with failed=True."""
        self.log_trial_end(trial, failed=True)


_ROWS = "each Result has all reports (metrics_dataframe), and `rtrain metrics RUN -o json` prints them"
CSVLoggerCallback = refused("CSVLoggerCallback", _ROWS, __name__)
JsonLoggerCallback = refused("JsonLoggerCallback", _ROWS, __name__)
TBXLoggerCallback = refused("TBXLoggerCallback", 'RunConfig(tracking={"tensorboard": True}) writes every report', __name__)
