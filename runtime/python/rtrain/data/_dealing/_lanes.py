"""Computes the rows of each global batch if only reading finds how many rows a stream has. This module reads no data.

A stream is a sequence of *chunks*. Each chunk has a number, and is made from one piece of the input. The streams deal one row
each, in turn. A stream without rows takes over the last half of the chunks that another stream has not begun, from the stream
with the most such chunks. If there are no such chunks, the stream deals no more, and the others continue.

A *lane* is the rest of a stream. The lanes, and the stream that deals next, determine which rows were given out and which
follow. `Dealing` requests the row count of a chunk when a stream begins the chunk.

Invariant: at <= stop, and given > 0 if and only if the block at `at` is partly given out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from rtrain.data._position import bounds


class ChunkRows(NamedTuple):
    """The rows of a chunk. place: the position behind the chunk, for streams that can only be read from a position on."""

    rows: int
    place: Any = None


@dataclass
class Lane:
    """Chunks `at` to `stop` of a stream. The block at `at` has `given` rows that were given out. stop None: reading finds the
    end.

    place: the position of chunk `at`, for streams that are read from a position on.
    """

    at: int
    stop: int | None
    given: int = 0
    place: Any = None


class Cut(NamedTuple):
    """Rows `start` to `stop` of a block, which consists of the chunks `first` to `after`. place: the position of the first
    chunk."""

    stream: int
    first: int
    after: int
    start: int
    stop: int
    place: Any = None


class _Block(NamedTuple):
    after: int
    rows: int
    place: Any  # the position behind the block


# (stream, chunk, place of the chunk) -> its rows. None: the stream ends before the chunk, which only happens in a lane without a
# stop.
Sizes = Callable[[int, int, Any], "ChunkRows | None"]


class Dealing:
    """The rest of an epoch. step: the difference between neighbouring chunks of a stream. least: rows of a block: a block takes
    chunks until it has so many rows or the lane ends. A local shuffle shuffles the rows of one block."""

    sizes: Sizes

    def __init__(self, lanes: Sequence[Lane], turn: int, step: int, least: int = 1, sizes: Sizes | None = None) -> None:
        self.lanes, self.turn = list(lanes), turn
        self.step, self.least = step, least
        if sizes is not None:
            self.sizes = sizes
        self._blocks: list[_Block | None] = [None] * len(self.lanes)
        self._ended = [False] * len(self.lanes)

    def copy(self) -> Dealing:
        return Dealing([replace(lane) for lane in self.lanes], self.turn, self.step, self.least, getattr(self, "sizes", None))

    def begun(self, stream: int) -> bool:
        return self.lanes[stream].given > 0

    def take(self, rows: int) -> list[Cut]:
        """Returns the next `rows` rows in the order of their streams; fewer at the epoch's end."""
        cuts: list[list[Cut]] = [[] for _ in self.lanes]
        left = rows
        while left:
            live = [stream for stream, ended in enumerate(self._ended) if not ended]
            if not live:
                break
            rounds = min(left // len(live), *map(self._room, live))
            if rounds:
                for stream in live:
                    self._give(stream, rounds, cuts[stream])
                left -= rounds * len(live)
                continue
            stream, self.turn = self.turn, (self.turn + 1) % len(self.lanes)
            if not self._ended[stream] and self._has_row(stream):
                self._give(stream, 1, cuts[stream])
                left -= 1
        return [cut for of_stream in cuts for cut in of_stream]

    def rounds(self) -> int:
        """Returns how many rows every stream can give out from its current block; 0 if the streams are in the middle of a turn."""
        if self.turn or any(self._ended):
            return 0
        return min(self._block(stream).rows - lane.given for stream, lane in enumerate(self.lanes))

    def _room(self, stream: int) -> int:
        """Returns how many rows are left in the current block of a stream."""
        return self._block(stream).rows - self.lanes[stream].given if self.begun(stream) else 0

    def _give(self, stream: int, rows: int, cuts: list[Cut]) -> None:
        lane, block = self.lanes[stream], self._block(stream)
        if cuts and (cuts[-1].first, cuts[-1].stop) == (lane.at, lane.given):
            cuts[-1] = cuts[-1]._replace(stop=lane.given + rows)
        else:
            cuts.append(Cut(stream, lane.at, block.after, lane.given, lane.given + rows, lane.place))
        lane.given += rows
        if lane.given == block.rows:
            self._pass(stream, block)

    def _has_row(self, stream: int) -> bool:
        """Returns True if the stream has a row. It may begin the stream's next block, or take over chunks of another stream."""
        while not self.begun(stream):
            block = self._block(stream)
            if block.rows:
                return True
            self._pass(stream, block)
            if self.lanes[stream].stop == self.lanes[stream].at and not self._takes_chunks(stream):
                self._ended[stream] = True
                return False
        return True

    def _pass(self, stream: int, block: _Block) -> None:
        lane = self.lanes[stream]
        lane.at, lane.given, lane.place = block.after, 0, block.place
        self._blocks[stream] = None

    def _takes_chunks(self, stream: int) -> bool:
        unbegun = [self._unbegun(other) for other in range(len(self.lanes))]
        most = max(unbegun)
        if not most:
            return False
        victim = unbegun.index(most)
        lane, other = self.lanes[stream], self.lanes[victim]
        assert other.stop is not None
        lane.stop = other.stop
        lane.at = other.stop = other.stop - (most + 1) // 2
        if not self.begun(victim):
            self._blocks[victim] = None
        return True

    def _unbegun(self, stream: int) -> int:
        """Returns how many chunks of a stream others may take over; 0 if the stream's end is unknown."""
        lane = self.lanes[stream]
        if lane.stop is None:
            return 0
        return lane.stop - (self._block(stream).after if self.begun(stream) else lane.at)

    def _block(self, stream: int) -> _Block:
        """Returns the block at a lane's first chunk. It is always the same block, because a block that is begun loses no
        chunks."""
        block = self._blocks[stream]
        if block is None:
            lane = self.lanes[stream]
            after, rows, place = lane.at, 0, lane.place
            while rows < self.least and after != lane.stop:
                chunk_rows = self.sizes(stream, after, place)
                if chunk_rows is None:
                    lane.stop = after
                    break
                after, rows, place = after + self.step, rows + chunk_rows.rows, chunk_rows.place
            block = _Block(after, rows, place)
            if rows:
                self._blocks[stream] = block
        return block


def part_of(cuts: Sequence[Cut], world: int, rank: int, *, equal: bool) -> list[Cut]:
    """Returns a rank's part of a global batch. With `equal` all ranks have as many rows."""
    low, high = bounds(sum(cut.stop - cut.start for cut in cuts), world, rank, equal=equal)
    assert high is not None
    part: list[Cut] = []
    passed = 0
    for cut in cuts:
        rows = cut.stop - cut.start
        start, stop = max(low - passed, 0), min(high - passed, rows)
        if start < stop:
            part.append(cut._replace(start=cut.start + start, stop=cut.start + stop))
        passed += rows
    return part
