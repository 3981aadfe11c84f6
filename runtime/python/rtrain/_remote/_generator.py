"""The caller's side of a generator that runs on a node: its items arrive before its answer, a bounded number ahead.

worker ── item 0, item 1, ... ──► Stream ──► ObjectRefGenerator, a ref for each item
       ◄── taken: N ─────────────┘            the worker waits while sent - taken >= ahead
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from rtrain._lazy import public_in
from rtrain._remote._channel import Part
from rtrain._remote._refs import ObjectRef, notify, settled, wait_until, waited

AHEAD = 64  # items that a worker sends before the caller takes them; `_generator_backpressure_num_objects` is another number
_WITHOUT_BOUND = 1 << 60


class Worker(Protocol):
    """The slot that the call was sent by."""

    def notify(self, message: dict[str, Any]) -> None: ...
    def notify_later(self, message: dict[str, Any]) -> None: ...


class Stream:
    """The items of one call. The call holds it; the caller holds the ObjectRefGenerator, whose end closes the generator."""

    def __init__(self, what: str, ahead: int | None, check: Callable[[], None]) -> None:
        self.what = what
        self.ended = ObjectRef(what, check)  # gets the number of items, or the error
        self._ahead = ahead or AHEAD
        self._lock = threading.Lock()
        self._items: deque[ObjectRef] = deque()
        self._received = self._taken = self._acknowledged = 0
        self._number = 0
        self._worker: Worker | None = None
        self._closed = self._completes = False
        self._callbacks: list[Callable[[], object]] = []
        self.ended._when_done(self._wake)

    # -- for the slot --------------------------------------------------------------------------------------------------
    def head(self, number: int, worker: Worker) -> dict[str, Any]:
        """Returns the fields of the call's message: a repeated call leaves out the items that have arrived."""
        with self._lock:
            self._number, self._worker = number, worker
            self._acknowledged = self._taken
            return {"ahead": self._ahead, "taken": self._taken, "skip": self._received, "closed": self._closed}

    def arrived(self, index: int, parts: Sequence[Part]) -> None:
        ref = ObjectRef(f"item {index} of {self.what}")
        settled(ref, parts=parts)
        with self._lock:
            if index != self._received:  # a repeated call's item that is here already
                return
            self._received += 1
            self._items.append(ref)
        notify()
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    # -- for the caller ------------------------------------------------------------------------------------------------
    def ready(self) -> bool:
        return bool(self._items) or self.ended.done()

    def when_ready(self, callback: Callable[[], object]) -> None:
        """Calls `callback` in any thread once the next item, or the end, is there."""
        with self._lock:
            self._callbacks.append(callback)
        if self.ready():
            self._wake()

    def take(self) -> ObjectRef | None:
        """Returns the next item; None if none has arrived."""
        with self._lock:
            if not self._items:
                return None
            ref = self._items.popleft()
            self._taken += 1
            tell = self._taken - self._acknowledged >= max(1, self._ahead // 2)
            if tell:
                self._acknowledged = self._taken
        if tell:
            self._tell_taken(self._taken)
        return ref

    def without_bound(self) -> None:
        """Lets the generator run to its end, whatever the caller takes."""
        with self._lock:
            self._ahead = _WITHOUT_BOUND
            self._completes = True
        self._tell_taken(_WITHOUT_BOUND)

    def close(self) -> None:
        """Closes the generator on its worker. Destructors call it."""
        if self._completes:
            return
        self._closed = True
        if self._worker is not None and not self.ended.done():
            self._worker.notify_later({"op": "close", "id": self._number})

    def _tell_taken(self, taken: int) -> None:
        if self._worker is not None and not self.ended.done():
            self._worker.notify({"op": "taken", "id": self._number, "taken": taken})


class ObjectRefGenerator:
    """Yields a ref for each item of a remote generator, as soon as the item is there. `for` and `async for` take it.

    The generator runs at most 64 items ahead of the caller. If it raises, the last ref raises its exception. It is closed when
    this object is deleted.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._over = False
        weakref.finalize(self, stream.close).atexit = False

    def __iter__(self) -> ObjectRefGenerator:
        return self

    def __next__(self) -> ObjectRef:
        ref = self._next()
        if ref is None:
            raise StopIteration
        return ref

    def __aiter__(self) -> ObjectRefGenerator:
        return self

    async def __anext__(self) -> ObjectRef:
        import asyncio

        while not self._stream.ready():
            loop, woken = asyncio.get_running_loop(), asyncio.Event()
            self._stream.when_ready(functools.partial(loop.call_soon_threadsafe, woken.set))
            await woken.wait()
        ref = self._next()
        if ref is None:
            raise StopAsyncIteration
        return ref

    def next_ready(self) -> bool:
        """Returns whether the next item, or the end, is there: `next` would return at once."""
        return self._stream.ready()

    def is_finished(self) -> bool:
        """Returns whether the generator has ended and all its items were taken."""
        return self._over or (self._stream.ended.done() and not self._stream._items and self._stream.ended._error is None)

    def completed(self) -> ObjectRef:
        """Returns a ref of the number of items. The generator then runs to its end without waiting for the caller."""
        self._stream.without_bound()
        return self._stream.ended

    def done(self) -> bool:
        """Returns whether `next` would return at once, as for a ref: `rtrain.wait` takes generators too."""
        return self._stream.ready()

    def _check(self) -> None:
        self._stream.ended._check()

    def _next(self) -> ObjectRef | None:
        """Returns the next ref; None at the end. Waits for it."""
        while not self._over:
            ref = self._stream.take()
            if ref is not None:
                return ref
            ended = self._stream.ended
            if ended.done() and not self._stream._items:
                self._over = True
                return ended if ended._error is not None else None
            wait_until(self._stream.ready, 0.5)
            self._check()
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(f"the generator of {self._stream.what} cannot be sent to another process: send its refs")

    def __repr__(self) -> str:
        return f"ObjectRefGenerator({self._stream.what}, {self._stream._taken} items taken)"


waited(ObjectRefGenerator)
public_in("rtrain", ObjectRefGenerator)
