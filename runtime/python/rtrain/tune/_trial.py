"""A trial: its config, its runs on the cluster, what it reported last, how it ended."""

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
    resume_from: str = ""  # a donor's checkpoint
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
    started: bool = False  # its present run was submitted
    ending: str = ""  # why its run is being stopped: scheduler, stopper, budget, fail_fast, interrupt, exploit
    why: str = ""  # how it ended, in a few words
    error: Exception | None = None
    again: bool = False  # its last run has failed, and is to be submitted once more
    next_leg: tuple[str, dict[str, Any]] | None = None  # donor and config, once the present run has ended
    checkpoint: Checkpoint | None = None  # the newest committed one; the driver knows it where there are callbacks

    PENDING: ClassVar[str] = PENDING
    RUNNING: ClassVar[str] = RUNNING
    TERMINATED: ClassVar[str] = TERMINATED
    ERROR: ClassVar[str] = ERROR

    @property
    def leg(self) -> Leg:
        """The trial's present run, or its last one."""
        return self.legs[-1]

    @property
    def live(self) -> bool:
        """Whether the trial has a run that has not ended."""
        return self.started and self.status in (PENDING, RUNNING)

    @property
    def finished(self) -> bool:
        """Whether the trial has ended, with success or without."""
        return self.status in (TERMINATED, ERROR)

    def __str__(self) -> str:
        return self.name


public_in("rtrain.tune.callback", Trial)
