"""The driver of a sweep: passes news to the sweep, executes its decisions, writes the sweep's file, and shows the trials."""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rtrain._http import HeadError, NotFound, Unreachable
from rtrain._waiting import without_times
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._driver._follower import TERMINAL
from rtrain.train._driver._interrupts import Detached, Interrupts
from rtrain.train._driver._submission import say
from rtrain.train._result import Result
from rtrain.tune._errors import TuneError
from rtrain.tune._file import SweepFile
from rtrain.tune._observed import Observed
from rtrain.tune._runs import Fault, Interrupt, News, Report, RunEnded, TrialRuns
from rtrain.tune._sweep import Sweep
from rtrain.tune._table import Table
from rtrain.tune._trial import RUNNING, Leg, Trial
from rtrain.tune.callback import Callbacks

_TICK_S = 0.2
_POLL_S = 1.0
_SAVE_S = 1.0
_LEAVING_S = 10.0  # patience with an unreachable head after an error in the driver


@dataclass(frozen=True)
class Beginning:
    """The driver's initial facts.

    taken_up: whether an earlier driver has begun the sweep. states: the stored states of callbacks. stop: RunConfig(stop=).
    total_samples: the number of trials; None: the searcher decides.
    """

    taken_up: bool
    states: list[dict[str, Any] | None]
    stop: Any
    total_samples: int | None


class SweepDriver:
    def __init__(
        self, sweep: Sweep, runs: TrialRuns, file: SweepFile, table: Table, callbacks: Callbacks, begin: Beginning
    ) -> None:
        self.sweep, self.runs, self.file, self.table, self.callbacks = sweep, runs, file, table, callbacks
        self.results: dict[str, list[Result]] = {}
        self._begin = begin
        self._observed: dict[str, Observed] = {}  # by the id of a trial's run
        self._interrupts = Interrupts(
            say=say,
            what="the sweep",
            come_back=f"Its trials do; rtrain.tune.Tuner.restore({str(file.folder)!r}, trainable) follows them again",
            by_hand=lambda: _by_hand(self.sweep.live),
            stop=lambda: runs.news.put(Interrupt()),
        )
        self._before_s = sweep.elapsed_s
        self._since = time.monotonic()
        self._polled = self._saved = 0.0
        self._iteration = 0
        self._explained = self._not_saved = ""

    def run(self) -> None:
        """Runs the sweep to its end. Raises TuneError, or the exception of a callback or of the cluster, after all trials
        are stopped.
        """
        begin, limits = self._begin, self.sweep.limits
        self.table.begin(self.sweep, begin.total_samples)
        self.callbacks.call("setup", stop=begin.stop, num_samples=limits.num_samples, total_num_samples=begin.total_samples)
        self.callbacks.restore(begin.states)
        try:
            with self._interrupts.watched():
                self._until_done()
        except Detached:
            raise
        except BaseException:
            self.runs.head.patience_s = min(self.runs.head.patience_s, _LEAVING_S)
            self._stop(self.sweep.end("the driver failed", "interrupt"))
            raise
        finally:
            self.runs.leave()
            self._save()
        self.table.show(self.sweep, final=True)
        self.callbacks.call("on_experiment_end", trials=self.sweep.trials)
        if self._interrupts.count:
            raise KeyboardInterrupt(f"the sweep was stopped; Tuner.restore({str(self.file.folder)!r}, trainable) goes on with it")

    def _until_done(self) -> None:
        for trial in self.sweep.trials:
            if trial.finished:  # a killed driver may have left the donor's checkpoint held
                self.runs.release(trial, self.sweep.trials)
        is_over = False
        while not is_over:
            self.callbacks.call("on_step_begin", iteration=self._iteration, trials=self.sweep.trials)
            is_over = self._step()
            self._iteration += 1
            self.callbacks.call("on_step_end", iteration=self._iteration, trials=self.sweep.trials)

    def _step(self) -> bool:
        """Runs one round: starts trials, handles news, stops trials. Returns true if the sweep is over."""
        self._start()
        if self.sweep.done:
            return True
        self._take()
        self._stop(self.sweep.tick(self._before_s + time.monotonic() - self._since))
        self._poll()
        if time.monotonic() - self._saved > _SAVE_S:
            self._save()
        self.table.show(self.sweep)
        return False

    # -- starting and stopping ----------------------------------------------------------------------------------------
    def _start(self) -> None:
        starting = self.sweep.to_start()
        if starting:
            self._save()  # lets a later driver find the runs by name
        for trial in starting:
            self._start_one(trial)
        if starting:
            self._save()

    def _start_one(self, trial: Trial) -> None:
        try:
            joined = self.runs.join(trial) if self._begin.taken_up else None
            if joined is None:
                self.runs.submit(trial, self._donor_legs(trial))
            else:
                self._observed[trial.leg.run_id] = Observed(int(joined.get("attempt") or 0), int(joined.get("failures") or 0))
        except (HeadError, ValueError, TuneError) as error:
            if isinstance(error, Unreachable) or not any(other.leg.run_id for other in self.sweep.trials):
                raise  # the first trial; the others would fail in the same way
            self.runs.release(trial, self.sweep.trials)
            self._stop(self.sweep.refused(trial.trial_id, error))
            return
        self._tell("on_trial_start", trial)

    def _tell(self, hook: str, trial: Trial, **named: Any) -> None:
        self.callbacks.call(hook, iteration=self._iteration, trials=self.sweep.trials, trial=trial, **named)

    def _observe(self, trial: Trial, run: Mapping[str, Any]) -> None:
        """Calls the hooks for facts about the trial's run that are not in its reports."""
        observed = self._observed.setdefault(trial.leg.run_id, Observed())
        for hook in observed.recovered(run):
            self._tell(hook, trial)
        if int(run.get("attempt") or 0) > observed.attempt:
            for hook in observed.restored(self.runs.attempts(trial), moved=bool(trial.leg.resume_from)):
                self._tell(hook, trial)
        if observed.reported:
            checkpoints = self.runs.checkpoints_of(trial)
            for name, metrics in observed.committed(checkpoints, over=run["state"] in TERMINAL):
                trial.checkpoint = Checkpoint._kept(checkpoints[name], metrics=metrics, name=name)
                self._tell("on_checkpoint", trial, checkpoint=trial.checkpoint)
                self._tell("on_trial_save", trial)

    def _donor_legs(self, trial: Trial) -> list[Leg]:
        """Returns the runs whose checkpoints a moved trial may start from: its own earlier ones, then the donor's."""
        return [*trial.legs[:-1], *self.sweep.trial(trial.leg.resume_from).legs] if trial.leg.resume_from else []

    def _stop(self, trials: list[Trial]) -> bool:
        """Requests the stop of the trials' runs. Returns true if the head accepted all. Stops at the first request that an
        unreachable head does not answer.
        """
        for number, trial in enumerate(trials):
            try:
                self.runs.stop(trial)
            except Unreachable as error:
                left = trials[number:]
                names = ", ".join(unstopped.leg.run_name for unstopped in left)
                say(f"could not be stopped: {names}: {error.message}. {_by_hand(left)}")
                return False
        return True

    # -- news ---------------------------------------------------------------------------------------------------------
    def _take(self) -> None:
        """Handles the news that have arrived. Waits a little if there are none."""
        with contextlib.suppress(queue.Empty):
            self._handle_news(self.runs.news.get(timeout=_TICK_S))
            while True:
                self._handle_news(self.runs.news.get_nowait())

    def _handle_news(self, news: News) -> None:
        if isinstance(news, Fault):
            raise news.error
        if isinstance(news, Interrupt):
            if self._stop(self.sweep.end("interrupted", "interrupt")):
                self._interrupts.answered.set()
            return
        trial = self.sweep.trial(news.trial_id)
        if news.leg != len(trial.legs) - 1 or trial.finished:
            return  # a run that this trial no longer uses
        if isinstance(news, Report):
            self._report(trial, news)
        else:
            self.runs.release(trial, self.sweep.trials)
            self._ended(trial, news)

    def _report(self, trial: Trial, news: Report) -> None:
        if news.position and news.position <= trial.leg.seen:
            return
        trial.leg.seen = news.position
        if self.callbacks.callbacks:
            self._observe_before(trial, news)
        self._stop(self.sweep.reported(trial.trial_id, news.metrics))
        self.table.report(trial, news.metrics)
        self._tell("on_trial_result", trial, result=news.metrics)

    def _observe_before(self, trial: Trial, news: Report) -> None:
        """Calls the hooks of an attempt's start before that of its first report, and notes the checkpoint of the report."""
        observed = self._observed.setdefault(trial.leg.run_id, Observed())
        if news.attempt > observed.attempt:
            with contextlib.suppress(NotFound):
                self._observe(trial, self.runs.run_of(trial))
        if news.checkpoint:
            observed.reported.append((news.checkpoint, news.metrics))

    def _ended(self, trial: Trial, news: RunEnded) -> None:
        self.results.setdefault(trial.trial_id, []).append(news.result)
        if news.result.metrics and not trial.last_result:
            trial.last_result = dict(news.result.metrics)  # a run that ended before this driver started
        if self.callbacks.callbacks:
            with contextlib.suppress(NotFound):
                self._observe(trial, self.runs.run_of(trial))
        legs = len(trial.legs)
        self._stop(self.sweep.ended(trial.trial_id, news.how, news.result.error))
        self._save()
        if len(trial.legs) == legs and trial.finished:
            self._tell_end(trial)

    def _tell_end(self, trial: Trial) -> None:
        if trial.error is not None and self.table.verbose:
            say(f"{trial.name} failed: {trial.why}; `rtrain logs {trial.leg.run_name}` has what it printed")
        self._tell("on_trial_complete" if trial.error is None else "on_trial_error", trial)

    def _poll(self) -> None:
        """Finds out which trials run by now, and which have checkpoints."""
        if time.monotonic() - self._polled < _POLL_S:
            return
        self._polled = time.monotonic()
        with contextlib.suppress(Unreachable):  # the followers' threads report an unreachable head
            runs = self.runs.live_runs()
            self._explain(runs)
            for trial in self.sweep.live:
                run = runs.get(trial.leg.run_id)
                if run is None:
                    continue
                if run["checkpoints"]:
                    self.sweep.checkpoints.add(trial.trial_id)
                    self.runs.release(trial, self.sweep.trials)
                if run["state"] == RUNNING:
                    self.sweep.running(trial.trial_id)
                if self.callbacks.callbacks:
                    self._observe(trial, run)

    def _explain(self, runs: Mapping[str, Mapping[str, Any]]) -> None:
        """Prints why no trial runs, whenever the reason changes."""
        live = [trial for trial in self.sweep.live if trial.leg.run_id in runs]
        if not live or any(runs[trial.leg.run_id]["state"] != "QUEUED" for trial in live) or not self.table.verbose:
            return
        line = self.runs.why_waiting(live[0])
        if line and without_times(line) != without_times(self._explained):
            self._explained = line
            more = self.runs.trials.resource_help(live[0].leg.config)
            say(f"{live[0].name}: {line}" + (f" {more}" if more else ""))

    def _save(self) -> None:
        """Writes the sweep's file. A full disk does not end the sweep."""
        self._saved = time.monotonic()
        try:
            self.file.save(self.sweep, self.callbacks.states(self.file.kept_callbacks))
        except OSError as error:
            if str(error) != self._not_saved:
                say(f"the sweep goes on, but {self.file.folder} could not be written: {error}")
            self._not_saved = str(error)


def _by_hand(trials: list[Trial]) -> str:
    return "; ".join(f"`rtrain stop {trial.leg.run_name}` ends it" for trial in trials if trial.leg.run_id)
