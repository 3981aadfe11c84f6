"""The median stopping rule (Golovin et al., "Google Vizier", KDD 2017): a trial whose best report is worse than the median
of what the others had on average up to the same time is stopped."""

from __future__ import annotations

import statistics
from typing import Any

from rtrain.tune.schedulers._scheduler import Exploit, TrialFacts, Trials, TrialScheduler, time_of

__all__ = ["MedianStoppingRule"]


class MedianStoppingRule(TrialScheduler):
    """Stops a trial whose best report is worse than the median of the other trials' means up to the same time.

    time_attr: what counts as progress.
    grace_period: the least progress before a trial is stopped; earlier reports of others do not count.
    min_samples_required: how many other trials must have got as far.
    min_time_slice: how far a trial goes between two judgements.
    hard_stop: True; a trial is stopped for good. False, which would pause it, is refused.
    """

    needs_metric = True

    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: str | None = None,
        mode: str | None = None,
        grace_period: float = 60.0,
        min_samples_required: int = 3,
        min_time_slice: float = 0,
        hard_stop: bool = True,  # noqa: FBT001, FBT002
    ) -> None:
        super().__init__(metric, mode)
        if not hard_stop:
            raise ValueError("MedianStoppingRule(hard_stop=False): trials are not paused by this version; leave it out")
        if isinstance(min_samples_required, bool) or not isinstance(min_samples_required, int) or min_samples_required < 1:
            raise ValueError(f"MedianStoppingRule: min_samples_required is {min_samples_required!r}; it is a whole number from 1")
        self._time_attr, self._grace, self._required, self._slice = time_attr, grace_period, min_samples_required, min_time_slice
        self._reports: dict[str, list[tuple[float, float]]] = {}  # by trial: (time, score), as they came
        self._judged: dict[str, float] = {}
        self.stopped = 0

    def on_trial_result(self, tune_controller: Trials, trial: TrialFacts, result: dict[str, Any]) -> str | Exploit:
        time, score = time_of(result, self._time_attr), self.score(result)
        if time is None or score is None:
            return self.CONTINUE
        reports = self._reports.setdefault(trial.trial_id, [])
        reports.append((time, score))
        since = self._judged.get(trial.trial_id)
        if time < self._grace or (since is not None and time - since < self._slice):
            return self.CONTINUE
        means = [mean for other in self._reports if other != trial.trial_id and (mean := self._mean(other, time)) is not None]
        if len(means) < self._required:
            return self.CONTINUE
        self._judged[trial.trial_id] = time
        if max(reported_score for _, reported_score in reports) >= statistics.median(means):
            return self.CONTINUE
        self.stopped += 1
        return self.STOP

    def _mean(self, trial_id: str, until: float) -> float | None:
        """Returns the mean of the reports from the grace period to that time; None for a trial that has none."""
        scores = [score for time, score in self._reports[trial_id] if self._grace <= time <= until]
        return sum(scores) / len(scores) if scores else None

    def debug_string(self) -> str:
        """Returns how many trials it has stopped, of how many."""
        return f"MedianStoppingRule, {self.stopped} stopped of {len(self._reports)} that reported"
