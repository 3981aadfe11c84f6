"""A queue that several processes share: an actor holds it. Handles of it may be sent in arguments of remote calls."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterable, Mapping
from typing import Any

from rtrain._remote._api import RemoteClass, kill
from rtrain._remote._options import Options
from rtrain._remote._refs import get

__all__ = ["Empty", "Full", "Queue"]


class Empty(queue.Empty):
    """The queue had no item, or none within the timeout."""


class Full(queue.Full):
    """The queue had no room, or none within the timeout."""


class Queue:
    """A first-in, first-out queue on an actor. It lives as long as the process that made it, and somebody has it.

    maxsize: how many items it takes; 0: any number. actor_options: options of the actor, as `{"num_cpus": 1}`.
    """

    def __init__(self, maxsize: int = 0, actor_options: Mapping[str, Any] | None = None) -> None:
        self.maxsize = maxsize
        self.actor = RemoteClass(_QueueActor, Options().changed(**(actor_options or {}))).remote(maxsize)

    def __len__(self) -> int:
        return self.size()

    def size(self) -> int:
        """Returns the number of items."""
        return int(get(self.actor.size.remote()))

    def qsize(self) -> int:
        """Returns the number of items."""
        return self.size()

    def empty(self) -> bool:
        """Returns whether there is no item."""
        return self.size() == 0

    def full(self) -> bool:
        """Returns whether there is no room."""
        return 0 < self.maxsize <= self.size()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Adds an item. Waits for room, at most `timeout` seconds (None: without end). Raises Full without it."""
        get(self.actor.put.remote(item, _seconds(block, timeout)))

    async def put_async(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Adds an item like `put`, without blocking the event loop."""
        await self.actor.put.remote(item, _seconds(block, timeout))

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Removes and returns an item. Waits for one, at most `timeout` seconds (None: without end). Raises Empty without it."""
        return get(self.actor.get.remote(_seconds(block, timeout)))

    async def get_async(self, block: bool = True, timeout: float | None = None) -> Any:
        """Removes and returns an item like `get`, without blocking the event loop."""
        return await self.actor.get.remote(_seconds(block, timeout))

    def put_nowait(self, item: Any) -> None:
        """Adds an item. Raises Full without room."""
        self.put(item, block=False)

    def get_nowait(self) -> Any:
        """Removes and returns an item. Raises Empty without one."""
        return self.get(block=False)

    def put_nowait_batch(self, items: Iterable[Any]) -> None:
        """Adds all items. Raises Full, and adds none, without room for all."""
        if isinstance(items, str | bytes) or not isinstance(items, Iterable):
            raise TypeError("put_nowait_batch takes a list of items")
        get(self.actor.put_batch.remote(list(items)))

    def get_nowait_batch(self, num_items: int) -> list[Any]:
        """Removes and returns items. Raises Empty, and removes none, if there are fewer than `num_items`."""
        if not isinstance(num_items, int) or num_items < 0:
            raise ValueError(f"num_items is {num_items!r}; it is 0 or more")
        return list(get(self.actor.get_batch.remote(num_items)))

    def shutdown(self, force: bool = False, grace_period_s: int = 5) -> None:
        """Ends the actor and drops its items. Calls that wait get `grace_period_s` seconds, unless `force`."""
        if not force:
            from rtrain._remote._refs import wait

            wait([self.actor.__ray_terminate__.remote()], timeout=grace_period_s)
        kill(self.actor)


def _seconds(block: bool, timeout: float | None) -> float | None:
    """Returns how long a call waits; None: without end."""
    if not block:
        return 0
    if timeout is not None and timeout < 0:
        raise ValueError("'timeout' must be a non-negative number")
    return timeout


class _QueueActor:
    def __init__(self, maxsize: int) -> None:
        self._maxsize = maxsize
        self._items: asyncio.Queue[Any] = asyncio.Queue(maxsize)

    async def size(self) -> int:
        return self._items.qsize()

    async def put(self, item: Any, seconds: float | None) -> None:
        try:
            if seconds == 0:
                self._items.put_nowait(item)
            else:
                await asyncio.wait_for(self._items.put(item), seconds)
        except (asyncio.QueueFull, asyncio.TimeoutError):
            raise Full from None

    async def get(self, seconds: float | None) -> Any:
        try:
            return self._items.get_nowait() if seconds == 0 else await asyncio.wait_for(self._items.get(), seconds)
        except (asyncio.QueueEmpty, asyncio.TimeoutError):
            raise Empty from None

    async def put_batch(self, items: list[Any]) -> None:
        if 0 < self._maxsize < self._items.qsize() + len(items):
            raise Full(f"{len(items)} items do not fit: {self._items.qsize()} of {self._maxsize} places are taken")
        for item in items:
            self._items.put_nowait(item)

    async def get_batch(self, count: int) -> list[Any]:
        if self._items.qsize() < count:
            raise Empty(f"there are {self._items.qsize()} items, and not {count}")
        return [self._items.get_nowait() for _ in range(count)]
