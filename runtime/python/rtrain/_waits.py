"""Measures how long a training loop waits for batches, and for other ranks in collectives. The agent uses it for goodput.

Each wait costs two reads of the clock and an addition. The worker library is called once for every 10 ms of waiting, so a
worker's sum may be 10 ms short. Nothing is measured in a process that no agent started.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

_TOLD_FROM_NS = 10_000_000
_END: Any = object()
_data_ns = 0
_waiting = False  # a wait is being measured; a wait within it is a part of it


def _tell(name: str) -> Callable[[int], None] | None:
    """Returns the function that takes the microseconds of a wait; None if this process is no worker."""
    worker = sys.modules.get("rtrain.train._worker")
    if worker is None or not os.environ.get("RTRAIN_WORKER_SOCKET") or worker.is_a_child_of_multiprocessing():
        return None
    tell: Callable[[int], None] = getattr(worker, name)
    return tell


def measured(batches: Iterable[T]) -> Iterator[T]:
    """Returns an iterator over the batches. The time until each one arrives counts as waiting for data."""
    tell = _tell("data_wait")
    return iter(batches) if tell is None else _measured(iter(batches), tell)


def _measured(batches: Iterator[T], tell: Callable[[int], None]) -> Iterator[T]:
    global _data_ns, _waiting
    clock = time.perf_counter_ns
    try:
        while True:
            within, begun = _waiting, clock()
            try:
                _waiting = True
                batch = next(batches, _END)
            finally:
                if not within:
                    _waiting = False
                    _data_ns += clock() - begun
            if _data_ns >= _TOLD_FROM_NS:
                waited_us, _data_ns = divmod(_data_ns, 1000)
                tell(waited_us)
            if batch is _END:
                return
            yield batch
    finally:
        close = getattr(batches, "close", None)
        if close is not None:
            close()


def barrier_wait() -> Callable[[int], None] | None:
    """Returns the function that takes the microseconds for which this rank waited in a collective; None if this process is
    no worker.
    """
    return _tell("barrier_wait")
