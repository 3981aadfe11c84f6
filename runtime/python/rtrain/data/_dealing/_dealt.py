"""The rows that a rank gives out in one epoch, in blocks as they are read or in batches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from rtrain._waits import measured
from rtrain.data import _batches, _block, _position
from rtrain.data._block import Block
from rtrain.data._dealing._progress import Given, Staged
from rtrain.data._dealing._streams import Cut
from rtrain.data._making._made import Task, made
from rtrain.data._plan import Node, Order, Run, task_of
from rtrain.data._position import Ranges
from rtrain.data._values._schema import steady

AS_THEY_COME = 1024  # rows of a block, if a rank reads several streams and the loop sets no batch size


class Rows:
    """The rows of one rank in one epoch. They can be read once, by one of three methods."""

    def __init__(self, node: Node, order: Order, rank: int) -> None:
        self.node, self.order, self.rank = node, order, rank

    def blocks(self) -> Iterator[Block]:
        """Yields the rows in blocks as they are read. Each block keeps its own columns and types."""
        raise NotImplementedError

    def batches(self, size: int | None, *, drop_last: bool) -> Iterator[Block]:
        """Yields the rows in blocks of `size` rows; None: in blocks as they are read."""
        return _batches.cut(self.steady(self.blocks()), size, drop_last=drop_last)

    def rows(self) -> Iterator[dict[str, Any]]:
        return (row for block in self.waited(self.blocks()) for row in block.dicts())

    def steady(self, blocks: Iterator[Block]) -> Iterator[Block]:
        return steady(blocks, self.node.says())

    def waited(self, blocks: Iterator[Block]) -> Iterator[Block]:
        """Yields blocks of equal columns and types whose rows are given out one by one. Waiting is measured for blocks, because
        measuring it for each row would cost as much as the row."""
        return measured(self.steady(blocks))


class Parts(Rows):
    """The rows of these ranges, in order."""

    def __init__(self, node: Node, order: Order, rank: int, progress: Staged, ranges: Ranges) -> None:
        super().__init__(node, order, rank)
        self.progress, self.ranges = progress, ranges

    def blocks(self) -> Iterator[Block]:
        blocks = read_ranges(self.node.start(self.order), self.ranges)
        return self._shuffled(blocks) if self.progress.stage.buffer else blocks

    def _shuffled(self, blocks: Iterator[Block]) -> Iterator[Block]:
        stage, epoch = self.progress.stage, self.progress.epoch
        for number, block in enumerate(_batches.cut(blocks, stage.buffer, drop_last=False)):
            self.progress.windows.append(block.rows)
            yield block.take(_position.permutation(stage.seed, epoch, self.rank, number, block.rows))


class Dealt(Rows):
    """One rank's part of the rows that the streams deal."""

    def __init__(self, node: Node, order: Order, rank: int, progress: Given) -> None:
        super().__init__(node, order, rank)
        self.progress = progress
        self.streams, self.world, self.begun = progress.streams, progress.world, progress.begun

    def blocks(self) -> Iterator[Block]:
        if not self._is_own:
            return self._taken(AS_THEY_COME)
        return self._of_stream(self.rank, self.streams.of_stream(self.begun, self.rank))

    def batches(self, size: int | None, *, drop_last: bool) -> Iterator[Block]:
        if self._is_own:
            return super().batches(size, drop_last=drop_last)
        return (block for block in self._taken(size or AS_THEY_COME) if not (drop_last and size and block.rows < size))

    def rows(self) -> Iterator[dict[str, Any]]:
        if self._is_own:
            yield from super().rows()
            return
        readers: dict[int, _Rows] = {}
        for stream, place in self.streams.row_by_row(self.begun, self.world, self.rank):
            if stream not in readers:
                readers[stream] = _Rows(place, self.waited(self._of_stream(stream, place)))
            yield readers[stream].at(place)

    @property
    def _is_own(self) -> bool:
        return self.streams.is_own(self.begun, self.world)

    def _taken(self, size: int) -> Iterator[Block]:
        """Yields this rank's part of each global batch."""
        readers = Readers(self._of_stream)
        counts: list[int] = []

        def parts() -> Iterator[Block]:
            for cuts in self.streams.batches(self.begun, size, self.world, self.rank):
                counts.append(sum(cut.stop - cut.start for cut in cuts))
                for cut in cuts:
                    yield from readers.read(cut)

        held: list[Block] = []
        rows = 0
        for block in self.steady(parts()):
            held.append(block)
            rows += block.rows
            if rows == counts[0]:
                yield _block.concat(held)
                held, rows = [], 0
                counts.pop(0)

    def _of_stream(self, stream: int, start: int) -> Iterator[Block]:
        """Yields the rows of a stream from row `start` on."""
        first, stop = self.streams.range_of(stream)
        run, local = self.node.start(self.order), self.progress.local
        if local is None:
            yield from read_ranges(run, [(first + start, stop)])
            return
        begin = start // local.rows
        blocks = read_ranges(run, [(first + begin * local.rows, stop)])
        for number, block in enumerate(_batches.cut(blocks, local.rows, drop_last=False), begin):
            order = _position.permutation(local.seed, self.progress.epoch, stream, number, block.rows)
            yield block.take(order[max(start - number * local.rows, 0) :])


class Readers:
    """Readers of streams. Each begins at the first row that is requested, and reads forwards only."""

    def __init__(self, open_stream: Callable[[int, int], Iterator[Block]]) -> None:
        self._open = open_stream
        # the number of the held block's first row, the block, the following blocks
        self._places: dict[int, tuple[int, Block | None, Iterator[Block]]] = {}

    def read(self, cut: Cut) -> Iterator[Block]:
        """Yields the rows of a cut, which must be behind the last cut of its stream."""
        if cut.stream not in self._places:
            self._places[cut.stream] = cut.start, None, self._open(cut.stream, cut.start)
        place, held, coming = self._places.pop(cut.stream)
        at = cut.start
        while at < cut.stop:
            if held is None:
                held = next(coming, None)
                if held is None:
                    raise RuntimeError(
                        f"stream {cut.stream} ended at row {place}, and has {cut.stop} rows by its source: it changed"
                    )
            if place + held.rows > at:
                stop = min(cut.stop, place + held.rows)
                yield held.slice(at - place, stop - place)
                at = stop
            if place + held.rows <= at:
                place, held = place + held.rows, None
        self._places[cut.stream] = place, held, coming


class _Rows:
    """The rows of a stream, one by one."""

    def __init__(self, place: int, blocks: Iterator[Block]) -> None:
        self._place = place
        self._rows = (row for block in blocks for row in block.dicts())

    def at(self, place: int) -> dict[str, Any]:
        row = next(itertools.islice(self._rows, place - self._place, None))
        self._place = place + 1
        return row


def read_ranges(run: Run, ranges: Ranges) -> Iterator[Block]:
    """Yields the rows at these positions of the run's pieces. Several pieces are made at the same time."""
    return made(_tasks(run, ranges))


def _tasks(run: Run, ranges: Ranges) -> Iterator[Task | Block]:
    """Yields tasks or blocks for the rows at these positions."""
    coming = iter(ranges)
    current = next(coming, None)
    passed = 0
    if current is None:
        return
    for piece in run.pieces():
        end = passed + piece.rows
        while current is not None and current[0] < end:
            start, stop = current
            yield task_of(run, piece, max(start - passed, 0), (end if stop is None else min(stop, end)) - passed)
            if stop is None or stop > end:
                break
            current = next(coming, None)
        if current is None:
            return
        passed = end
