"""A trial: its config, its runs, its last report, and its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from rtrain._lazy import public_in
from rtrain.train._checkpoint import Checkpoint

PENDING, RUNNING, TERMINATED, ERROR = "PENDING", "RUNNING", "TERMINATED", "ERROR"
STATES = (RUNNING, PENDING, TERMINATED, ERROR)


@dataclass
class Leg:
    """One run of a trial. Population based training makes another one when it moves the trial to a donor's checkpoint."""

    run_name: str
    config: dict[str, Any]
    run_id: str = ""
    run_path: str = ""
    seen: int = 0  # the position of the last report that the sweep has judged
    resume_from: str = ""  # the checkpoint of a donor, from which the run starts
    base: dict[str, float] = field(default_factory=dict)  # the donor's training_iteration and time_total_s there
    holds: str = ""  # the head's value that keeps the donor's checkpoint for this run


@dataclass
class Trial:
    """One trial, as callbacks, schedulers and functions that make names see it.

    config: what its loop is given. drawn: what differs among trials, "a/b" to the value. status: PENDING, RUNNING, TERMINATED
    or ERROR. last_result: what it reported last. reports: how often it has reported.
    """

    trial_id: str
    name: str
    config: dict[str, Any]
    drawn: dict[str, Any]  # the values that differ among trials; key: "a/b"
    legs: list[Leg]
    status: str = PENDING
    last_result: dict[str, Any] = field(default_factory=dict)
    reports: int = 0
    started: bool = False  # the present run was submitted
    ending: str = ""  # why the run is being stopped: scheduler, stopper, budget, fail_fast, interrupt, exploit
    why: str = ""  # short description of the end
    error: Exception | None = None
    again: bool = False  # the last run failed and must be submitted again
    # Donor and config of the next run, which starts when the present one has ended.
    next_leg: tuple[str, dict[str, Any]] | None = None
    checkpoint: Checkpoint | None = None  # newest committed checkpoint; updated only if there are callbacks

    PENDING: ClassVar[str] = PENDING
    RUNNING: ClassVar[str] = RUNNING
    TERMINATED: ClassVar[str] = TERMINATED
    ERROR: ClassVar[str] = ERROR

    @property
    def leg(self) -> Leg:
        """Returns the trial's present or last run."""
        return self.legs[-1]

    @property
    def live(self) -> bool:
        """Returns true if the trial has a run that has not ended."""
        return self.started and self.status in (PENDING, RUNNING)

    @property
    def finished(self) -> bool:
        """Returns true if the trial has ended, with or without success."""
        return self.status in (TERMINATED, ERROR)

    def __str__(self) -> str:
        return self.name


public_in("rtrain.tune.callback", Trial)
