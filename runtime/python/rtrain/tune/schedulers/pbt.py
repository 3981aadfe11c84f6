"""Population based training (Jaderberg et al., 2017): at intervals, a trial among the worst goes on from the checkpoint of one
among the best, with a config that is a changed copy of that one's."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Mapping
from typing import Any

from rtrain._arguments import check_named
from rtrain.tune.schedulers._scheduler import Exploit, TrialFacts, Trials, TrialScheduler, checked_number, time_of
from rtrain.tune.search.sample import Domain

__all__ = ["PopulationBasedTraining"]

Mutations = Mapping[str, Any]


class PopulationBasedTraining(TrialScheduler):
    """At intervals, moves a trial among the worst to the checkpoint of one among the best, with a changed copy of its config.

    time_attr, perturbation_interval: how far a trial goes between two judgements. burn_in_period: no judgement before.
    hyperparam_mutations: names in the config (nested dicts as there) to a domain such as tune.uniform(0, 1), a list of values,
    or a function without arguments.
    resample_probability: how likely a value is drawn anew. Otherwise a number is multiplied by one of `perturbation_factors`, and of
    a list the value beside it is taken.
    custom_explore_fn: a function of the changed config; what it returns is used.
    quantile_fraction: which part of the trials is among the best, and among the worst.
    seed: of the choices, which Ray Tune does not have; None: drawn.

    Trials must report checkpoints: one that never did gives nobody its place.
    """

    needs_metric = True

    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: str | None = None,
        mode: str | None = None,
        perturbation_interval: float = 60.0,
        burn_in_period: float = 0.0,
        hyperparam_mutations: Mutations | None = None,
        quantile_fraction: float = 0.25,
        resample_probability: float = 0.25,
        perturbation_factors: tuple[float, float] = (1.2, 0.8),
        custom_explore_fn: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        log_config: bool = True,  # noqa: FBT001, FBT002
        require_attrs: bool = True,  # noqa: FBT001, FBT002
        synch: bool = False,  # noqa: FBT001, FBT002
        *,
        seed: int | None = None,
    ) -> None:
        super().__init__(metric, mode)
        checked_number("PopulationBasedTraining", "perturbation_interval", perturbation_interval, above=0)
        if not hyperparam_mutations and custom_explore_fn is None:
            raise ValueError(
                "PopulationBasedTraining needs hyperparam_mutations, or a custom_explore_fn: it would change nothing"
            )
        if not 0 <= quantile_fraction <= 0.5:
            raise ValueError(f"PopulationBasedTraining: quantile_fraction is {quantile_fraction!r}; it is between 0 and 0.5")
        if not 0 <= resample_probability <= 1:
            raise ValueError(f"PopulationBasedTraining: resample_probability is {resample_probability!r}; it is between 0 and 1")
        if synch:
            raise ValueError(
                "PopulationBasedTraining(synch=True): trials do not wait for each other in this version; leave it out"
            )
        _check_mutations(hyperparam_mutations or {}, "hyperparam_mutations")
        self._time_attr, self._interval, self._burn_in = time_attr, perturbation_interval, burn_in_period
        self._mutations = dict(hyperparam_mutations or {})
        self._fraction, self._resample, self._factors = quantile_fraction, resample_probability, tuple(perturbation_factors)
        check_named("PopulationBasedTraining", log_config=log_config)
        self._explore_fn, self._require = custom_explore_fn, require_attrs
        self._rng = random.Random(seed)
        self._judged: dict[str, float] = {}
        self._scores: dict[str, float] = {}
        self.perturbations = 0

    def on_trial_result(self, tune_controller: Trials, trial: TrialFacts, result: dict[str, Any]) -> str | Exploit:
        time, score = time_of(result, self._time_attr), self.score(result)
        if self._require and (time is None or score is None):
            return self.CONTINUE
        if time is None or score is None or time < self._burn_in:
            return self.CONTINUE
        if time - self._judged.get(trial.trial_id, 0.0) < self._interval:
            return self.CONTINUE
        self._judged[trial.trial_id] = time
        self._scores[trial.trial_id] = score
        worst, best = self._ends()
        donors = [trial_id for trial_id in best if trial_id != trial.trial_id and tune_controller.has_checkpoint(trial_id)]
        if trial.trial_id not in worst or not donors:
            return self.CONTINUE
        donor = self._rng.choice(donors)
        theirs = next(other.config for other in tune_controller.get_trials() if other.trial_id == donor)
        self.perturbations += 1
        return Exploit(donor, self.explore(theirs))

    def moved(self, trial_id: str, time: float) -> None:
        """Called when the trial `trial_id` goes on from where its donor was, at `time`."""
        self._judged[trial_id] = time
        self._scores.pop(trial_id, None)

    @property
    def time_attr(self) -> str:
        """The metric that counts a trial's time."""
        return self._time_attr

    def _ends(self) -> tuple[list[str], list[str]]:
        """The worst and the best of those that have a score."""
        order = sorted(self._scores, key=lambda trial_id: (self._scores[trial_id], trial_id))
        if len(order) < 2 or self._fraction == 0:
            return [], []
        count = min(math.ceil(len(order) * self._fraction), len(order) // 2)
        return order[:count], order[-count:]

    def explore(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a changed copy of the config."""
        changed: dict[str, Any] = copy.deepcopy(dict(config))
        self._mutate(changed, self._mutations)
        if self._explore_fn is not None:
            changed = self._explore_fn(changed)
            if not isinstance(changed, dict):
                raise TypeError(f"custom_explore_fn gave a {type(changed).__name__}; it gives the config, a dict")
        return changed

    def _mutate(self, config: dict[str, Any], mutations: Mutations) -> None:
        for name, mutation in mutations.items():
            if isinstance(mutation, Mapping):
                inner = config.setdefault(name, {})
                if isinstance(inner, dict):
                    self._mutate(inner, mutation)
            else:
                config[name] = self._mutated(config.get(name), mutation)

    def _mutated(self, value: Any, mutation: Any) -> Any:
        if value is None or self._rng.random() < self._resample:
            return self._resampled(mutation)
        if isinstance(mutation, list | tuple):
            if value not in mutation:
                return self._resampled(mutation)
            place = list(mutation).index(value) + self._rng.choice((-1, 1))
            return mutation[min(max(place, 0), len(mutation) - 1)]
        if isinstance(value, bool) or not isinstance(value, int | float):
            return self._resampled(mutation)
        changed = value * self._rng.choice(self._factors)
        return int(changed) if isinstance(value, int) else changed

    def _resampled(self, mutation: Any) -> Any:
        if isinstance(mutation, Domain):
            return mutation.sample(self._rng)
        return self._rng.choice(list(mutation)) if isinstance(mutation, list | tuple) else mutation()

    def debug_string(self) -> str:
        """Returns how often a trial was moved to another one's checkpoint."""
        return f"PopulationBasedTraining, {self.perturbations} perturbations"


def _check_mutations(mutations: Mutations, where: str) -> None:
    for name, mutation in mutations.items():
        if isinstance(mutation, Mapping):
            _check_mutations(mutation, f"{where}[{name!r}]")
        elif not (isinstance(mutation, Domain) or callable(mutation) or (isinstance(mutation, list | tuple) and mutation)):
            raise ValueError(
                f"{where}[{name!r}] is {mutation!r}; it is a domain such as tune.uniform(0, 1), a list, or a function"
            )
