"""What this process carries out just now: the call, and the actor that it holds."""

from __future__ import annotations

import contextvars
from dataclasses import dataclass, field
from typing import Any

call: contextvars.ContextVar[str] = contextvars.ContextVar("rtrain_call", default="")  # such as "train()"
call_number: contextvars.ContextVar[int] = contextvars.ContextVar("rtrain_call_number", default=0)


@dataclass
class Actor:
    """The actor of this process."""

    instance: Any
    description: dict[str, Any] = field(default_factory=dict)  # what its handle in another process needs
    methods: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)


actor: Actor | None = None
