"""Records since when this process waits in `get` or `wait`. A worker that waits may lend its CPUs to the calls it waits for."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator


class _Waits:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.threads = 0  # that wait
        self.since: float | None = None
        self.listener: Callable[[], None] | None = None  # called when the first thread begins to wait


_waits = _Waits()


def _in_a_child() -> None:
    global _waits
    _waits = _Waits()  # replaces the lock, which a thread of the parent may hold


os.register_at_fork(after_in_child=_in_a_child)


@contextlib.contextmanager
def waiting() -> Iterator[None]:
    waits = _waits
    with waits.lock:
        waits.threads += 1
        is_first = waits.threads == 1
        if is_first:
            waits.since = time.monotonic()
    try:
        if is_first and waits.listener is not None:
            waits.listener()
        yield
    finally:
        with waits.lock:
            waits.threads -= 1
            if not waits.threads:
                waits.since = None


def since() -> float | None:
    """Returns the time of time.monotonic() since which a thread of this process waits; None if no thread waits."""
    return _waits.since


def listen(listener: Callable[[], None] | None) -> None:
    _waits.listener = listener
