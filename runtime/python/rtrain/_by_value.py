"""Modules that travel whole inside of a pickle, for as long as somebody is pickling: several threads may be at once."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from types import ModuleType

_lock = threading.Lock()
_holders: Counter[str] = Counter()  # number of registrations of each module


def _in_a_child() -> None:
    global _lock
    _lock = threading.Lock()  # replaces the lock, which a thread of the parent may hold


os.register_at_fork(after_in_child=_in_a_child)


@contextlib.contextmanager
def by_value(modules: Iterable[ModuleType]) -> Iterator[None]:
    """Modules that the program itself has registered with cloudpickle stay registered."""
    import cloudpickle  # type: ignore[import-untyped,unused-ignore]

    held: list[ModuleType] = []
    with _lock:
        own = cloudpickle.list_registry_pickle_by_value()
        for module in modules:
            if _holders[module.__name__] == 0 and module.__name__ in own:
                continue
            cloudpickle.register_pickle_by_value(module)
            _holders[module.__name__] += 1
            held.append(module)
    try:
        yield
    finally:
        with _lock:
            for module in held:
                _holders[module.__name__] -= 1
                if _holders[module.__name__] == 0 and module.__name__ in cloudpickle.list_registry_pickle_by_value():
                    cloudpickle.unregister_pickle_by_value(module)
