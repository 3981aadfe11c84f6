"""A part of this process that `CallRuns` notifies, although it imports `CallRuns`: the pools of remote functions."""

from __future__ import annotations

from typing import Protocol


class Attached(Protocol):
    def close(self) -> None: ...
    def leave(self) -> None: ...
    def make_room(self, slot: object) -> None:
        """Receives a slot whose run waits for resources."""
