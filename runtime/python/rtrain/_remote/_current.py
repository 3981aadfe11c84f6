"""The call that this process carries out just now, and the actor that it holds."""

from __future__ import annotations

import contextvars
import os
from dataclasses import dataclass, field
from typing import Any

JOB = "RTRAIN_REMOTE_JOB"  # in workers of remote calls: the id of the driver's program
call: contextvars.ContextVar[str] = contextvars.ContextVar("rtrain_call", default="")  # such as "train()"
call_number: contextvars.ContextVar[int] = contextvars.ContextVar("rtrain_call_number", default=0)


@dataclass
class Actor:
    """The actor of this process."""

    instance: Any
    description: dict[str, Any] = field(default_factory=dict)  # its handle's, in another process
    methods: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)


actor: Actor | None = None


def job_id() -> str:
    """Returns the id of the program that this process belongs to: its driver's run, or the driver's session."""
    if given := os.environ.get(JOB) or os.environ.get("RTRAIN_RUN_ID"):
        return given
    from rtrain._http import SESSION  # here, as workers need no client of the head

    return SESSION
