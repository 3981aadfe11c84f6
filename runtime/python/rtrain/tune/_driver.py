"""A sweep's driver: takes news, lets the sweep decide, carries it out, keeps the sweep's file, shows the trials."""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Mapping
from typing import Any

from rtrain._http import HeadError, Unreachable
from rtrain._waiting import without_times
from rtrain.train._driver._interrupts import Detached, Interrupts
from rtrain.train._driver._submission import say
from rtrain.train._result import Result
from rtrain.tune._errors import TuneError
from rtrain.tune._file import SweepFile
from rtrain.tune._runs import Fault, Interrupt, News, Report, RunEnded, TrialRuns
from rtrain.tune._sweep import Sweep
from rtrain.tune._table import Table
from rtrain.tune._trial import RUNNING, Trial
from rtrain.tune.callback import Callback

_TICK_S = 0.2
_POLL_S = 1.0
_SAVE_S = 1.0
_LEAVING_S = 10.0  # patience with the head of a driver that has failed


class SweepDriver:
    def __init__(
        self, sweep: Sweep, runs: TrialRuns, file: SweepFile, table: Table, callbacks: list[Callback], *, taken_up: bool
    ) -> None:
        self.sweep, self.runs, self.file, self.table, self.callbacks = sweep, runs, file, table, callbacks
        self.results: dict[str, list[Result]] = {}
        self._taken_up = taken_up
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
        """Runs the sweep to its end. TuneError, or what a callback or the cluster raised: the trials are stopped then."""
        for callback in self.callbacks:
            callback.setup()
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
        for callback in self.callbacks:
            callback.on_experiment_end(self.sweep.trials)
        if self._interrupts.count:
            raise KeyboardInterrupt(f"the sweep was stopped; Tuner.restore({str(self.file.folder)!r}, trainable) goes on with it")

    def _until_done(self) -> None:
        while True:
            self._start()
            if self.sweep.done:
                return
            self._take()
            self._stop(self.sweep.tick(self._before_s + time.monotonic() - self._since))
            self._poll()
            if time.monotonic() - self._saved > _SAVE_S:
                self._save()
            self.table.show(self.sweep)

    # -- starting and stopping ----------------------------------------------------------------------------------------
    def _start(self) -> None:
        starting = self.sweep.to_start()
        if starting:
            self._save()  # so that a driver that comes later knows the runs' names
        for trial in starting:
            self._start_one(trial)
        if starting:
            self._save()

    def _start_one(self, trial: Trial) -> None:
        try:
            if not (self._taken_up and self.runs.join(trial)):
                self.runs.submit(trial, self._donor_legs(trial))
        except (HeadError, ValueError, TuneError) as error:
            if isinstance(error, Unreachable) or not any(other.leg.run_id for other in self.sweep.trials):
                raise  # the first one: what is wrong with it is wrong with all
            self._stop(self.sweep.refused(trial.trial_id, error))
            return
        for callback in self.callbacks:
            callback.on_trial_start(self._iteration, self.sweep.trials, trial)

    def _donor_legs(self, trial: Trial) -> list[Any]:
        return self.sweep.trial(trial.leg.resume_from).legs if trial.leg.resume_from else []

    def _stop(self, trials: list[Trial]) -> bool:
        """Whether the head was told of all; a head that is away is not asked trial by trial."""
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
        """What has come; waits a little where nothing has."""
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
            return  # of a run that this trial has left behind
        self.runs.release(trial.trial_id)
        if isinstance(news, Report):
            self._report(trial, news)
        else:
            self._ended(trial, news)

    def _report(self, trial: Trial, news: Report) -> None:
        if news.position and news.position <= trial.leg.seen:
            return
        trial.leg.seen = news.position
        self._iteration += 1
        self._stop(self.sweep.reported(trial.trial_id, news.metrics))
        self.table.report(trial, news.metrics)
        for callback in self.callbacks:
            callback.on_trial_result(self._iteration, self.sweep.trials, trial, news.metrics)

    def _ended(self, trial: Trial, news: RunEnded) -> None:
        self.results.setdefault(trial.trial_id, []).append(news.result)
        if news.result.metrics and not trial.last_result:
            trial.last_result = dict(news.result.metrics)  # of a run that was over before this driver came
        legs = len(trial.legs)
        self._stop(self.sweep.ended(trial.trial_id, news.how, news.result.error))
        self._save()
        if len(trial.legs) == legs and trial.finished:
            self._tell_end(trial)

    def _tell_end(self, trial: Trial) -> None:
        if trial.error is not None and self.table.verbose:
            say(f"{trial.name} failed: {trial.why}; `rtrain logs {trial.leg.run_name}` has what it printed")
        for callback in self.callbacks:
            if trial.error is not None:
                callback.on_trial_error(self._iteration, self.sweep.trials, trial)
            else:
                callback.on_trial_complete(self._iteration, self.sweep.trials, trial)

    def _poll(self) -> None:
        """Which trials run by now, and which have checkpoints."""
        if time.monotonic() - self._polled < _POLL_S:
            return
        self._polled = time.monotonic()
        with contextlib.suppress(Unreachable):  # the threads that follow tell of a head that stays away
            runs = self.runs.live_runs()
            self._explain(runs)
            for trial in self.sweep.live:
                run = runs.get(trial.leg.run_id)
                if run is None:
                    continue
                if run["checkpoints"]:
                    self.sweep.checkpoints.add(trial.trial_id)
                if run["state"] == RUNNING:
                    self.sweep.running(trial.trial_id)

    def _explain(self, runs: Mapping[str, Mapping[str, Any]]) -> None:
        """Why no trial runs, when it changes."""
        live = [trial for trial in self.sweep.live if trial.leg.run_id in runs]
        if not live or any(runs[trial.leg.run_id]["state"] != "QUEUED" for trial in live) or not self.table.verbose:
            return
        line = self.runs.why_waiting(live[0])
        if line and without_times(line) != without_times(self._explained):
            self._explained = line
            say(f"{live[0].name}: {line}")

    def _save(self) -> None:
        """A disk that is full does not end a sweep."""
        self._saved = time.monotonic()
        try:
            self.file.save(self.sweep)
        except OSError as error:
            if str(error) != self._not_saved:
                say(f"the sweep goes on, but {self.file.folder} could not be written: {error}")
            self._not_saved = str(error)


def _by_hand(trials: list[Trial]) -> str:
    return "; ".join(f"`rtrain stop {trial.leg.run_name}` ends it" for trial in trials if trial.leg.run_id)
