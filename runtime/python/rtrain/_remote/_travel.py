"""Allows a handle of an actor to be pickled only as a part of a message between processes of one user.

The pickle of a handle holds the key of the actor's run, which no file may hold (docs/decisions/0077). So `_values.pack`, whose
parts go over an authenticated channel, opens a scope here. Outside of it a handle refuses to be pickled.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any


class _Scope(threading.local):
    lent: list[Any] | None = None


_scope = _Scope()


@contextlib.contextmanager
def sending(lent: list[Any] | None = None) -> Iterator[list[Any]]:
    """Opens the scope for this thread. The handles that are pickled within it are added to `lent`."""
    before, _scope.lent = _scope.lent, [] if lent is None else lent
    try:
        yield _scope.lent
    finally:
        _scope.lent = before


def lend(handle: Any, what: str) -> None:
    """Records that `handle` is pickled. Raises TypeError outside of a message."""
    if _scope.lent is None:
        raise TypeError(
            f"the handle of {what} can only be sent in arguments and results of remote calls: its pickle holds the key of the "
            "actor's connections, which belongs into no file"
        )
    _scope.lent.append(handle)
