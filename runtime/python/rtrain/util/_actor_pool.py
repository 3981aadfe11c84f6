"""A pool of actors that share a stream of values."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rtrain import _arguments
from rtrain._lazy import public_in
from rtrain._remote._refs import ObjectRef, get, wait

Submit = Callable[[Any, Any], ObjectRef]


class ActorPool:
    """Gives each value to an actor that is free: `ActorPool(actors).map(lambda actor, value: actor.double.remote(value), values)`."""

    def __init__(self, actors: Iterable[Any]) -> None:
        self._idle = list(actors)
        self._waiting: deque[tuple[Submit, Any]] = deque()  # no actor was free
        self._running: dict[ObjectRef, tuple[int, Any]] = {}  # the number of a value, and its actor
        self._by_number: dict[int, ObjectRef] = {}  # results that nobody has taken
        self._submitted = self._next = 0

    def map(self, fn: Submit, values: Iterable[Any]) -> Iterator[Any]:
        """Yields the results in the order of the values. Results that nobody has taken before are dropped."""
        self._start(fn, values)
        while self.has_next():
            yield self.get_next()

    def map_unordered(self, fn: Submit, values: Iterable[Any]) -> Iterator[Any]:
        """Yields the results in the order in which they arrive. Results that nobody has taken before are dropped."""
        self._start(fn, values)
        while self.has_next():
            yield self.get_next_unordered()

    def submit(self, fn: Submit, value: Any) -> None:
        """Calls `fn(actor, value)`, which returns a ref, with an actor that is free, or later when one is."""
        if not self._idle:
            self._waiting.append((fn, value))
            return
        actor = self._idle.pop()
        ref = fn(actor, value)
        self._running[ref] = self._submitted, actor
        self._by_number[self._submitted] = ref
        self._submitted += 1

    def has_next(self) -> bool:
        """Returns whether there are results that nobody has taken."""
        return bool(self._by_number)

    def get_next(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """Returns the next result in the order of submission, or raises what its call raised.

        Raises StopIteration without one, TimeoutError after `timeout` seconds, and ValueError if `get_next_unordered` has
        returned it. ignore_if_timedout: the result is dropped, and its actor takes further values behind that call.
        """
        if not self.has_next():
            raise StopIteration("there are no more results")
        if self._next not in self._by_number:
            raise ValueError("get_next() does not follow get_next_unordered(), which has taken the next result")
        ref = self._by_number[self._next]
        in_time = bool(wait([ref], timeout=timeout)[0])
        if not in_time and not ignore_if_timedout:
            raise TimeoutError(f"the next result did not arrive within {timeout} s")
        del self._by_number[self._next]
        self._next += 1
        self._free(ref)
        if not in_time:
            raise TimeoutError(f"the next result did not arrive within {timeout} s, and is dropped")
        return get(ref)

    def get_next_unordered(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """Returns any result that has arrived, or raises what its call raised.

        Raises StopIteration without one, and TimeoutError after `timeout` seconds. ignore_if_timedout: changes nothing, since
        no call has been chosen that could be dropped.
        """
        _arguments.check_named("get_next_unordered", ignore_if_timedout=ignore_if_timedout)
        if not self.has_next():
            raise StopIteration("there are no more results")
        deadline = None if timeout is None else time.monotonic() + timeout
        ready, _ = wait(list(self._by_number.values()), timeout=None if deadline is None else deadline - time.monotonic())
        if not ready:
            raise TimeoutError(f"no result arrived within {timeout} s")
        number = self._running[ready[0]][0]
        del self._by_number[number]
        self._next = max(self._next, number + 1)
        self._free(ready[0])
        return get(ready[0])

    def has_free(self) -> bool:
        """Returns whether an actor is free and no value waits."""
        return bool(self._idle) and not self._waiting

    def pop_idle(self) -> Any:
        """Removes an actor that is free from the pool, and returns it; None if there is none."""
        return self._idle.pop() if self.has_free() else None

    def push(self, actor: Any) -> None:
        """Adds an actor. Raises ValueError if it is in the pool."""
        if actor in self._idle or any(actor is busy for _, busy in self._running.values()):
            raise ValueError("the actor is in the pool already")
        self._use(actor)

    def _start(self, fn: Submit, values: Iterable[Any]) -> None:
        while self.has_next():
            self.get_next_unordered()
        for value in values:
            self.submit(fn, value)

    def _free(self, ref: ObjectRef) -> None:
        self._use(self._running.pop(ref)[1])

    def _use(self, actor: Any) -> None:
        self._idle.append(actor)
        if self._waiting:
            self.submit(*self._waiting.popleft())


public_in("rtrain.util", ActorPool)
