"""Converts values to message parts and back by cloudpickle, which includes functions of `__main__`, closures and lambdas.
The memory of arrays is sent directly, without a copy into the pickle.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

from rtrain import _public_names
from rtrain._by_value import by_value
from rtrain._remote import _travel
from rtrain._remote._channel import Part
from rtrain._remote._own_modules import own_modules

_PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes})
_PLAIN_MOST = 1000  # maximum number of objects to inspect


def _is_plain(value: Any) -> bool:
    """Returns true if the value consists of built-in types only, so that no part of it is defined beside the driver."""
    left, waiting = _PLAIN_MOST, [value]
    while waiting:
        part = waiting.pop()
        kind = type(part)
        if kind in (tuple, list, dict):
            left -= 1 + 2 * len(part)
            if left < 0:
                return False
            waiting += [*part, *part.values()] if kind is dict else part
        elif kind not in _PLAIN:
            return False
    return True


def pack(value: Any, what: str, dump: Callable[..., bytes] | None = None, lent: list[Any] | None = None) -> list[Part]:
    """Pickles a value by _public_names.dumps, or by `dump`. TypeError names `what` when it cannot be pickled.

    The parts may hold keys of actors, so they are sent over channels of the same user alone, and never stored. lent: gets the
    handles of actors that the value holds.
    """
    dump = dump or _public_names.dumps
    buffers: list[pickle.PickleBuffer] = []
    try:
        # Skips the search through two thousand modules, which would make a forked worker copy their memory pages.
        if _is_plain(value):
            return [pickle.dumps(value, protocol=5)]
        with by_value(own_modules()), _travel.sending(lent):
            text = dump(value, protocol=5, buffer_callback=buffers.append)
    except Exception as error:  # a `__reduce__` may raise anything
        raise TypeError(f"{what} cannot be sent to another process: {type(error).__name__}: {error}") from error
    return [text, *(buffer.raw() for buffer in buffers)]


def unpack(parts: Sequence[Part]) -> Any:
    return pickle.loads(parts[0], buffers=parts[1:])
