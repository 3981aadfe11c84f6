"""Computes the rows of each global batch of an epoch, and each rank's part of them. This module reads no data and no files.

An epoch's positions are cut into `count` streams of neighbouring rows. The streams deal one row each, in turn: row m of the
dealing is row m // count of stream m % count. A global batch has the next rows of the dealing, in the order of their streams.
Rank r gives out the r-th of equal parts of it. So a global batch depends on the streams, not on the number of ranks. The number
of dealt rows, `given`, determines which rows were given out.

Invariant: 0 <= given <= dealt <= rows, and rows - dealt < count.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from rtrain.data._position import Ranges, bounds, merged


class Cut(NamedTuple):
    """Rows `start` to `stop` of a stream, counted from the stream's beginning."""

    stream: int
    start: int
    stop: int


@dataclass(frozen=True)
class Streams:
    """rows: rows of the whole epoch; None if they were not counted, which is possible for a single stream only. equal: all
    streams have the same length."""

    count: int
    rows: int | None
    equal: bool = True

    def range_of(self, stream: int) -> tuple[int, int | None]:
        """Returns the positions of a stream: the first one, and the end."""
        return bounds(self.rows, self.count, stream, equal=self.equal)

    @property
    def dealt(self) -> int | None:
        """Returns the number of rows that an epoch deals. With `equal` the last `rows % count` rows are left out."""
        return self.rows - self.rows % self.count if self.equal and self.rows is not None else self.rows

    def of_stream(self, given: int, stream: int) -> int:
        """Returns how many of the first `given` rows of the dealing lie in a stream."""
        return (given + self.count - 1 - stream) // self.count

    def left(self, given: int) -> Ranges:
        """Returns the positions that are dealt after the first `given` rows."""
        left: Ranges = []
        for stream in range(self.count):
            start, stop = self.range_of(stream)
            left.append((start + self.of_stream(given, stream), stop))
        return merged(left)

    def part(self, given: int, rows: int, world: int, rank: int) -> list[Cut]:
        """Returns a rank's part of the global batch of `rows` rows that follows the first `given` rows."""
        low, high = bounds(rows, world, rank, equal=self.equal)
        assert high is not None
        cuts: list[Cut] = []
        passed = 0
        for stream in range(self.count):
            first = self.of_stream(given, stream)
            length = self.of_stream(given + rows, stream) - first
            start, stop = max(low - passed, 0), min(high - passed, length)
            if start < stop:
                cuts.append(Cut(stream, first + start, first + stop))
            passed += length
            if passed >= high:
                break
        return cuts

    def batches(self, given: int, size: int, world: int, rank: int) -> Iterator[list[Cut]]:
        """Yields a rank's part of each global batch of `size * world` rows. The last batch has the rest of the epoch.

        With `equal`, the last batch has as many rows for each rank. Fewer than `world` rows are left out.
        """
        assert self.dealt is not None
        while given < self.dealt:
            rows = min(size * world, self.dealt - given)
            if self.equal:
                rows -= rows % world
            if rows == 0:
                return
            cuts = self.part(given, rows, world, rank)
            if cuts:
                yield cuts
            given += rows

    def row_by_row(self, given: int, world: int, rank: int) -> Iterator[tuple[int, int]]:
        """Yields stream and place of each row of a rank, where a global batch has one row of each rank."""
        assert self.dealt is not None
        turn = math.lcm(self.count, world)  # After so many rows, each stream has dealt the same number of rows.
        cuts = [self.part(given + row, world, world, rank)[0] for row in range(0, turn, world)]
        for number in range((self.dealt - given) // world):
            turns, place = divmod(number, len(cuts))
            yield cuts[place].stream, cuts[place].start + turns * (turn // self.count)
        over = (self.dealt - given) % world
        if not self.equal and over:
            yield from ((cut.stream, cut.start) for cut in self.part(self.dealt - over, over, world, rank))

    def rows_of(self, world: int, rank: int) -> int:
        """Returns how many rows a rank gives out in a whole epoch."""
        start, stop = bounds(self.dealt, world, rank, equal=self.equal)
        assert stop is not None
        return stop - start

    def is_own(self, given: int, world: int) -> bool:
        """Returns True if each rank reads one whole stream from here on, whatever its batch size is."""
        return self.count == world and given % self.count == 0

    def readers(self, world: int) -> int:
        """Returns how many ranks read one stream, at most, if batches have as many rows of each stream."""
        ends = [math.ceil((stream + 1) * world / self.count) - stream * world // self.count for stream in range(self.count)]
        return max(ends)
