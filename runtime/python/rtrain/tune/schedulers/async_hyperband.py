"""Asynchronous successive halving (Li et al., "A System for Massively Parallel Hyperparameter Tuning", MLSys 2020), in the
variant that stops trials. At each rung a trial continues if it is among the best 1/reduction_factor of the trials that have
reached the rung.
"""

from __future__ import annotations

import math
from typing import Any

from rtrain.tune.schedulers._scheduler import Exploit, TrialFacts, Trials, TrialScheduler, checked_number, time_of

__all__ = ["ASHAScheduler", "AsyncHyperBandScheduler"]


class _Bracket:
    """Rungs at grace_period * reduction_factor^k, and the scores of the trials that reached them."""

    def __init__(self, first: float, last: float, factor: float) -> None:
        count = max(int(math.log(last / first, factor) + 1e-9) + 1, 1) if last > first else 1
        self.factor = factor
        self.rungs: list[tuple[float, dict[str, float]]] = [(first * factor**k, {}) for k in reversed(range(count))]

    def goes_on(self, trial_id: str, time: float, score: float) -> bool:
        for milestone, scores in self.rungs:
            if time < milestone:
                continue
            if trial_id in scores:
                return True  # judged there before; a trial is not judged at lower rungs, which it has jumped over
            scores[trial_id] = score
            better = sum(1 for other in scores.values() if other > score)
            return better < math.ceil(len(scores) / self.factor)
        return True


class AsyncHyperBandScheduler(TrialScheduler):
    """Stops trials that are behind other trials which got as far.

    time_attr: what counts as progress, a metric that grows.
    max_t: the progress at which every trial ends.
    grace_period: the least progress before a trial is stopped.
    reduction_factor: of so many trials at a rung one goes on.
    brackets: how many halvings there are side by side, each with a later first rung. Trials are dealt out among them; the
    earlier a bracket's first rung, the more trials it gets.
    stop_last_trials: whether a trial ends at max_t.
    """

    needs_metric = True

    def __init__(
        self,
        time_attr: str = "training_iteration",
        metric: str | None = None,
        mode: str | None = None,
        max_t: float = 100,
        grace_period: float = 1,
        reduction_factor: float = 4,
        brackets: int = 1,
        stop_last_trials: bool = True,  # noqa: FBT001, FBT002
    ) -> None:
        super().__init__(metric, mode)
        name = type(self).__name__
        for field, value in (("max_t", max_t), ("grace_period", grace_period)):
            checked_number(name, field, value, above=0)
        checked_number(name, "reduction_factor", reduction_factor, above=1)
        if max_t < grace_period:
            raise ValueError(f"{name}: max_t is {max_t!r}, which is below grace_period, {grace_period!r}")
        if isinstance(brackets, bool) or not isinstance(brackets, int) or brackets < 1:
            raise ValueError(f"{name}: brackets is {brackets!r}; it is a whole number from 1")
        self._time_attr, self._max_t, self._stop_last = time_attr, max_t, stop_last_trials
        firsts = [grace_period * reduction_factor**k for k in range(brackets)]
        self._brackets = [_Bracket(first, max_t, reduction_factor) for first in firsts]
        self._shares = [float(reduction_factor ** (brackets - 1 - k)) for k in range(brackets)]
        self._dealt = [0] * brackets
        self._bracket_of: dict[str, int] = {}
        self.stopped = 0

    def last_time(self) -> tuple[str, float] | None:
        return (self._time_attr, self._max_t) if self._stop_last else None

    def on_trial_add(self, tune_controller: Trials, trial: TrialFacts) -> None:
        wanting = min(range(len(self._brackets)), key=lambda k: ((self._dealt[k] + 1) / self._shares[k], k))
        self._dealt[wanting] += 1
        self._bracket_of[trial.trial_id] = wanting

    def on_trial_result(self, tune_controller: Trials, trial: TrialFacts, result: dict[str, Any]) -> str | Exploit:
        time, score = time_of(result, self._time_attr), self.score(result)
        if time is None:
            return self.CONTINUE
        if time >= self._max_t and self._stop_last:
            if score is not None:
                self._bracket(trial).goes_on(trial.trial_id, time, score)
            return self.STOP
        if score is None or self._bracket(trial).goes_on(trial.trial_id, time, score):
            return self.CONTINUE
        self.stopped += 1
        return self.STOP

    def on_trial_complete(self, tune_controller: Trials, trial: TrialFacts, result: dict[str, Any]) -> None:
        time, score = time_of(result, self._time_attr), self.score(result)
        if time is not None and score is not None:  # it ended by itself, at its best: others are measured by it
            self._bracket(trial).goes_on(trial.trial_id, time, score)

    def _bracket(self, trial: TrialFacts) -> _Bracket:
        if trial.trial_id not in self._bracket_of:
            self._bracket_of[trial.trial_id] = 0
        return self._brackets[self._bracket_of[trial.trial_id]]

    def debug_string(self) -> str:
        """Returns a line for each bracket: how many trials reached each of its milestones."""
        lines = []
        for number, bracket in enumerate(self._brackets):
            rungs = ", ".join(f"{milestone:g}: {len(scores)} trials" for milestone, scores in reversed(bracket.rungs))
            lines.append(f"bracket {number}: {rungs}")
        return f"{type(self).__name__}, {self.stopped} stopped; " + "; ".join(lines)


ASHAScheduler = AsyncHyperBandScheduler
