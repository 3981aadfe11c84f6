"""Which rows of an epoch a rank gives out, as positions in the epoch's order. Pure arithmetic: no data, no files.

An epoch has one order, the same on every rank and with any number of ranks. `world` ranks take equal contiguous parts of what is
left of it; what does not divide evenly is left over. A *stage* says how far that went: so many ranks gave out so many rows
each. What is left after a stage is what the next stage divides, however many ranks it has; so a list of stages, which is
all that `state_dict` keeps, says exactly which rows were given out.

A range is (start, stop); a stop of None is the end of a dataset whose rows nobody counted, which only one rank may read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

Ranges = list[tuple[int, "int | None"]]


@dataclass(frozen=True)
class Stage:
    """`consumed` rows were given out by each of `world` ranks (by those with fewer: all that they had)."""

    world: int
    consumed: int
    equal: bool = True
    buffer: int = 0  # of local_shuffle_buffer_size; 0: in order
    seed: int = 0  # of the local shuffle
    window: int = 0  # rows of the shuffled buffer that was being given out; 0: none was begun

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def size(ranges: Ranges) -> int | None:
    """The number of rows; None: it is not known."""
    total = 0
    for start, stop in ranges:
        if stop is None:
            return None
        total += stop - start
    return total


def part(ranges: Ranges, start: int, stop: int | None) -> Ranges:
    """The rows `start` to `stop` of these ranges, counted from their beginning."""
    return chosen(ranges, [(start, stop)])


def chosen(ranges: Ranges, selection: Ranges) -> Ranges:
    """Rows of these ranges, counted from their beginning; `selection` ascends."""
    ranges_left: Ranges = []
    place = passed = 0  # of the range that is looked at, and the rows before it
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
    """Which of `total` rows are this rank's. With `equal` the last `total % world` are nobody's."""
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
    """The order in which the local shuffle of a rank gives out its `window`-th buffer."""
    return np.random.default_rng([seed, epoch, rank, window]).permutation(rows)


def rest_after(total: int | None, stages: list[Stage], epoch: int) -> Ranges:
    """What nobody has given out yet."""
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
    """Neighbours become one."""
    distinct: Ranges = []
    for start, stop in ranges:
        if distinct and distinct[-1][1] == start:
            distinct[-1] = (distinct[-1][0], stop)
        elif stop is None or stop > start:
            distinct.append((start, stop))
    return distinct
