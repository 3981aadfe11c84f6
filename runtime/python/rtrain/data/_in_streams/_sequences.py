"""The chunks of streams if only reading finds how many rows a stream has.

`Listed`: the input's pieces are known before rows are read (Parquet files, rows in memory), so streams are ranges of pieces.
`InTurn`: the pieces are not known (CSV files, iterables). A stream has every piece whose number is assigned to it, up to the
end that reading finds.
"""

from __future__ import annotations

import copy
import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from rtrain import _chance
from rtrain.data import _block
from rtrain.data._block import Block
from rtrain.data._dealing._lanes import Lane
from rtrain.data._dealing._streams import Streams
from rtrain.data._joins import Rebatched, Union
from rtrain.data._making._made import Task, made
from rtrain.data._orders import BlockOrder, Shuffled, WindowRun, equal_parts
from rtrain.data._plan import UNKNOWN, Mapped, Node, Order, Piece, Read, ReadRun, Run, task_of
from rtrain.data._source import Recent

_CHUNKS = 4  # chunks of each stream, at least, if the input has fewer pieces
_RECENT_BYTES = 64 << 20
_WINDOW_PIECES = 32  # pieces in a window of a shuffle, if pieces are not known in advance


def is_listed(node: Node) -> bool:
    """Returns True if the pieces are known before rows are read, below all functions that change the number of rows."""
    if isinstance(node, Read):
        return node.source.sized
    return node.positioned or all(map(is_listed, node.children))


def has_chunks(node: Node) -> bool:
    """Returns True if streams can be made from the input's pieces, because no operation selects rows by position."""
    if node.positioned or isinstance(node, Read):
        return True
    return isinstance(node, Mapped | Rebatched | Shuffled | BlockOrder | Union) and all(map(has_chunks, node.children))


def chunks_of(node: Node, order: Order) -> Listed | InTurn:
    return Listed(node, order) if is_listed(node) else InTurn(node, order)


def onward(node: Node, order: Order, stream: int, place: Any) -> Iterator[tuple[Block, Any]]:
    """Yields the chunks of a stream, each with the place behind it. A place is the number of a chunk. No other stream takes
    over chunks."""
    chunks = chunks_of(node, order)
    lane = chunks.lanes()[stream]
    at = lane.at if place is None else place
    for number, (block, _) in enumerate(chunks.blocks(stream, at, lane, None), 1):
        yield block, at + number * chunks.step


class Listed:
    step = 1

    def __init__(self, node: Node, order: Order) -> None:
        self.node, self.order = _cut_below(node, order.streams), order
        self._pieces: list[Piece] = []
        self._stops = [0]
        for pieces in _outlines(self.node, order):
            self._pieces += pieces
            self._stops.append(len(self._pieces))

    def lanes(self) -> list[Lane]:
        return [Lane(first, stop) for first, stop in itertools.pairwise(self._stops)]

    def blocks(self, stream: int, chunk: int, lane: Lane, place: Any) -> Iterator[tuple[Block, Any]]:
        run = self.node.start(self.order)

        def tasks() -> Iterator[Task | Block]:
            at = chunk
            while lane.stop is None or at < lane.stop:
                yield task_of(run, self._pieces[at], 0, self._pieces[at].rows)
                at += 1

        return ((block, None) for block in made(tasks()))


class InTurn:
    def __init__(self, node: Node, order: Order) -> None:
        self.node, self.order = _dealt_below(node, None), order
        self.step = order.streams

    def lanes(self) -> list[Lane]:
        return [Lane(stream, None) for stream in range(self.order.streams)]

    def blocks(self, stream: int, chunk: int, lane: Lane, place: Any) -> Iterator[tuple[Block, Any]]:
        run = self.node.start(replace(self.order, stream=stream))
        pieces = itertools.islice(run.outline(), chunk // self.step, None)
        return ((block, None) for block in made(task_of(run, piece, 0, piece.rows) for piece in pieces))


# -- pieces that are known --------------------------------------------------------------------------------------------
class Cut(Node):
    """The pieces of a node with positions, cut at the ends of streams. If there are few pieces, they are cut further, so that
    streams can share them evenly. Batches of functions stay whole."""

    divides = True

    def __init__(self, child: Node, streams: int) -> None:
        self.children = (child,)
        self.streams = streams

    def start(self, order: Order) -> Run:
        return _CutRun(self, self.children[0].start(order), order)

    def outlines(self, run: Run, order: Order) -> list[list[Piece]]:
        """Returns the pieces of each stream of an order."""
        child = self.children[0]
        pieces = list(run.pieces())
        rows = sum(piece.rows for piece in pieces)
        each = child.each if isinstance(child, Rebatched) else 1
        most = max(rows, 1)
        if len(pieces) < _CHUNKS * self.streams and self.streams > 1:
            most = -(-rows // (_CHUNKS * self.streams * each)) * each
        streams = Streams(order.streams, rows, equal=False)
        ends = [stop or 0 for _, stop in map(streams.range_of, range(order.streams))]
        if child.steady:
            ends = [min(-(-end // each) * each, rows) for end in ends]
        return _cut(pieces, ends, max(1, most))

    def rows(self) -> int | None:
        return self.children[0].rows()

    def names(self) -> list[str] | None:
        return self.children[0].names()

    def says(self) -> str:
        return self.children[0].says()


def _cut(pieces: list[Piece], ends: list[int], most: int) -> list[list[Piece]]:
    """Returns the pieces before each end. Pieces are cut into parts of at most `most` rows."""
    outlines: list[list[Piece]] = [[] for _ in ends]
    stream = passed = 0
    for piece in pieces:
        start = 0
        while start < piece.rows:
            while stream < len(ends) - 1 and ends[stream] <= passed + start:
                stream += 1
            stop = min(piece.rows, start + most)
            if stream < len(ends) - 1:
                stop = min(stop, ends[stream] - passed)
            outlines[stream].append(_Part(piece.key, stop - start, piece.group, start, piece))
            start = stop
        passed += piece.rows
    return outlines


class _Part(Piece):
    """Rows of a piece. The part has the piece's key, so that random numbers do not depend on the cut."""

    whole: Piece

    def __init__(self, key: Any, rows: int, group: Any, start: int, whole: Piece) -> None:
        super().__init__(key, rows, group, start)
        object.__setattr__(self, "whole", whole)

    def __repr__(self) -> str:
        return f"Piece(key={self.key!r})"


class _CutRun:
    def __init__(self, node: Cut, child: Run, order: Order) -> None:
        self.node, self.child, self.order = node, child, order

    def outlines(self) -> list[list[Piece]]:
        return self.node.outlines(self.child, self.order)

    def pieces(self) -> Iterator[Piece]:
        return itertools.chain.from_iterable(self.outlines())

    def outline(self) -> Iterator[Piece]:
        return self.pieces()

    def read(self, piece: Piece) -> Block:
        return self.part(piece, 0, piece.rows)

    def part(self, piece: Piece, start: int, stop: int) -> Block:
        item = self.task(piece, start, stop)
        return item if isinstance(item, Block) else item.make()

    def task(self, piece: Piece, start: int, stop: int) -> Task | Block:
        assert isinstance(piece, _Part)
        return task_of(self.child, piece.whole, piece.start + start, piece.start + stop)


def _cut_below(node: Node, streams: int) -> Node:
    """Returns the node with a `Cut` below all functions that change the number of rows."""
    if node.positioned:
        return Cut(node, streams)
    if isinstance(node, Mapped):
        return node.over(_cut_below(node.child, streams))
    if isinstance(node, Union):
        return node.over([_cut_below(child, streams) for child in node.children])
    below = copy.copy(node)
    below.children = tuple(_cut_below(child, streams) for child in node.children)
    return below


def _outlines(node: Node, order: Order) -> list[list[Piece]]:
    """Returns the pieces of each stream."""
    if isinstance(node, Mapped | Rebatched):
        outlines = _outlines(node.children[0], order)
        if isinstance(node, Rebatched):
            return outlines
        return [[Piece(piece, UNKNOWN, piece.group, piece.start) for piece in pieces] for pieces in outlines]
    run = node.start(order)
    if isinstance(run, WindowRun | _CutRun):
        return run.outlines()
    return [list(pieces) for pieces in equal_parts(list(run.outline()), order.streams)]


# -- pieces that reading finds ----------------------------------------------------------------------------------------
class Strided(Node):
    """The pieces of one stream. If there are enough files or shards, each stream has its own ones. Each remaining large text
    file is divided into ranges, one for each stream. Every stream reads the other files and takes some of their pieces. The
    first pieces are cut, so that each stream has rows of a small file. mixed: the shuffle that puts files in a random order."""

    divides = True

    def __init__(self, child: Node, mixed: Shuffled | BlockOrder | None) -> None:
        self.children = (child,)
        self.mixed = mixed
        self._recent = Recent(_RECENT_BYTES)
        self._feed: _Feed | None = None

    def start(self, order: Order) -> Run:
        child = replace(order, stream=None)
        run = self.children[0].start(child)
        if isinstance(run, ReadRun) and order.streams > 1:
            if self._feed is None:
                feeding = self.children[0].start(child)
                assert isinstance(feeding, ReadRun)
                self._feed, feeding.recent = _Feed(feeding), self._recent
            run.recent = self._recent
        return _StridedRun(self, run, order)

    def pieces_of(self, run: ReadRun, place: int) -> Iterator[Piece]:
        """Yields the pieces of a file that all streams share."""
        return run.pieces_of(place) if self._feed is None else self._feed.pieces_of(place)

    def rows(self) -> int | None:
        return None

    def names(self) -> list[str] | None:
        return self.children[0].names()

    def says(self) -> str:
        return self.children[0].says()


class _StridedRun:
    def __init__(self, node: Strided, child: Run, order: Order) -> None:
        self.node, self.child, self.order = node, child, order

    def pieces(self) -> Iterator[Piece]:
        return self.outline()

    def outline(self) -> Iterator[Piece]:
        stream, count = self.order.stream or 0, self.order.streams
        if not isinstance(self.child, ReadRun):
            return _every(count, stream, self.child.outline())
        run, groups = self.child, len(self.child.source.groups())
        places = list(range(groups))
        if self.node.mixed is not None:
            places = self.order.random(self.node.mixed.seed, self.node.mixed.salt).permutation(groups).tolist()
        shared = groups - groups % count
        parts_of_rest = [run.source.part_of(place, stream, count) if count > 1 else None for place in places[shared:]]
        own_places = [*places[stream:shared:count], *(part for part in parts_of_rest if part is not None)]
        rest = [place for place, part in zip(places[shared:], parts_of_rest, strict=True) if part is None]
        own = (piece for place in own_places for piece in run.pieces_of(place))
        others = (piece for place in rest for piece in self.node.pieces_of(run, place))
        parts = (_nth_of(piece, stream, count) for piece in itertools.islice(others, _CHUNKS))
        return itertools.chain(own, parts, _every(count, stream, others))

    def read(self, piece: Piece) -> Block:
        return self.part(piece, 0, piece.rows)

    def part(self, piece: Piece, start: int, stop: int) -> Block:
        item = self.task(piece, start, stop)
        return item if isinstance(item, Block) else item.make()

    def task(self, piece: Piece, start: int, stop: int) -> Task | Block:
        if isinstance(piece, _Part):
            return task_of(self.child, piece.whole, piece.start + start, piece.start + stop)
        return task_of(self.child, piece, start, stop)


class _Feed:
    """One reading of files or iterables for all streams of a rank. The streams need neighbouring pieces, so recent pieces are
    held."""

    def __init__(self, run: ReadRun) -> None:
        self._run = run
        self._rows: dict[int, list[int]] = {}  # the rows of each piece of each file that was read
        self._coming: dict[int, Iterator[Piece]] = {}

    def pieces_of(self, place: int) -> Iterator[Piece]:
        rows = self._rows.setdefault(place, [])
        coming = self._coming.setdefault(place, self._run.pieces_of(place, anew=True))
        for number in itertools.count():
            if number == len(rows):
                piece = next(coming, None)
                if piece is None:
                    return
                rows.append(piece.rows)
            yield Piece((place, number), rows[number], place)


def _nth_of(piece: Piece, number: int, count: int) -> Piece:
    """Returns one of `count` equal parts of a piece."""
    start, stop = piece.rows * number // count, piece.rows * (number + 1) // count
    return _Part(piece.key, stop - start, piece.group, start, piece)


def _every(count: int, stream: int, pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Yields one of every `count` neighbouring pieces. Its position among them varies, so that a period in the data does not
    affect one stream only."""
    for turn in itertools.count():
        place = (stream + _chance.number_of(_SALT, turn)) % count
        own = next(itertools.islice(pieces, place, None), None)
        if own is None:
            return
        yield own
        deque(itertools.islice(pieces, count - 1 - place), 0)


_SALT = 0x7475726E


class WindowsInTurn(Node):
    """The rows of neighbouring pieces of a stream, shuffled."""

    def __init__(self, child: Node, shuffled: Shuffled) -> None:
        self.children = (child,)
        self.shuffled = shuffled
        self.pieces = max(1, min(_WINDOW_PIECES, shuffled.window_bytes // (4 << 20)))

    def start(self, order: Order) -> Run:
        return _WindowsInTurnRun(self, self.children[0].start(order), order)

    def rows(self) -> int | None:
        return None

    def names(self) -> list[str] | None:
        return self.children[0].names()

    def says(self) -> str:
        return self.shuffled.says()


class _WindowsInTurnRun:
    def __init__(self, node: WindowsInTurn, child: Run, order: Order) -> None:
        self.node, self.child, self.order = node, child, order
        self.window: Iterator[Piece] = iter(())

    def pieces(self) -> Iterator[Piece]:
        return self.outline()

    def outline(self) -> Iterator[Piece]:
        pieces = self.child.outline()
        for number in itertools.count():
            first = next(pieces, None)
            if first is None:
                return
            self.window = itertools.chain([first], itertools.islice(pieces, self.node.pieces - 1))
            yield Piece((self.order.stream, number), UNKNOWN)
            deque(self.window, 0)  # Reads past a skipped window.

    def read(self, piece: Piece) -> Block:
        block = _block.concat(made(task_of(self.child, part, 0, part.rows) for part in self.window))
        stream, number = piece.key
        shuffled = self.node.shuffled
        seed = self.order.seed if shuffled.seed is None else shuffled.seed
        numbers = np.random.default_rng([seed, shuffled.salt + 1, self.order.epoch, stream or 0, number])
        return block.take(numbers.permutation(block.rows))

    def part(self, piece: Piece, start: int, stop: int) -> Block:
        return self.read(piece)

    def task(self, piece: Piece, start: int, stop: int) -> Task | Block:
        return self.read(piece)


def _dealt_below(node: Node, mixed: Shuffled | BlockOrder | None) -> Node:
    """Returns the node with a `Strided` node for one stream below all functions."""
    if isinstance(node, Shuffled) and not node.positioned:
        return WindowsInTurn(_dealt_below(node.child, node), node)
    if isinstance(node, BlockOrder) and not node.positioned:
        return _dealt_below(node.child, node)
    if isinstance(node, Mapped) and not node.positioned:
        return node.over(_dealt_below(node.child, mixed))
    if isinstance(node, Rebatched) and not node.positioned:
        return _dealt_below(node.children[0], mixed)
    if isinstance(node, Union) and not node.positioned:
        return node.over([_dealt_below(child, mixed) for child in node.children])
    return Strided(node, mixed)
