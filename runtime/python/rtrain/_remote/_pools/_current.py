"""The call that this worker executes, and the calls that its function has made: `rtrain.cancel(recursive=True)` cancels them too."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

number = 0  # the number of the call whose function runs in the main thread; 0: none


class Children(Protocol):
    def __call__(self, parent: int, *, force: bool) -> None: ...


_cancel_children: Children | None = None
_shields = 0  # nested `shielded` blocks of the main thread
_postponed: Callable[[], None] | None = None


def set_children(cancel: Children | None) -> None:
    global _cancel_children
    _cancel_children = cancel


def cancel_children(parent: int, *, force: bool) -> None:
    if _cancel_children is not None:
        _cancel_children(parent, force=force)


def postpone_interrupt(raises: Callable[[], None]) -> bool:
    """Returns true if the main thread is within `shielded`, whose end then calls `raises`."""
    global _postponed
    if not _shields:
        return False
    _postponed = raises
    return True


@contextlib.contextmanager
def shielded() -> Iterator[None]:
    """Keeps an interrupt out of the pools' own code, which it could stop between two steps that belong together."""
    global _shields, _postponed
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _shields += 1
    try:
        yield
    finally:
        _shields -= 1
        if not _shields and _postponed is not None:
            raises, _postponed = _postponed, None
            raises()
