"""Nodes that reorder a child's rows: shuffled, with groups in a random order, or with one order kept for every epoch.

A shuffle of rows in memory is a permutation of all rows. Files are read from front to back, so their groups (row groups, files)
come in a random order. A few groups are read in turn, and their pieces are shuffled row by row within windows of a bounded
size. Each window belongs to one stream. Both shuffles depend on seed, epoch and the number of streams only, never on the number
of ranks. A rank reads the windows that contain its rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rtrain.data import _block
from rtrain.data._block import Block
from rtrain.data._dealing._streams import Streams
from rtrain.data._far._ahead import Fetching
from rtrain.data._making._made import Task, made
from rtrain.data._ops import Columns, MapRows
from rtrain.data._plan import OPEN_GROUPS, UNKNOWN, Mapped, Node, Order, Piece, Read, Run, cut, part_of, task_of
from rtrain.data._source import Source

WINDOW_BYTES = 128 << 20
_PIECE_BYTES = 4 << 20
_TURNS = OPEN_GROUPS - 1  # the groups that are read in turn; fewer if they are large, because a reader holds a whole row group
_TURN_PIECES = 64
_INDEX_MAX = 1 << 26  # rows that are permuted as a whole; the permutation takes 8 bytes for each


class Reordered(Node):
    """All rows of the child, in another order."""

    def __init__(self, child: Node, seed: int | None) -> None:
        self.children = (child,)
        self.seed = seed
        self.salt = _depth(child)

    @property
    def child(self) -> Node:
        return self.children[0]

    @property
    def steady(self) -> bool:
        return False

    def rows(self) -> int | None:
        return self.child.rows()

    def names(self) -> list[str] | None:
        return self.child.names()

    def over(self, child: Node) -> Node:
        """Returns the same reordering of another child."""
        return type(self)(child, self.seed)


class Shuffled(Reordered):
    _permutation: tuple[Any, np.ndarray[Any, Any]] | None = None

    def __init__(self, child: Node, seed: int | None, window_bytes: int = WINDOW_BYTES) -> None:
        super().__init__(child, seed)
        self.window_bytes = window_bytes

    def over(self, child: Node) -> Node:
        return Shuffled(child, self.seed, self.window_bytes)

    def says(self) -> str:
        return f"{self.child.says()} -> random_shuffle({'' if self.seed is None else f'seed={self.seed}'})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_permutation"}

    def start(self, order: Order) -> Run:
        source = _in_memory(self.child)
        if source is not None and (self.rows() or 0) <= _INDEX_MAX:
            return _IndexRun(self, source, order)
        return WindowRun(self, order)

    def permutation(self, order: Order) -> np.ndarray[Any, Any]:
        """Returns the order of all rows in one epoch. The runs of one epoch, each of which reads a stream, share it."""
        rows, key = self.rows() or 0, (order.seed, order.epoch)
        held = self._permutation  # Another thread may replace the attribute.
        if held is None or held[0] != key or len(held[1]) != rows:
            held = self._permutation = key, order.random(self.seed, self.salt).permutation(rows)
        return held[1]


class _IndexRun:
    """A permutation of rows that lie in memory."""

    def __init__(self, node: Shuffled, source: Source, order: Order) -> None:
        self.node, self.source, self.order = node, source, order
        self.places = node.permutation(order)

    def pieces(self) -> Iterator[Piece]:
        each = max((max(group.pieces or [1]) for group in self.source.groups()), default=1)
        for start, stop in _streams_of(len(self.places), self.order):
            for first in range(start, stop, each):
                last = min(first + each, stop)
                yield Piece((first, last), last - first)

    def outline(self) -> Iterator[Piece]:
        return self.pieces()

    def read(self, piece: Piece) -> Block:
        return self.part(piece, 0, piece.rows)

    def part(self, piece: Piece, start: int, stop: int) -> Block:
        first, _ = piece.key
        block = self.source.take(self.places[first + start : first + stop])
        return self.node.child.carried_out(block, piece, self.order, start) if isinstance(self.node.child, Mapped) else block

    def task(self, piece: Piece, start: int, stop: int) -> Task | Block:
        gain = self.node.child.gain if isinstance(self.node.child, Mapped) else None
        return self.part(piece, start, stop) if gain is None else Task(lambda: self.part(piece, start, stop), gain)


class WindowRun:
    """Deals the pieces of a few groups at a time into windows, and permutes the rows of each window. One window is held. A
    window lies within a stream, so that a rank makes no rows of another rank's stream. A piece that two streams share is cut."""

    def __init__(self, node: Shuffled, order: Order) -> None:
        self.node, self.order = node, order
        self.child = node.child.start(order.whole())
        self.windows: list[list[_Part]] | None = None
        self.held: _Held | None = None

    def pieces(self) -> Iterator[Piece]:
        for number, window in enumerate(self._windows()):
            known = all(part.piece.rows != UNKNOWN for part in window)
            rows = sum(part.rows for part in window) if known else self._window(number).rows
            start = 0
            for length in cut(rows, max(1, math.ceil(rows / len(window)))):
                yield Piece((number, start, start + length), length)
                start += length

    def _windows(self) -> list[list[_Part]]:
        """Deals the pieces into windows. A run may also read pieces that another run of the same order returned. Pieces without
        rows are dealt too, so that the order does not depend on whether rows were counted."""
        if self.windows is None:
            self.windows = [window for windows in self._windows_of_streams() for window in windows]
        return self.windows

    def _windows_of_streams(self) -> list[list[list[_Part]]]:
        each = max(1, self.node.window_bytes // _PIECE_BYTES)
        pieces = self._dealt(list(self.child.outline()))
        if isinstance(self.child, Fetching):
            self.child.expect([piece.group for piece in pieces])
        if self.is_uncounted:
            streams = [[_Part(piece, 0, piece.rows) for piece in part] for part in equal_parts(pieces, self.order.streams)]
        else:
            streams = _in_streams(pieces, self.order)
        return [[stream[start : start + each] for start in range(0, len(stream), each)] for stream in streams]

    def _dealt(self, pieces: list[Piece]) -> list[Piece]:
        groups = _groups(pieces)
        order = self.order.random(self.node.seed, self.node.salt).permutation(len(groups))
        mixed = [groups[place] for place in order]
        dealt: list[Piece] = []
        turns = max(1, min(_TURNS, _TURN_PIECES // max(map(len, groups), default=1)))
        for start in range(0, len(mixed), turns):
            for turn in itertools.zip_longest(*mixed[start : start + turns]):
                dealt.extend(piece for piece in turn if piece is not None)
        return dealt

    def outline(self) -> Iterator[Piece]:
        return itertools.chain.from_iterable(self.outlines()) if self.is_uncounted else self.pieces()

    @property
    def is_uncounted(self) -> bool:
        return self.order.lanes and not self.node.positioned

    def outlines(self) -> list[list[Piece]]:
        """Returns the windows of each stream, whose rows are not counted. Each window is one piece."""
        outlines: list[list[Piece]] = []
        first = 0
        for windows in self._windows_of_streams():
            outlines.append([Piece((number,), UNKNOWN) for number in range(first, first + len(windows))])
            first += len(windows)
        return outlines

    def read(self, piece: Piece) -> Block:
        return self.part(piece, 0, piece.rows)

    def part(self, piece: Piece, start: int, stop: int) -> Block:
        if piece.rows == UNKNOWN:
            block, self.held = self._window(piece.key[0]), None
            return block
        number, first, _ = piece.key
        return _block.concat(self._rows(number, first + start, first + stop))

    def _rows(self, number: int, start: int, stop: int) -> Iterator[Block]:
        """Yields rows of a window."""
        if self.held is None or self.held.number != number or self.held.start > start:
            self.held = None  # Frees the held window before the next one is made.
            self.held = _Held(number, 0, Block({}), self._shuffled(number))
        held = self.held
        while start < stop:
            if held.start + held.block.rows <= start:
                held.start, held.block = held.start + held.block.rows, Block({})
                held.block = next(held.coming)
                continue
            end = min(stop, held.start + held.block.rows)
            yield held.block.slice(start - held.start, end - held.start)
            start = end

    def _window(self, number: int) -> Block:
        """Returns all rows of a window as one block. It is used if the number of its rows is not known."""
        if self.held is None or self.held.number != number or self.held.start:
            self.held = None
            coming = self._shuffled(number)
            self.held = _Held(number, 0, next(coming, Block({})), coming)
        return self.held.block

    def _shuffled(self, number: int) -> Iterator[Block]:
        """Returns the shuffled rows of a window. If functions made more than `window_bytes` of its pieces, the window is
        shuffled in parts, unless its rows are not counted."""
        parts = [part for part in self._windows()[number] if part.rows]
        known = not self.is_uncounted and all(part.piece.rows != UNKNOWN for part in parts)
        most = self.node.window_bytes if known and not self.order.whole_windows else math.inf
        return _in_random_order(parts, self.child, most, self.order.random(self.node.seed, self.node.salt + 1 + number))


@dataclass
class _Held:
    """The rows of a window from row `start` on, and the iterator of the following blocks."""

    number: int
    start: int
    block: Block
    coming: Iterator[Block]


def _in_random_order(parts: list[_Part], child: Run, most: float, numbers: np.random.Generator) -> Iterator[Block]:
    """Yields the rows of the parts in blocks of at least `most` bytes, each shuffled. It must not refer to the run that holds
    it. Otherwise its threads would not end when a loop ends early."""
    blocks: list[Block] = []
    for block in made(part.task_of(child) for part in parts):
        blocks.append(block)
        if sum(block.nbytes for block in blocks) >= most:
            yield _mixed(blocks, numbers)
    if blocks:
        yield _mixed(blocks, numbers)


def _mixed(blocks: list[Block], numbers: np.random.Generator) -> Block:
    """Returns the rows in a random order. Empties the list."""
    block = _block.concat(blocks)
    blocks.clear()
    return block.take(numbers.permutation(block.rows))


@dataclass(frozen=True)
class _Part:
    """Rows `start` to `stop` of a piece. The number of the piece's rows may be UNKNOWN."""

    piece: Piece
    start: int
    stop: int

    @property
    def rows(self) -> int:
        return self.stop - self.start

    def task_of(self, run: Run) -> Task | Block:
        return task_of(run, self.piece, self.start, self.stop)


def _in_streams(pieces: list[Piece], order: Order) -> list[list[_Part]]:
    """Cuts pieces at the ends of streams. Returns the parts of each stream, and the parts of the rows that belong to no stream."""
    if any(piece.rows == UNKNOWN for piece in pieces):
        return [[_Part(piece, 0, piece.rows) for piece in pieces]]
    streams = [(stop, list[_Part]()) for _, stop in _streams_of(sum(piece.rows for piece in pieces), order)]
    number = passed = 0
    for piece in pieces:
        start = 0
        while True:
            end, parts = streams[number]
            stop = min(piece.rows, end - passed) if number < len(streams) - 1 else piece.rows
            if stop > start or not piece.rows:
                parts.append(_Part(piece, start, stop))
            if stop == piece.rows:
                break
            start, number = stop, number + 1
        passed += piece.rows
    return [parts for _, parts in streams]


def equal_parts(pieces: Sequence[Piece], count: int) -> list[Sequence[Piece]]:
    """Divides pieces into `count` parts of neighbours."""
    return [pieces[len(pieces) * number // count : len(pieces) * (number + 1) // count] for number in range(count)]


def _streams_of(rows: int, order: Order) -> list[tuple[int, int]]:
    """Returns the positions of each stream, and of the rows that belong to no stream, if there are any."""
    streams = Streams(order.streams, rows, order.equal)
    cuts = [(start, start if stop is None else stop) for start, stop in map(streams.range_of, range(order.streams))]
    return [*cuts, (cuts[-1][1], rows)] if cuts[-1][1] < rows else cuts


class BlockOrder(Reordered):
    """Groups in a random order. The rows of each group stay together."""

    def says(self) -> str:
        return f"{self.child.says()} -> randomize_block_order({'' if self.seed is None else f'seed={self.seed}'})"

    def start(self, order: Order) -> Run:
        return _BlockOrderRun(self, order)


class _BlockOrderRun:
    def __init__(self, node: BlockOrder, order: Order) -> None:
        self.node, self.order = node, order
        self.child = node.child.start(order.whole())
        self.waiting: tuple[Piece, Block] | None = None

    def outline(self) -> Iterator[Piece]:
        groups = _groups(list(self.child.outline()))
        places = self.order.random(self.node.seed, self.node.salt).permutation(len(groups))
        if isinstance(self.child, Fetching):
            self.child.expect([piece.group for place in places for piece in groups[place]])
        for place in places:
            yield from (Piece(piece, piece.rows, piece.group) for piece in groups[place])

    def pieces(self) -> Iterator[Piece]:
        for piece in self.outline():
            if piece.rows != UNKNOWN:
                counted = piece
            else:
                block = self.child.read(piece.key)
                counted = Piece(piece.key, block.rows, piece.group)
                self.waiting = counted, block
            if counted.rows:
                yield counted

    def read(self, piece: Piece) -> Block:
        return self.part(piece, 0, piece.rows)

    def part(self, piece: Piece, start: int, stop: int) -> Block:
        waiting, self.waiting = self.waiting, None
        if waiting is not None and waiting[0] == piece:
            return waiting[1].slice(start, stop)
        return part_of(self.child, piece.key, start, stop)

    def task(self, piece: Piece, start: int, stop: int) -> Task | Block:
        is_there = self.waiting is not None and self.waiting[0] == piece
        return self.part(piece, start, stop) if is_there else task_of(self.child, piece.key, start, stop)


class Frozen(Node):
    """Keeps one order of the child for every epoch, so that parts of it never share rows."""

    def __init__(self, child: Node, seed: int) -> None:
        self.children = (child,)
        self.seed = seed

    @property
    def steady(self) -> bool:
        return True

    def start(self, order: Order) -> Run:
        return self.children[0].start(Order(self.seed, 0, order.strict))

    def rows(self) -> int | None:
        return self.children[0].rows()

    def names(self) -> list[str] | None:
        return self.children[0].names()

    def says(self) -> str:
        return self.children[0].says()


def _in_memory(node: Node) -> Source | None:
    """Returns the source if the node consists of its rows in memory, each changed separately; else None."""
    while isinstance(node, Mapped) and all(isinstance(op, MapRows | Columns) for op in node.ops):
        node = node.child
        if isinstance(node, Mapped):
            return None
    return node.source if isinstance(node, Read) and node.in_memory else None


def _groups(pieces: list[Piece]) -> list[list[Piece]]:
    """Groups neighbouring pieces of the same group. A piece without a group is its own group."""
    groups: list[list[Piece]] = []
    for piece in pieces:
        if groups and piece.group is not None and groups[-1][-1].group == piece.group:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return groups


def _depth(node: Node) -> int:
    return 1000 * (1 + max((_depth(child) for child in node.children), default=0))
