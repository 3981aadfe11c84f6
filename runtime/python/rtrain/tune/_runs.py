"""Trials as runs of the cluster: submitted, joined again, stopped, and each followed by a thread whose news a sweep takes in
turn."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
from dataclasses import dataclass
from typing import Any

from rtrain._http import Conflict, Head, HeadError, NotFound, part
from rtrain._waiting import why_waits
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._driver._follower import TERMINAL
from rtrain.train._driver._outcome import result_of
from rtrain.train._driver._submission import Project, Submission, say
from rtrain.train._driver._validation import Validator
from rtrain.train._result import Result
from rtrain.train._run_directory import _views
from rtrain.train._run_directory._reading import open_directory
from rtrain.train._values import _metrics
from rtrain.train._values._errors import TrainingFailedError
from rtrain.tune._sweep import Ended
from rtrain.tune._trainable import Trials
from rtrain.tune._trial import Leg, Trial

_PAUSE_S = 0.1
_TRIES = 5
_HELD, _FREE = "HELD", "FREE"
# Endings by the sweep; users cause the others.
_OF_SWEEP = frozenset({"scheduler", "exploit", "stopper", "budget", "fail_fast"})
_HOW: dict[str, Ended] = {"SUCCEEDED": "succeeded", "FAILED": "failed", "STOPPED": "stopped"}


@dataclass(frozen=True)
class Report:
    trial_id: str
    leg: int
    position: int
    metrics: dict[str, Any]
    attempt: int = 0
    checkpoint: str = ""  # directory of the checkpoint of this report, committed or not


@dataclass(frozen=True)
class RunEnded:
    trial_id: str
    leg: int
    how: Ended
    result: Result


@dataclass(frozen=True)
class Fault:
    """The cluster no longer answers, or following a trial failed, so the sweep has no news of it."""

    error: Exception


@dataclass(frozen=True)
class Interrupt:
    """Ctrl-C."""


News = Report | RunEnded | Fault | Interrupt


def _held_route(run_id: str, directory: str) -> str:
    """Returns the route of the head's value that keeps a checkpoint. A directory is encoded in the key, since it may lie deeper."""
    return f"/v1/runs/{part(run_id)}/values/{part('held-' + part(directory))}"


class TrialRuns:
    def __init__(self, head: Head, project: Project, trials: Trials) -> None:
        self.head, self.project, self.trials = head, project, trials
        self.news: queue.SimpleQueue[News] = queue.SimpleQueue()
        self._leaving = threading.Event()
        self._lock, self._is_away = threading.Lock(), False
        self._warned: set[str] = set()

    def prepare(self) -> None:
        """Pickles and uploads what all trials share."""
        self.trials.prepare()
        content = self.trials.pickled_parameters()
        if content is not None:
            self.trials.parameters = self.head.upload_blob(content)

    # -- one trial ----------------------------------------------------------------------------------------------------
    def submit(self, trial: Trial, donors: list[Leg]) -> None:
        """Submits a trial. Raises HeadError, PackingError or ValueError if that fails.

        donors: the trial's own earlier runs, then the runs of the trial whose checkpoint it starts from.
        """
        donor = self._donor(trial, donors) if trial.leg.resume_from else None
        submission = Submission(self.trials.trainer(trial, donor), self.head, self.project)
        self._known(trial.leg, submission.start())
        for warning in submission.warnings:
            if warning not in self._warned:  # prints a warning of many trials once
                self._warned.add(warning)
                say(f"{submission.name}: {warning}")
        self.follow(trial)

    def join(self, trial: Trial) -> dict[str, Any] | None:
        """Takes up the run of a sweep whose driver has died. Returns the run when it is followed, or was found in its directory.

        None: there is no run to take up. Two sweeps never share the name of a run.
        """
        again, trial.again = trial.again, False
        if again:
            return None
        run = self._of_head(trial.leg)
        if run is not None:
            self._known(trial.leg, run)
            if run["state"] == "STOPPED":
                return None
            self.follow(trial)
            return run
        return self._of_directory(trial)

    def run_of(self, trial: Trial) -> dict[str, Any]:
        """Returns the head's record of the trial's run."""
        run: dict[str, Any] = self.head.get(f"/v1/runs/{part(trial.leg.run_id)}")
        return run

    def attempts(self, trial: Trial) -> list[dict[str, Any]]:
        """Returns the head's records of the attempts of the trial's run."""
        attempts: list[dict[str, Any]] = self.head.items(f"/v1/runs/{part(trial.leg.run_id)}/attempts")
        return attempts

    def checkpoints_of(self, trial: Trial) -> dict[str, str]:
        """Returns the path of each committed checkpoint of the trial's run, by its directory."""
        return {str(checkpoint["directory"]): str(checkpoint["path"]) for checkpoint in self._checkpoints(trial.leg.run_id)}

    def _of_head(self, leg: Leg) -> dict[str, Any] | None:
        for known_as in filter(None, (leg.run_id, leg.run_name)):
            with contextlib.suppress(NotFound):
                run: dict[str, Any] = self.head.get(f"/v1/runs/{part(known_as)}")
                if run["name"] == leg.run_name:
                    return run
        return None

    def _of_directory(self, trial: Trial) -> dict[str, Any] | None:
        """Returns `result.json` of a run whose cluster is gone; None unless it says that the run succeeded."""
        leg = trial.leg
        if not leg.run_path:
            return None
        try:
            run: dict[str, Any] = json.loads(open_directory(leg.run_path, self.head).read("result.json"))
            if run["state"] != "SUCCEEDED":
                return None
            result = Result.from_path(leg.run_path)
        except (OSError, ValueError, KeyError, RuntimeError):
            return None
        self.news.put(RunEnded(trial.trial_id, len(trial.legs) - 1, "succeeded", result))
        return run

    def _known(self, leg: Leg, run: dict[str, Any]) -> None:
        if leg.run_id != run["run_id"]:
            leg.seen = 0
        leg.run_id, leg.run_path = str(run["run_id"]), str(run["run_path"])
        _views.remember(leg.run_path, self.trials.run_config._view)

    def _donor(self, trial: Trial, donors: list[Leg]) -> Checkpoint | None:
        """Returns the newest committed checkpoint of the last run in `donors` that has one, and holds it for the trial.

        The iteration and the time of that checkpoint become the base of the trial's run. None: no run has a checkpoint any more,
        so that the trial starts at its beginning.
        """
        for leg in reversed(donors):
            for _ in range(_TRIES if leg.run_id else 0):
                checkpoints = self._checkpoints(leg.run_id)
                if not checkpoints:
                    break
                newest = next((checkpoint for checkpoint in checkpoints if checkpoint["latest"]), checkpoints[-1])
                if not self._hold(trial, leg.run_id, newest["directory"]):
                    continue  # deleted in favour of a newer one
                metrics: Any = _metrics.decode(newest["metrics"])
                trial.leg.base = {
                    name: float(metrics[name]) for name in ("training_iteration", "time_total_s") if name in metrics
                }
                return Checkpoint(newest["path"], name=newest["directory"])
        say(f"{trial.name} starts at its beginning: {trial.leg.resume_from} has no checkpoint any more")
        return None

    def _hold(self, trial: Trial, run_id: str, directory: str) -> bool:
        """Returns whether the head keeps the checkpoint from now on. It deletes none that a value of a trial holds."""
        route = _held_route(run_id, directory)
        try:
            self.head.put(route, json.dumps({"status": _HELD}).encode())
            kept = directory in [checkpoint["directory"] for checkpoint in self._checkpoints(run_id)]
        except (Conflict, NotFound):
            return False
        if kept:  # otherwise its deletion had begun, and the head ignores the value
            trial.leg.holds = route
        return kept

    def _checkpoints(self, run_id: str) -> list[dict[str, Any]]:
        """Returns the run's committed checkpoints, without those that are being deleted."""
        try:
            checkpoints = self.head.items(f"/v1/runs/{part(run_id)}/checkpoints")
        except NotFound:  # a user has removed the run
            return []
        return [checkpoint for checkpoint in checkpoints if not checkpoint["deleting"]]

    def release(self, trial: Trial, trials: list[Trial]) -> None:
        """Releases the donor's checkpoint that the trial's run holds, unless another trial's run holds it too.

        Call it when the run has a checkpoint, or has ended: until then each of its attempts starts from the donor's
        checkpoint.
        """
        route = trial.leg.holds
        holders = [other for other in trials if other is not trial and other.leg.holds == route and not other.finished]
        if route and not holders:
            with contextlib.suppress(Conflict, NotFound):
                self.head.put(route, json.dumps({"status": _FREE}).encode())
        trial.leg.holds = ""

    def stop(self, trial: Trial) -> None:
        """Requests a stop of the trial's run. The run's reason names what ends the trial. Does nothing if the run has ended."""
        body = {"for": trial.ending} if trial.ending in _OF_SWEEP else {}
        with contextlib.suppress(NotFound, Conflict):
            self.head.post(f"/v1/runs/{part(trial.leg.run_id)}/stop", body)

    # -- following ----------------------------------------------------------------------------------------------------
    def follow(self, trial: Trial) -> None:
        arguments = (trial.trial_id, len(trial.legs) - 1, trial.leg.run_id, trial.leg.seen)
        threading.Thread(target=self._follow, args=arguments, daemon=True, name=f"rtrain-trial-{trial.trial_id}").start()

    def leave(self) -> None:
        """Ends the threads at their next event."""
        self._leaving.set()

    def _follow(self, trial_id: str, leg: int, run_id: str, seen: int) -> None:
        route = f"/v1/runs/{part(run_id)}"
        try:
            validator = self._validator(route)
            for event in self.head.follow(
                f"{route}/metrics", until=self._leaving.is_set, away=self._away, last_id=str(seen) if seen else ""
            ):
                if event.name == "end":
                    break
                self._report(trial_id, leg, event.data)
            run = self.head.get(route)
            while run["state"] not in TERMINAL and not self._leaving.wait(_PAUSE_S):
                run = self.head.get(route)
            if run["state"] in TERMINAL:
                if validator is not None:
                    validator.finish()
                self.news.put(RunEnded(trial_id, leg, _HOW[run["state"]], self._result(run)))
        except NotFound as error:
            self.news.put(RunEnded(trial_id, leg, "failed", Result(error=error)))  # a user has removed the run
        except Exception as error:  # raised in the driver, since the sweep would otherwise wait for ever
            if not self._leaving.is_set():
                self.news.put(Fault(error))

    def _result(self, run: dict[str, Any]) -> Result:
        """Returns the run's Result, without parts that this process cannot read (a return value of a missing module, a
        bucket)."""
        try:
            return result_of(self.head, run)
        except HeadError:
            raise
        except Exception as error:
            say(f"{run['name']}: its result cannot be read whole here ({type(error).__name__}: {error}); its last report counts")
            why = TrainingFailedError(f"the run {run['name']} is {run['state']}: {run['reason']}")
            return Result(path=str(run["run_path"]), error=None if run["state"] == "SUCCEEDED" else why)

    def _away(self, error: HeadError | None) -> None:
        """Reports once that the head does not answer, or answers again, although all trials' threads notice it."""
        with self._lock:
            if (error is None) == (not self._is_away):
                return
            self._is_away = error is not None
        say("the head is back" if error is None else f"{error.message}; the trials go on, and so will their reports")

    def _validator(self, route: str) -> Validator | None:
        trainer = self.trials.wrapped.trainable
        return Validator(self.head, self.head.get(route)) if getattr(trainer, "validation_config", None) else None

    def _report(self, trial_id: str, leg: int, row: dict[str, Any]) -> None:
        metrics: Any = _metrics.decode(row.get("metrics") or {})
        if isinstance(metrics, dict):
            attempt, checkpoint = int(row.get("attempt") or 0), str(row.get("checkpoint") or "")
            self.news.put(Report(trial_id, leg, int(row["position"] or 0), metrics, attempt, checkpoint))

    def why_waiting(self, trial: Trial) -> str:
        """Returns a line of `rtrain explain` about the trial's run; empty if there is none."""
        with contextlib.suppress(HeadError):
            return why_waits(self.head.get(f"/v1/runs/{part(trial.leg.run_id)}/explain"))
        return ""

    def live_runs(self) -> dict[str, dict[str, Any]]:
        """Returns the cluster's live runs by id."""
        return {str(run["run_id"]): run for run in self.head.items("/v1/runs", {"limit": 1000})}
