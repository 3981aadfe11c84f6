"""Decides which rows each global batch has if only reading finds how many rows a stream has. This module reads no data.

A stream is a row of *chunks*, each of which is made from one piece of the input. A chunk is known by its number. The streams deal
in turn, one row each. A stream without a row left takes the last half of the chunks that no stream has begun, from the stream
that has most of them. Where there are none, it deals no more, and the others deal on.

A *lane* is what a stream has left. So the lanes and the stream whose turn it is say exactly which rows were given out, and what
comes next. `Dealing` asks for the rows of a chunk when a stream begins it, and not before.

Invariant: at <= stop, and given > 0 exactly while a block is begun and not given out whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from rtrain.data._position import bounds


class ChunkRows(NamedTuple):
    """The rows of a chunk, and the place in the stream behind it, where a stream can only be read from a place on."""

    rows: int
    place: Any = None


@dataclass
class Lane:
    """Chunks `at` to `stop`, of which a block with `given` rows given out begins at `at`. stop None: reading finds the end.

    place: of chunk `at`, for streams that are read from a place on.
    """

    at: int
    stop: int | None
    given: int = 0
    place: Any = None


class Cut(NamedTuple):
    """Rows `start` to `stop` of a block: of the rows that chunks `first` to `after` have. place: of the first chunk."""

    stream: int
    first: int
    after: int
    start: int
    stop: int
    place: Any = None


class _Block(NamedTuple):
    after: int
    rows: int
    place: Any  # behind the block


# Returns the rows of a chunk of a stream, which begins at a place; None: the stream ends there, which only a lane without a stop does.
Sizes = Callable[[int, int, Any], "ChunkRows | None"]


class Dealing:
    """The rest of an epoch. step: from one chunk of a stream to its next. least: rows of a block, which has as many chunks as it
    takes; fewer only where the lane ends. A block of a local shuffle is shuffled as a whole."""

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
        """Returns how many rows each stream can give out from its block; 0 where that is no whole turn of all streams."""
        if self.turn or any(self._ended):
            return 0
        return min(self._block(stream).rows - lane.given for stream, lane in enumerate(self.lanes))

    def _room(self, stream: int) -> int:
        """Returns how many rows are left of the block that a stream has begun."""
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
        """Returns True if the stream has a row, after it has begun its next block or taken chunks of another stream."""
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
        """Returns how many chunks a stream has not begun. None of a stream whose end is unknown can be taken."""
        lane = self.lanes[stream]
        if lane.stop is None:
            return 0
        return lane.stop - (self._block(stream).after if self.begun(stream) else lane.at)

    def _block(self, stream: int) -> _Block:
        """Returns the block that begins at a lane's first chunk. A block that is begun cannot lose chunks, so it is always the same."""
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
    """Returns what a rank gives out of a global batch. With `equal` all ranks give out as many rows."""
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
