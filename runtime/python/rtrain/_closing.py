"""Objects that must end before the connection to the cluster does, such as tasks and actors of this process."""

from __future__ import annotations

from collections.abc import Callable

_steps: list[Callable[[], None]] = []


def before_shutdown(step: Callable[[], None]) -> None:
    """Runs `step` at `rtrain.shutdown()` and at the end of the process. The last registered step runs first."""
    if step not in _steps:
        _steps.append(step)


def run() -> None:
    for step in reversed(_steps):
        step()
