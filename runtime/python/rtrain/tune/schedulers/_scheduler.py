"""The interface of schedulers: a scheduler gets each report and returns whether the trial continues. Pure: no clock, no
cluster."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rtrain._lazy import public_in
from rtrain.train._values._metrics import nested
from rtrain.tune._objective import Objective


class TrialFacts(Protocol):
    """The facts about a trial that a scheduler reads."""

    trial_id: str
    config: dict[str, Any]
    status: str
    last_result: dict[str, Any]


class Trials(Protocol):
    """The sweep, as a scheduler sees it."""

    def get_trials(self) -> list[Any]:
        """Returns all trials so far, in their order."""
        ...

    def has_checkpoint(self, trial_id: str) -> bool: ...


@dataclass(frozen=True)
class Exploit:
    """A decision of a scheduler: the trial continues from the newest checkpoint of the trial `donor_id`, with another config."""

    donor_id: str
    config: dict[str, Any]


class TrialScheduler(Objective):
    """Base of schedulers. `on_trial_result` answers CONTINUE or STOP (population based training also an Exploit).

    A scheduler is pickled with the sweep's state. A trial goes on while it is judged: reports that come between a report and
    its STOP are kept and not judged.
    """

    CONTINUE = "CONTINUE"
    PAUSE = "PAUSE"
    """Refused with a TuneError, because nothing pauses a run. Scripts that compare with it can."""
    STOP = "STOP"
    NOOP = "NOOP"
    needs_metric = False
    """Whether there must be a metric, in the scheduler or in TuneConfig."""

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """Takes the metric and mode of TuneConfig where the scheduler was given none.

        ValueError where they differ from its own, and where it needs them and there are none.
        """
        for own, given, name in ((self._metric, metric, "metric"), (self._mode, mode, "mode")):
            if own is not None and given is not None and own != given:
                raise ValueError(f"{type(self).__name__}({name}={own!r}) and TuneConfig({name}={given!r}) differ; give one")
        self._complete(metric, mode)
        if self.needs_metric and (self._metric is None or self._mode is None):
            raise ValueError(
                f"{type(self).__name__} compares trials: it needs a metric and a mode ('min' or 'max'), its own or TuneConfig's"
            )
        return True

    def score(self, result: Mapping[str, Any]) -> float | None:
        """Returns the metric of a report, larger being better; None when the report has none. NaN is the worst."""
        value = nested(result, self._metric or "")
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        if math.isnan(value):
            return -math.inf
        return float(value) if self._mode == "max" else -float(value)

    def last_time(self) -> tuple[str, float] | None:
        """Returns the name of a metric and the value at which every trial ends; None: trials end by themselves.

        A trial's own worker compares, so that it ends exactly there.
        """
        return None

    def on_trial_add(self, tune_controller: Trials, trial: TrialFacts) -> None:
        """Called when a trial was made."""

    def on_trial_result(self, tune_controller: Trials, trial: TrialFacts, result: dict[str, Any]) -> str | Exploit:
        """Called when a trial reported. Returns whether it goes on: CONTINUE, STOP, or an Exploit."""
        return self.CONTINUE

    def on_trial_complete(self, tune_controller: Trials, trial: TrialFacts, result: dict[str, Any]) -> None:
        """Called when a trial has ended by itself, or was stopped. `result` is its last report."""

    def on_trial_error(self, tune_controller: Trials, trial: TrialFacts) -> None:
        """Called when a trial has failed for good."""

    def on_trial_remove(self, tune_controller: Trials, trial: TrialFacts) -> None:
        """Called when a trial that waits for its run ends with the sweep."""

    def choose_trial_to_run(self, tune_controller: Trials) -> Any:
        """Returns the trial that starts next: one of `tune_controller.get_trials()` whose status is PENDING.

        None: none starts now, and the question comes again. Trials that are not started yet are offered only to a class that
        overrides this: up to 16 variants of a space, or the one proposal of a searcher. Without, trials start in their order.
        """
        return next((trial for trial in tune_controller.get_trials() if trial.status == "PENDING"), None)

    def debug_string(self) -> str:
        """Returns a sentence about what the scheduler has decided so far."""
        return type(self).__name__


class FIFOScheduler(TrialScheduler):
    """Every trial runs to its own end."""

    def __init__(self) -> None:
        super().__init__()


def time_of(result: Mapping[str, Any], time_attr: str) -> float | None:
    value = nested(result, time_attr)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def checked_number(what: str, name: str, value: Any, *, above: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > above:
        raise ValueError(f"{what}: {name} is {value!r}; it is a number above {above:g}")


public_in("rtrain.tune.schedulers", Exploit, FIFOScheduler, TrialScheduler)
