"""The decisions of a sweep: starts and ends of trials, and the end of the sweep. PURE: it receives events and returns
actions, which `_driver.py` executes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from rtrain._nested import flatten
from rtrain.train._values._metrics import nested
from rtrain.tune._errors import TuneError
from rtrain.tune._trial import ERROR, PENDING, RUNNING, TERMINATED, Leg, Trial
from rtrain.tune.schedulers._scheduler import Exploit, TrialScheduler
from rtrain.tune.schedulers.pbt import PopulationBasedTraining
from rtrain.tune.search._searcher import Searcher, innermost
from rtrain.tune.search._variants import constants, merged
from rtrain.tune.search.basic_variant import BasicVariantGenerator
from rtrain.tune.stopper import Stopper

_AHEAD = 16  # number of waiting trials from which a scheduler chooses
Ended = Literal["succeeded", "failed", "stopped"]  # how a run ended, by its state


@dataclass
class Limits:
    """The values of TuneConfig and RunConfig that the decisions use."""

    metric: str | None = None
    mode: str | None = None
    num_samples: int = 1
    max_live: int = 64
    time_budget_s: float | None = None
    fail_fast: bool = False


@dataclass
class Sweep:
    limits: Limits
    searcher: Searcher
    scheduler: TrialScheduler
    stopper: Stopper | None  # the stopper that the driver evaluates
    space: dict[str, Any]
    token: str  # prefix of each trial's id, so that no two sweeps of one name share a run
    run_name: Callable[[Trial], str]
    trial_name: Callable[[Trial], str] | None = None
    trials: list[Trial] = field(default_factory=list)
    elapsed_s: float = 0.0
    over: str = ""  # why no more trials start
    asked: int = 0  # number of suggestions that became trials
    names_seen: dict[str, None] = field(default_factory=dict)  # names of metrics in the order of their first report
    checkpoints: set[str] = field(default_factory=set)  # trials that have reported a checkpoint
    exhausted: bool = False  # the searcher has no more suggestions
    by_id: dict[str, Trial] = field(default_factory=dict)  # key: the id of a trial; filled on demand

    # -- what schedulers see ------------------------------------------------------------------------------------------
    def get_trials(self) -> list[Trial]:
        return self.trials

    def has_checkpoint(self, trial_id: str) -> bool:
        return trial_id in self.checkpoints

    def trial(self, trial_id: str) -> Trial:
        if len(self.by_id) != len(self.trials):
            self.by_id = {trial.trial_id: trial for trial in self.trials}
        return self.by_id[trial_id]

    @property
    def live(self) -> list[Trial]:
        return [trial for trial in self.trials if trial.live]

    @property
    def done(self) -> bool:
        """Returns true if no trial runs and no more will start."""
        waiting = any(trial.status == PENDING for trial in self.trials)
        return not self.live and (bool(self.over) or (not waiting and self.exhausted))

    # -- starting -----------------------------------------------------------------------------------------------------
    def to_start(self) -> list[Trial]:
        """Returns the trials whose runs must be submitted now, and marks them as started."""
        trials: list[Trial] = []
        while not self.over and len(self.live) < self.limits.max_live:
            trial = self._chosen() if self._scheduler_chooses else (next(iter(self._waiting()), None) or self._suggested())
            if trial is None:
                break
            trial.started = True
            trials.append(trial)
        return trials

    def _waiting(self) -> list[Trial]:
        """Returns the trials that were made and have no run now, in their order."""
        return [trial for trial in self.trials if trial.status == PENDING and not trial.started]

    @property
    def _scheduler_chooses(self) -> bool:
        """Returns true if the scheduler's class overrides `choose_trial_to_run`."""
        return type(self.scheduler).choose_trial_to_run is not TrialScheduler.choose_trial_to_run

    def _chosen(self) -> Trial | None:
        """Returns the trial that the scheduler chooses, of several that wait. TuneError for an answer that cannot be carried out."""
        ahead = _AHEAD if variants_of(self.searcher) is not None else 1  # a searcher that learns is asked as late as possible
        while len(self._waiting()) < ahead and self._suggested() is not None:
            pass
        waiting = self._waiting()
        chosen = self.scheduler.choose_trial_to_run(self) if waiting else None
        name = f"{type(self.scheduler).__name__}.choose_trial_to_run"
        if chosen is not None and not any(chosen is trial for trial in waiting):
            raise TuneError(f"{name} chose {chosen}, which does not wait; return one of the trials whose status is PENDING")
        if chosen is None and waiting and not self.live:
            raise TuneError(f"{name} chose none of {len(waiting)} trials that wait, and none runs; return one of them")
        return next((trial for trial in waiting if trial is chosen), None)

    def _suggested(self) -> Trial | None:
        if self.exhausted or (self.limits.num_samples != -1 and self._samples_asked()):
            self.exhausted = True
            return None
        trial_id = f"{self.token}_{len(self.trials):05d}"
        suggestion = self.searcher.suggest(trial_id)
        if suggestion == Searcher.FINISHED:
            self.exhausted = True
        if not isinstance(suggestion, dict | None | str) or (isinstance(suggestion, str) and suggestion != Searcher.FINISHED):
            raise TuneError(
                f"{type(self.searcher).__name__}.suggest gave {suggestion!r}; it gives a dict, None, or Searcher.FINISHED"
            )
        if not isinstance(suggestion, dict):
            if suggestion is None and not self.live:
                raise TuneError(
                    f"{type(self.searcher).__name__}.suggest proposes nothing although no trial is alive; return "
                    "Searcher.FINISHED where there are no more"
                )
            return None
        self.asked += 1
        return self._new_trial(trial_id, suggestion)

    def _samples_asked(self) -> bool:
        """Returns true if a searcher has been asked `num_samples` times. The variants of a space have a fixed number
        instead.
        """
        return variants_of(self.searcher) is None and self.asked >= self.limits.num_samples

    def _new_trial(self, trial_id: str, suggestion: dict[str, Any]) -> Trial:
        variants = variants_of(self.searcher)
        config = suggestion if variants is not None else merged(constants(self.space), suggestion)
        trial = Trial(trial_id, trial_id, config, dict(variants.drawn if variants is not None else flatten(suggestion)), [])
        if self.trial_name is not None:
            trial.name = str(self.trial_name(trial))
        trial.legs.append(Leg(self.run_name(trial), config))
        if any(leg.run_name == trial.leg.run_name for other in self.trials for leg in other.legs):
            raise TuneError(f"two trials would share the run {trial.leg.run_name}: trial_dirname_creator must tell them apart")
        self.trials.append(trial)
        self.scheduler.on_trial_add(self, trial)
        return trial

    # -- what happened ------------------------------------------------------------------------------------------------
    def running(self, trial_id: str) -> None:
        trial = self.trial(trial_id)
        if trial.status == PENDING and trial.started:
            trial.status = RUNNING

    def reported(self, trial_id: str, result: dict[str, Any], *, checkpoint: bool = False) -> list[Trial]:
        """Handles a report. Returns the trials to stop."""
        trial = self.trial(trial_id)
        self.running(trial_id)
        trial.last_result = result
        trial.reports += 1
        self.names_seen.update(dict.fromkeys(result))
        if checkpoint:
            self.checkpoints.add(trial_id)
        if trial.ending or trial.finished:
            return []
        self.searcher.on_trial_result(trial_id, result)
        decision = self.scheduler.on_trial_result(self, trial, result)
        stopped: list[Trial] = []
        if isinstance(decision, Exploit):
            trial.next_leg = (decision.donor_id, decision.config)
            stopped += self._stop(trial, "exploit")
        elif decision == TrialScheduler.STOP:
            if self._ends_by_itself(result):
                trial.why = f"{self._last_time()[0]} {self._last_time()[1]:g} reached"
            else:
                stopped += self._stop(trial, "scheduler")
        elif decision not in (TrialScheduler.CONTINUE, TrialScheduler.NOOP):
            why = (
                ". A trial is a run of the cluster, which is not paused: stop it, or return an Exploit"
                if decision == "PAUSE"
                else ""
            )
            raise TuneError(
                f"{type(self.scheduler).__name__} decided {decision!r}; this version carries out CONTINUE and STOP{why}"
            )
        if self.stopper is not None and self.stopper(trial_id, result):
            stopped += self._stop(trial, "stopper")
        return stopped + self._stop_all_if_asked()

    def _last_time(self) -> tuple[str, float]:
        return self.scheduler.last_time() or ("", 0.0)

    def _ends_by_itself(self, result: dict[str, Any]) -> bool:
        """Returns true if the trial's worker ends it at this report, as its stop condition contains the scheduler's last
        time.
        """
        name, value = self._last_time()
        reported_value = nested(result, name) if name else None
        return isinstance(reported_value, int | float) and reported_value >= value

    def tick(self, elapsed_s: float) -> list[Trial]:
        """Updates the elapsed time. Returns the trials to stop."""
        self.elapsed_s = elapsed_s
        budget = self.limits.time_budget_s
        if budget is not None and elapsed_s >= budget and not self.over:
            return self.end(f"the time budget of {budget:g} s is used up", "budget")
        return self._stop_all_if_asked()

    def _stop_all_if_asked(self) -> list[Trial]:
        if self.over or self.stopper is None or not self.stopper.stop_all():
            return []
        return self.end(f"{type(self.stopper).__name__} ended all", "stopper")

    def end(self, why: str, ending: str) -> list[Trial]:
        """Starts no more trials. Returns the running trials, which must be stopped. Waiting trials end, unless the sweep may
        be resumed.
        """
        self.over = self.over or why
        for trial in self._waiting() if ending in ("budget", "stopper") else []:
            trial.status, trial.why = TERMINATED, f"stopped: {ending}"
            self.searcher.on_trial_complete(trial.trial_id, trial.last_result or None, error=False)
            self.scheduler.on_trial_remove(self, trial)
        return [stopped for trial in self.live for stopped in self._stop(trial, ending)]

    def _stop(self, trial: Trial, ending: str) -> list[Trial]:
        if trial.ending == "exploit" and ending != "exploit":
            trial.next_leg, trial.ending = None, ending
            return []  # a stop was requested already
        if trial.ending:
            return []
        trial.ending = ending
        return [trial]

    def ended(self, trial_id: str, how: Ended, error: Exception | None = None) -> list[Trial]:
        """Handles the end of a trial's run. Returns the trials to stop. Raises TuneError if no trial can be judged."""
        trial = self.trial(trial_id)
        ending, trial.ending, trial.started = trial.ending, "", False
        if how == "stopped" and ending in ("interrupt", "fail_fast"):
            trial.status = PENDING  # a resumed sweep continues the trial
            return []
        if how == "stopped" and ending == "exploit" and trial.next_leg is not None and not self.over:
            self._next_leg(trial)
            return []
        trial.next_leg = None
        if how == "failed" or (how == "stopped" and not ending):
            trial.status, trial.error, trial.why = ERROR, error, _line(error)
            self.searcher.on_trial_complete(trial_id, trial.last_result or None, error=True)
            self.scheduler.on_trial_error(self, trial)
            return self.end(f"trial {trial.name} failed (fail_fast)", "fail_fast") if self.limits.fail_fast else []
        trial.status = TERMINATED
        trial.why = trial.why or (f"stopped: {ending}" if how == "stopped" else "")
        self.searcher.on_trial_complete(trial_id, trial.last_result or None, error=False)
        self.scheduler.on_trial_complete(self, trial, trial.last_result)
        if how == "succeeded":
            self._check_metric(trial)
        return []

    def refused(self, trial_id: str, error: Exception) -> list[Trial]:
        """Handles a run that could not be submitted."""
        return self.ended(trial_id, "failed", error)

    def _next_leg(self, trial: Trial) -> None:
        assert trial.next_leg is not None
        donor_id, config = trial.next_leg
        donor = self.trial(donor_id)
        trial.next_leg, trial.status, trial.config = None, PENDING, config
        trial.drawn = {name: value for name, value in flatten(config).items() if name in trial.drawn}
        name = f"{trial.legs[0].run_name}-{len(trial.legs) + 1}"
        trial.legs.append(Leg(name, config, resume_from=donor_id))
        if isinstance(self.scheduler, PopulationBasedTraining):
            at = nested(donor.last_result, self.scheduler.time_attr)
            self.scheduler.moved(trial.trial_id, float(at) if isinstance(at, int | float) else 0.0)

    def _check_metric(self, trial: Trial) -> None:
        """Checks at the first successful trial with a report that the metric's name exists."""
        metric = self.limits.metric
        if metric is None or not trial.reports or nested(trial.last_result, metric) is not None:
            return
        if metric in self.names_seen or metric.split("/", maxsplit=1)[0] in self.names_seen:
            return
        there = ", ".join(name for name in self.names_seen if name not in AUTOMATIC) or "none of its own"
        raise TuneError(f"the metric {metric!r} was never reported: trial {trial.name} ended, and reported: {there}")


AUTOMATIC = ("training_iteration", "time_this_iter_s", "time_total_s", "timestamp", "trial_id", "done")


def variants_of(searcher: Searcher) -> BasicVariantGenerator | None:
    """Returns the generator of variants, also one inside a limiter."""
    inside = innermost(searcher)
    return inside if isinstance(inside, BasicVariantGenerator) else None


def _line(error: Exception | None) -> str:
    lines = [line.strip() for line in str(error or "").splitlines() if line.strip()]
    telling_lines = [line for line in lines if not line.startswith(("Training failed due to", "[Rank"))]
    return (telling_lines or lines or [""])[0]
