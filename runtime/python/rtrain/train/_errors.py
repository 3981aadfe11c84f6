"""What `fit()` raises. Every class survives pickling."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_SNIPPET = 1000
_NUMBERS = re.compile(r"\b(0x[0-9a-fA-F]+|\d+(\.\d+)?)\b")


class TrainingFailedError(RuntimeError):
    """The run ended in failure. The subclasses say who failed."""


class WorkerGroupError(TrainingFailedError):
    """Workers failed. `worker_failures` maps a world rank to its exception."""

    def __init__(self, message: str, worker_failures: Mapping[int, Exception] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.worker_failures: dict[int, Exception] = dict(worker_failures or {})

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.worker_failures)


class NCCLHangError(WorkerGroupError):
    """Ranks waited for each other without end and were ended."""


class ControllerError(TrainingFailedError):
    """The run could not be started, placed or kept; no worker is to blame. `controller_failure` says why."""

    def __init__(self, message: str, controller_failure: Exception | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.controller_failure = controller_failure or RuntimeError(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.controller_failure)


class PreemptionError(TrainingFailedError):
    """Nodes were taken away more often than the run allows."""

    def __init__(self, message: str, preemption_info: object = None, drain_timed_out: object = False) -> None:
        super().__init__(message)
        self.message = message
        self.preemption_info = preemption_info
        self.drain_timed_out = drain_timed_out

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.preemption_info, self.drain_timed_out)


class TrainingStoppedError(TrainingFailedError):
    """Somebody stopped the run."""


class UserExceptionWithTraceback(Exception):
    """What a worker raised, as text: the deepest frame of the user's files first, then the whole traceback."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.text,)


def group_message(failures: Mapping[int, str], more: str = "") -> str:
    """The text of a WorkerGroupError: ranks with one and the same traceback (numbers aside) are shown together."""
    groups: dict[str, list[int]] = {}
    shown: dict[str, str] = {}
    for rank in sorted(failures):
        key = _NUMBERS.sub("#", failures[rank])
        groups.setdefault(key, []).append(rank)
        shown.setdefault(key, failures[rank])
    parts = ["Training failed due to worker errors:"]
    for key, ranks in groups.items():
        text = shown[key].strip()
        if len(text) > _SNIPPET:
            text = text[: _SNIPPET // 2] + "\n... (shortened; `rtrain describe` has it whole)\n" + text[-_SNIPPET // 2 :]
        parts.append(f"[Rank {','.join(map(str, ranks))} Error Snippet]:\n{text}")
    if more:
        parts.append(more)
    return "\n".join(parts)
