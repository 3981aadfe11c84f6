"""Computes which positions of an epoch a rank gives out. This module reads no data and no files.

An epoch has one order, the same on every rank and with any number of ranks. `world` ranks take equal contiguous parts of the
remaining positions. Positions that do not divide evenly are left over. A *stage* records that `world` ranks gave out `consumed`
rows each. The positions that remain after a stage are divided by the next stage, with any number of ranks. So a list of stages,
the whole content of `state_dict`, determines which rows were given out.

A range is (start, stop). A stop of None is the end of a dataset whose rows were not counted, which only one rank may read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

Ranges = list[tuple[int, "int | None"]]


@dataclass(frozen=True)
class Stage:
    """Each of `world` ranks gave out `consumed` rows; a rank with fewer rows gave out all of them."""

    world: int
    consumed: int
    equal: bool = True
    buffer: int = 0  # rows of local_shuffle_buffer_size; 0: in order
    seed: int = 0  # the seed of the local shuffle
    window: int = 0  # rows of the shuffled buffer that is partly given out; 0: none

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def size(ranges: Ranges) -> int | None:
    """Returns the number of rows; None if it is not known."""
    total = 0
    for start, stop in ranges:
        if stop is None:
            return None
        total += stop - start
    return total


def part(ranges: Ranges, start: int, stop: int | None) -> Ranges:
    """Returns the rows `start` to `stop` of these ranges, counted from their beginning."""
    return chosen(ranges, [(start, stop)])


def chosen(ranges: Ranges, selection: Ranges) -> Ranges:
    """Returns a selection of these ranges. `selection` ascends, and counts from the ranges' beginning."""
    ranges_left: Ranges = []
    place = passed = 0  # the current range, and the rows before it
    for begin, end in selection:
        while place < len(ranges):
            first, last = ranges[place]
            length = None if last is None else last - first
            low = max(begin - passed, 0)
            high = length if end is None else (end - passed if length is None else min(end - passed, length))
            if (length is None or low < length) and (high is None or low < high):
                ranges_left.append((first + low, None if high is None else first + high))
            if length is None or (end is not None and end - passed < length):
                break
            passed += length
            place += 1
    return ranges_left


def bounds(total: int | None, world: int, rank: int, *, equal: bool) -> tuple[int, int | None]:
    """Returns this rank's part of `total` rows. With `equal` no rank has the last `total % world` rows."""
    if world == 1:
        return 0, total
    assert total is not None, "more than one rank shares rows that are not counted"
    each, over = divmod(total, world)
    if equal:
        return rank * each, (rank + 1) * each
    start = rank * each + min(rank, over)
    return start, start + each + int(rank < over)


def share(rest: Ranges, world: int, rank: int, *, equal: bool) -> Ranges:
    return part(rest, *bounds(size(rest), world, rank, equal=equal))


def permutation(seed: int, epoch: int, rank: int, window: int, rows: int) -> np.ndarray[Any, Any]:
    """Returns the order in which a rank's local shuffle gives out its buffer number `window`."""
    return np.random.default_rng([seed, epoch, rank, window]).permutation(rows)


def rest_after(total: int | None, stages: list[Stage], epoch: int) -> Ranges:
    """Returns the positions that no rank has given out."""
    rest: Ranges = [(0, total)]
    for stage in stages:
        rest = merged(_left(rest, stage, epoch))
    return rest


def _left(rest: Ranges, stage: Stage, epoch: int) -> Iterator[tuple[int, int | None]]:
    total = size(rest)
    stop: int | None = 0
    for rank in range(stage.world):
        start, stop = bounds(total, stage.world, rank, equal=stage.equal)
        own_part = part(rest, start, stop)
        length = size(own_part)
        given = stage.consumed if length is None else min(stage.consumed, length)
        if stage.buffer == 0:
            yield from part(own_part, given, None)
            continue
        window, inside = divmod(given, stage.buffer)
        begin = window * stage.buffer
        rows = stage.window or stage.buffer
        rows = rows if length is None else min(stage.buffer, length - begin)
        if inside == 0:
            rows = 0
        order = permutation(stage.seed, epoch, rank, window, rows)
        over: Ranges = [(begin + place, begin + place + 1) for place in sorted(order[inside:].tolist())]
        yield from chosen(own_part, merged([*over, (begin + rows, None)]))
    if stop is not None:
        yield from part(rest, stop, None)


def merged(ranges: Iterator[tuple[int, int | None]] | Ranges) -> Ranges:
    """Joins neighbouring ranges."""
    distinct: Ranges = []
    for start, stop in ranges:
        if distinct and distinct[-1][1] == start:
            distinct[-1] = (distinct[-1][0], stop)
        elif stop is None or stop > start:
            distinct.append((start, stop))
    return distinct
