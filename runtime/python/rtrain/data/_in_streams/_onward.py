"""Reads one stream of a node from a place on. A place is a small value that JSON can hold; None is the stream's beginning.

Most nodes have positions: a stream is a range of positions, and a place is a number of rows. A `Found` node (_found.py) makes
the rows of a stream from its children's rows of that stream, and defines its own places.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rtrain.data._block import Block
from rtrain.data._dealing._dealt import read_ranges
from rtrain.data._dealing._streams import Streams
from rtrain.data._plan import Node, Order

Place = Any


class Reader:
    """Reads the rows of a stream in order. It holds the blocks that were read and not taken."""

    def __init__(self, blocks: Iterator[tuple[Block, Place]], place: Place = None) -> None:
        """place: the place of the first row: the place where `blocks` begins, and the number of rows to skip."""
        self._coming = blocks
        self._before: Place = None if place is None else place[0]
        self._skipped: int = 0 if place is None else place[1]
        self._held: list[tuple[Block, Place]] = []
        self._rows = -self._skipped
        while self._rows < 0 and self._more():
            pass

    def ready(self, rows: int) -> int:
        """Reads until `rows` rows are held or the stream ends. Returns how many rows are held, `rows` at most."""
        while self._rows < rows and self._more():
            pass
        return min(rows, self._rows)

    def take(self, rows: int) -> list[Block]:
        """Returns the next `rows` rows in blocks. They must be held: see `ready`."""
        taken: list[Block] = []
        self._rows -= rows
        while self._held and (rows > 0 or self._held[0][0].rows == self._skipped):
            block, after = self._held[0]
            stop = min(self._skipped + rows, block.rows)
            if stop > self._skipped:
                taken.append(block.slice(self._skipped, stop))
            rows -= stop - self._skipped
            self._skipped = stop
            if stop == block.rows:
                self._held.pop(0)
                self._before, self._skipped = after, 0
        return taken

    def take_block(self) -> tuple[Block, Place] | None:
        """Returns the rest of the next block, and the place of its first row; None at the stream's end."""
        if not self.ready(1):
            return None
        place = self.place
        return self.take(self._held[0][0].rows - self._skipped)[0], place

    @property
    def place(self) -> Place:
        return [self._before, self._skipped]

    def _more(self) -> bool:
        coming = next(self._coming, None)
        if coming is None:
            return False
        if not self._held and self._skipped >= coming[0].rows:  # The place is at the end of a block, or the block is empty.
            self._skipped -= coming[0].rows
            self._before = coming[1]
        else:
            self._held.append(coming)
        self._rows += coming[0].rows
        return True


def rows_of_streams(node: Node, order: Order) -> int | None:
    """Returns the row count of a node that has positions; None if the rows of a single stream need no count."""
    known = None if node.assumes and not order.strict else node.rows()
    if known is None and order.streams > 1:
        return sum(piece.rows for piece in node.start(order).pieces())
    return known


def length_of(rows: int | None, order: Order, stream: int) -> int | None:
    """Returns the row count of a stream. rows: the row count of the node."""
    start, stop = Streams(order.streams, rows, order.equal).range_of(stream)
    return None if stop is None else stop - start


def positioned(node: Node, order: Order, stream: int, rows: int | None, place: Place) -> Iterator[tuple[Block, Place]]:
    """Yields the blocks of a stream from a place on, each with the place behind it. The node has positions and `rows` rows."""
    first, stop = Streams(order.streams, rows, order.equal).range_of(stream)
    passed = place or 0
    for block in read_ranges(node.start(order), [(first + passed, stop)]):
        passed += block.rows
        yield block, passed
