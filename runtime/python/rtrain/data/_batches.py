"""Makes the batches of an iteration from blocks: cuts blocks to size, and lets a thread make batches ahead."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from rtrain.data import _block
from rtrain.data._block import Block
from rtrain.data._making._made import in_this_thread

T = TypeVar("T")


class Counts(Protocol):
    """The progress of an iteration."""

    consumed: int  # rows that the loop received
    ended: bool


def cut(blocks: Iterator[Block], size: int | None, *, drop_last: bool) -> Iterator[Block]:
    """Yields blocks of `size` rows. None: yields the blocks unchanged."""
    if size is None:
        yield from (block for block in blocks if block.rows)
        return
    held: list[Block] = []
    rows = 0
    for block in blocks:
        start = 0
        while rows + block.rows - start >= size:
            step = size - rows
            yield _block.concat([*held, block.slice(start, start + step)])
            held, rows, start = [], 0, start + step
        if start < block.rows:
            held.append(block.slice(start, block.rows))
            rows += block.rows - start
    if rows and not drop_last:
        yield _block.concat(held)


_END = object()


class Ahead(Iterator[T]):
    """Items that a thread makes before they are requested, at most `count` at a time. `close` ends the thread and waits for it."""

    def __init__(self, items: Iterator[T], count: int) -> None:
        self._items = items
        self._made: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._room = threading.Semaphore(count)
        self._closed = False
        self._thread = threading.Thread(target=self._make, name="rtrain-data", daemon=True)
        self._thread.start()

    def _make(self) -> None:
        while True:
            self._room.acquire()
            if self._closed:
                return
            try:
                item: Any = next(self._items, _END)
            except BaseException as error:  # The reader raises it.
                self._made.put((None, error))
                return
            self._made.put((item, None))
            if item is _END:
                return

    def __next__(self) -> T:
        if self._closed:
            raise StopIteration
        item, error = self._made.get()
        self._room.release()
        if error is not None:
            self.close()
            raise error
        if item is _END:
            self.close()
            raise StopIteration
        batch: T = item
        return batch

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._room.release()
            self._thread.join()


def counted(
    blocks: Iterator[Block],
    progress: Counts,
    batch_of: Callable[[Block], T],
    ahead: int,
    finish: Callable[[T], T] | None = None,
) -> Iterator[T]:
    """Yields the batches of the blocks, and counts rows in `progress` when the loop receives them.

    batch_of: makes a batch of a block, in a thread if `ahead` > 0. ahead: how many batches the thread makes ahead. finish:
    called with each batch in the caller's thread.
    """
    pairs = ((block.rows, batch_of(block)) for block in blocks)
    source: Iterator[tuple[int, T]] = Ahead(pairs, ahead) if ahead > 0 else _in_this_thread(pairs)
    try:
        for rows, item in source:
            progress.consumed += rows
            yield item if finish is None else finish(item)
        progress.ended = True
    finally:
        if isinstance(source, Ahead):
            source.close()
        pairs.close()
        close = getattr(blocks, "close", None)
        if close is not None:
            close()


def _in_this_thread(items: Iterator[T]) -> Iterator[T]:
    """Yields the items. The thread that takes them makes them, without the help of other threads."""
    while True:
        with in_this_thread():
            item: Any = next(items, _END)
        if item is _END:
            return
        yield item
