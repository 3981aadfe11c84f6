"""Stoppers: they end a trial, or all trials, depending on the reports. Pure, except for TimeoutStopper's clock."""

from __future__ import annotations

import datetime
import statistics
import time
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

from rtrain.train._values._metrics import nested


class Stopper:
    """Decides which trials end. It is called with each report: True ends that trial. `stop_all()`: True ends all.

    If `per_trial` is True, the trial's own worker evaluates a copy of it, and the trial ends at that report. Otherwise the driver
    evaluates it, and the trial may report some more before it ends.
    """

    per_trial = False

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        raise NotImplementedError(f"{type(self).__name__} decides nothing: override __call__(trial_id, result)")

    def stop_all(self) -> bool:
        """Returns whether the whole sweep ends now."""
        return False


class NoopStopper(Stopper):
    """Ends nothing."""

    per_trial = True

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False


class FunctionStopper(Stopper):
    """Ends a trial when `function(trial_id, result)` returns True."""

    per_trial = True

    def __init__(self, function: Callable[[str, dict[str, Any]], bool]) -> None:
        if not callable(function):
            raise ValueError(f"FunctionStopper takes a function (trial_id, result) -> bool, not {function!r}")
        self._function = function

    @classmethod
    def is_valid_function(cls, function: object) -> bool:
        """Returns whether `function` can be one: something that can be called and is no Stopper."""
        return callable(function) and not isinstance(function, Stopper)

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return bool(self._function(trial_id, result))


class MaximumIterationStopper(Stopper):
    """Ends a trial at its `max_iter`-th iteration."""

    per_trial = True

    def __init__(self, max_iter: int) -> None:
        if isinstance(max_iter, bool) or not isinstance(max_iter, int) or max_iter < 1:
            raise ValueError(f"MaximumIterationStopper: max_iter is {max_iter!r}; it is a whole number from 1")
        self._max_iter = max_iter

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return int(result.get("training_iteration") or 0) >= self._max_iter


class TrialPlateauStopper(Stopper):
    """Ends a trial whose `metric` has a standard deviation of at most `std` over its last `num_results` reports.

    grace_period: how many reports a trial makes before it may end.
    metric_threshold, mode: only where the metric is at most ("min") or at least ("max") this value.
    """

    per_trial = True

    def __init__(
        self,
        metric: str,
        std: float = 0.01,
        num_results: int = 4,
        grace_period: int = 4,
        metric_threshold: float | None = None,
        mode: str | None = None,
    ) -> None:
        if metric_threshold is not None and mode not in ("min", "max"):
            raise ValueError(f"TrialPlateauStopper: metric_threshold needs a mode, 'min' or 'max'; it is {mode!r}")
        if isinstance(num_results, bool) or not isinstance(num_results, int) or num_results < 1:
            raise ValueError(f"TrialPlateauStopper: num_results is {num_results!r}; it is a whole number from 1")
        self._metric, self._std, self._count, self._grace = metric, std, num_results, grace_period
        self._threshold, self._mode = metric_threshold, mode
        self._seen: dict[str, int] = defaultdict(int)
        self._last: dict[str, deque[float]] = {}

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        value = nested(result, self._metric)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        self._seen[trial_id] += 1
        last = self._last.setdefault(trial_id, deque(maxlen=self._count))
        last.append(float(value))
        if self._seen[trial_id] < self._grace or len(last) < self._count or not self._beyond(value):
            return False
        return statistics.pstdev(last) <= self._std

    def _beyond(self, value: float) -> bool:
        if self._threshold is None:
            return True
        return value <= self._threshold if self._mode == "min" else value >= self._threshold


class ExperimentPlateauStopper(Stopper):
    """Ends the sweep when the best reports no longer become better.

    That is when the best `top` values of `metric` have a standard deviation of at most `std`, and have not become better over
    `patience` further reports.
    """

    def __init__(self, metric: str, std: float = 0.001, top: int = 10, mode: str = "min", patience: int = 0) -> None:
        if mode not in ("min", "max"):
            raise ValueError(f"ExperimentPlateauStopper: mode is {mode!r}; it is 'min' or 'max'")
        if isinstance(top, bool) or not isinstance(top, int) or top < 2:
            raise ValueError(f"ExperimentPlateauStopper: top is {top!r}; it is a whole number from 2")
        if isinstance(patience, bool) or not isinstance(patience, int) or patience < 0:
            raise ValueError(f"ExperimentPlateauStopper: patience is {patience!r}; it is a whole number from 0")
        self._metric, self._std, self._count, self._mode, self._patience = metric, std, top, mode, patience
        self._top: list[float] = []  # the best first
        self._waited = 0
        self._all = False

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        value = nested(result, self._metric)
        if not isinstance(value, bool) and isinstance(value, int | float):
            self._take(float(value))
        return self._all

    def _take(self, value: float) -> None:
        before = list(self._top)
        self._top = sorted([*self._top, value], reverse=self._mode == "max")[: self._count]
        flat = len(self._top) == self._count and statistics.pstdev(self._top) <= self._std
        self._waited = self._waited + 1 if flat and self._top == before else 0
        if flat and self._waited >= self._patience:
            self._all = True

    def stop_all(self) -> bool:
        """Returns whether the best values no longer become better."""
        return self._all


class TimeoutStopper(Stopper):
    """Ends the sweep `timeout` seconds (or a timedelta) after it was first asked."""

    def __init__(self, timeout: float | datetime.timedelta) -> None:
        seconds = timeout.total_seconds() if isinstance(timeout, datetime.timedelta) else timeout
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds <= 0:
            raise ValueError(f"TimeoutStopper: timeout is {timeout!r}; it is a number of seconds above 0, or a timedelta")
        self._left_s = float(seconds)
        self._since: float | None = None

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        """Returns whether the time is over. It begins with the first call."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        return now - self._since >= self._left_s

    def __getstate__(self) -> dict[str, Any]:
        """A sweep that is taken up again has what was left."""
        gone = 0.0 if self._since is None else time.monotonic() - self._since
        return {"_left_s": max(self._left_s - gone, 0.0), "_since": None}


class CombinedStopper(Stopper):
    """Ends a trial, or the sweep, when one of the stoppers does."""

    def __init__(self, *stoppers: Stopper) -> None:
        for stopper in stoppers:
            if not isinstance(stopper, Stopper):
                raise ValueError(f"CombinedStopper takes stoppers, not {stopper!r}")
        self._stoppers = stoppers

    @property
    def per_trial(self) -> bool:  # type: ignore[override]
        """Whether workers can ask it: whether they can ask each of its stoppers."""
        return all(stopper.per_trial for stopper in self._stoppers)

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        answers = [stopper(trial_id, result) for stopper in self._stoppers]  # each is to hear of it
        return any(answers)

    def stop_all(self) -> bool:
        """Returns whether one of its stoppers ends the sweep."""
        return any(stopper.stop_all() for stopper in self._stoppers)


class DictStopper(Stopper):
    """`RunConfig(stop={"metric": value})`: ends a trial at which any metric is at its value or above."""

    per_trial = True

    def __init__(self, limits: dict[str, float]) -> None:
        self.limits = limits

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        values_and_limits = ((nested(result, name), limit) for name, limit in self.limits.items())
        return any(isinstance(value, int | float) and value >= limit for value, limit in values_and_limits)


__all__ = [
    "CombinedStopper",
    "ExperimentPlateauStopper",
    "FunctionStopper",
    "MaximumIterationStopper",
    "NoopStopper",
    "Stopper",
    "TimeoutStopper",
    "TrialPlateauStopper",
]
