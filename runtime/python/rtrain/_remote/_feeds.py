"""The worker's side of a generator: sends each item when it is made, and waits while the caller has too many untaken ones.

Invariant: sent <= taken + ahead.
"""

from __future__ import annotations

import functools
import pickle
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Any

from rtrain import _on_cpu
from rtrain._remote import _values
from rtrain._remote._channel import Part


class Closed(Exception):
    """The caller has deleted the generator."""


class Feed:
    """The items of one call."""

    def __init__(self, head: dict[str, Any], send: Callable[[Sequence[Part]], None], lent: list[Any] | None = None) -> None:
        self._number, self._what = head["id"], head["what"]
        self._ahead, self._taken, self._skip = head["ahead"], head["taken"], head["skip"]
        self._closed = bool(head.get("closed"))
        self._send = send
        self._lent = lent
        self._index = 0
        self._changed = threading.Condition()
        self._wake: Callable[[], object] = lambda: None

    def notice(self, message: dict[str, Any]) -> None:
        """Handles a message of the caller about this generator. The thread that receives calls it."""
        with self._changed:
            if message["op"] == "close":
                self._closed = True
            else:
                self._taken = max(self._taken, message["taken"])
            self._changed.notify_all()
            wake = self._wake
        wake()

    def send_items(self, items: Any) -> int:
        """Sends the items of an iterator or an asynchronous one, in this thread. Returns their number."""
        if not hasattr(items, "__anext__"):
            return self.send_all(items)
        import asyncio

        return asyncio.run(self.send_all_async(items))

    def send_all(self, items: Any) -> int:
        """Sends the items of an iterator. Returns their number; a generator that the caller has closed is closed here."""
        iterator: Iterator[Any] = iter(items)
        try:
            for item in iterator:
                with self._changed:
                    self._changed.wait_for(self._may_go_on)
                self._send_one(item)
        except Closed:
            getattr(iterator, "close", lambda: None)()
        return self._index

    async def send_all_async(self, items: Any) -> int:
        """Does the same in an event loop, for generators and asynchronous generators."""
        iterator: AsyncGenerator[Any, None] = items if hasattr(items, "__anext__") else _each(items)
        try:
            async for item in iterator:
                await self._until_more()
                self._send_one(item)
        except Closed:
            await iterator.aclose()
        return self._index

    async def _until_more(self) -> None:
        import asyncio

        loop = asyncio.get_running_loop()
        while True:
            woken = asyncio.Event()
            with self._changed:
                if self._may_go_on():
                    return
                self._wake = functools.partial(loop.call_soon_threadsafe, woken.set)
            await woken.wait()

    def _may_go_on(self) -> bool:
        return self._closed or self._index - self._taken < self._ahead

    def _send_one(self, item: Any) -> None:
        if self._closed:
            raise Closed
        index, self._index = self._index, self._index + 1
        if index < self._skip:
            return
        parts = _values.pack(item, f"item {index} of {self._what}", _on_cpu.dumps, self._lent)
        self._send([pickle.dumps({"op": "item", "id": self._number, "index": index}), *parts])


async def _each(items: Any) -> AsyncGenerator[Any, None]:
    for item in items:
        yield item
