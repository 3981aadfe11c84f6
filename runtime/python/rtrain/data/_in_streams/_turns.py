"""Computes the source of each row of a mixed stream. This module reads no data and no files.

A stream is cut into blocks of 1,000 rows. The weights determine how many rows of each source precede a block's end. So each
block has the number of rows that the weights give, and rounding errors do not accumulate. The order within a block is random,
by a key of (seed, epoch, stream). A *turn* is the position in the stream and in each source. When a source ends or other
weights begin, a new sequence of blocks begins.

Invariant: sum(taken) == row, and begun <= taken for each source.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np

BLOCK = 1000  # rows
_WHOLE = 1 << 40  # the approximate sum of the weights
Strategy = Literal["first_exhausted", "all_exhausted", "all_exhausted_without_replacement"]
Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Turn:
    """row: the stream's rows before it. since: the row at which the current blocks began. base, taken: rows of each source
    before `since` and before `row`. passes: how often each source was repeated. begun: the value of `taken` at the last
    repetition. gone: the source has ended at least once."""

    row: int
    since: int
    base: Numbers
    taken: Numbers
    passes: Numbers
    begun: Numbers
    gone: tuple[bool, ...]

    def place(self, source: int) -> int:
        """Returns how many rows of the source's current pass were taken."""
        return self.taken[source] - self.begun[source]

    def written(self) -> list[Any]:
        """Returns the turn as a list that JSON can hold."""
        numbers = [self.base, self.taken, self.passes, self.begun, map(int, self.gone)]
        return [self.row, self.since, *map(list, numbers)]


def read(written: Sequence[Any]) -> Turn:
    row, since, base, taken, passes, begun, gone = written
    return Turn(row, since, tuple(base), tuple(taken), tuple(passes), tuple(begun), tuple(map(bool, gone)))


def whole_numbers(weights: Sequence[float]) -> Numbers:
    """Returns integer weights in the same proportions. Each weight above 0 stays above 0."""
    exact = [Fraction(weight) for weight in weights]
    total = sum(exact)
    return tuple(max(round(weight / total * _WHOLE), 1) if weight else 0 for weight in exact)


def shares(weights: Numbers, rows: int) -> list[int]:
    """Returns how many of `rows` rows each source has: about rows * weight / sum(weights). Their sum is `rows`.

    If `rows` grows, no count falls (Webster's method: the next row belongs to the source with the greatest weight / (2 n + 1)).
    """
    total, count = sum(weights), len(weights)
    given = [max(0, (2 * rows * weight - count * weight - total) // (2 * total)) for weight in weights]
    for _ in range(rows - sum(given)):
        best = 0
        for source in range(1, count):
            if weights[source] * (2 * given[best] + 1) > weights[best] * (2 * given[source] + 1):
                best = source
        given[best] += 1
    return given


@dataclass(frozen=True)
class Mixing:
    """The choices of one stream in one epoch. weights: pairs of the row from which weights hold, and these weights; the first
    row is 0.

    endless: repeats sources after all of them have ended, because the reader stops at a given row.
    """

    weights: tuple[tuple[int, Numbers], ...]
    key: Numbers
    strategy: Strategy
    endless: bool = False
    _held: list[Any] = field(default_factory=list, compare=False, repr=False)  # the order of the newest block

    def begin(self) -> Turn:
        none = (0,) * len(self.weights[0][1])
        return Turn(0, 0, none, none, none, none, (False,) * len(none))

    def choices(self, turn: Turn, most: int = BLOCK) -> tuple[Turn, np.ndarray[Any, Any]]:
        """Returns the turn of the current blocks, and the sources of the next rows: at most `most`, none at the stream's end."""
        first, weights = self._weights_at(turn.row)
        if first > turn.since:
            turn = replace(turn, since=turn.row, base=turn.taken)
        repeats = self.strategy == "all_exhausted"
        live = [weight for weight, gone in zip(weights, turn.gone, strict=True) if weight and not gone]
        if not live and not (repeats and self.endless):
            return turn, np.empty(0, dtype=np.int64)
        open_weights = (
            weights if repeats else tuple(0 if gone else weight for weight, gone in zip(weights, turn.gone, strict=True))
        )
        block, inside = divmod(turn.row - turn.since, BLOCK)
        most = min(most, self._end_of_weights(turn.row) - turn.row)
        return turn, self._block(turn.since, block, open_weights)[inside : inside + most]

    def _weights_at(self, row: int) -> tuple[int, Numbers]:
        return next(entry for entry in reversed(self.weights) if entry[0] <= row)

    def _end_of_weights(self, row: int) -> int:
        return next((first for first, _ in self.weights if first > row), 1 << 62)

    def _block(self, since: int, block: int, weights: Numbers) -> np.ndarray[Any, Any]:
        if not self._held or self._held[0] != (since, block, weights):
            low, high = shares(weights, block * BLOCK), shares(weights, (block + 1) * BLOCK)
            order = np.repeat(np.arange(len(weights)), np.subtract(high, low))
            self._held[:] = (since, block, weights), np.random.default_rng([*self.key, since, block]).permutation(order)
        held: np.ndarray[Any, Any] = self._held[1]
        return held

    def after(self, turn: Turn, chosen: np.ndarray[Any, Any]) -> Turn:
        """Returns the turn after rows of these sources."""
        counts = np.bincount(chosen, minlength=len(turn.taken)).tolist()
        taken = tuple(before + more for before, more in zip(turn.taken, counts, strict=True))
        return replace(turn, row=turn.row + len(chosen), taken=taken)

    def without(self, turn: Turn, source: int) -> Turn:
        """Returns the turn after a chosen source had no row. By the strategy, the source is repeated or removed."""
        gone = tuple(ended or place == source or self.strategy == "first_exhausted" for place, ended in enumerate(turn.gone))
        if self.strategy != "all_exhausted":
            return replace(turn, since=turn.row, base=turn.taken, gone=gone)
        passes = _with(turn.passes, source, turn.passes[source] + 1)
        return replace(turn, gone=gone, passes=passes, begun=_with(turn.begun, source, turn.taken[source]))

    # -- sources whose rows are known ---------------------------------------------------------------------------------
    def rows(self, lengths: Sequence[int]) -> int:
        """Returns how many rows the stream has."""
        return self._onward(self.begin(), None, lengths).row

    def at(self, row: int, lengths: Sequence[int]) -> Turn:
        """Returns the turn before a row, in time that does not grow with the number of rows."""
        return self._onward(self.begin(), row, lengths)

    def _onward(self, turn: Turn, stop: int | None, lengths: Sequence[int]) -> Turn:
        while stop is None or turn.row < stop:
            turn, chosen = self.choices(self._jumped(turn, stop, lengths))
            chosen = chosen if stop is None else chosen[: stop - turn.row]
            if not len(chosen):
                return turn
            fits = fitting(chosen, [self._left(turn, source, lengths) for source in range(len(lengths))])
            turn = self._passed(self.after(turn, chosen[:fits]), lengths)
            if fits < len(chosen):
                turn = self.without(turn, int(chosen[fits]))
        return turn

    def _left(self, turn: Turn, source: int, lengths: Sequence[int]) -> float:
        """Returns how many rows a source has until the mix changes."""
        repeated = turn.gone[source] and self.strategy == "all_exhausted"
        return math.inf if repeated else lengths[source] - turn.place(source)

    def _passed(self, turn: Turn, lengths: Sequence[int]) -> Turn:
        """Returns the turn with the passes of repeated sources counted."""
        more = [max(turn.place(source) - 1, 0) // length if length else 0 for source, length in enumerate(lengths)]
        if not any(more):
            return turn
        passes = tuple(before + extra for before, extra in zip(turn.passes, more, strict=True))
        begun = tuple(before + extra * length for before, extra, length in zip(turn.begun, more, lengths, strict=True))
        return replace(turn, passes=passes, begun=begun)

    def _jumped(self, turn: Turn, stop: int | None, lengths: Sequence[int]) -> Turn:
        """Returns the turn after as many whole blocks as fit before a source ends, the weights change, or row `stop`."""
        turn, chosen = self.choices(turn, 1)
        block, inside = divmod(turn.row - turn.since, BLOCK)
        if inside or not len(chosen):
            return turn
        all_weights = self._weights_at(turn.row)[1]
        repeats = self.strategy == "all_exhausted"
        weights = tuple(weight if repeats or not gone else 0 for weight, gone in zip(all_weights, turn.gone, strict=True))
        left = [self._left(turn, source, lengths) for source in range(len(lengths))]

        def taken_after(blocks: int) -> list[int]:
            more = shares(weights, (block + blocks) * BLOCK)
            return [before + extra for before, extra in zip(turn.base, more, strict=True)]

        def fits(blocks: int) -> bool:
            after = taken_after(blocks)
            return all(new - old <= most for new, old, most in zip(after, turn.taken, left, strict=True))

        low, high = 0, (min(self._end_of_weights(turn.row), 1 << 62 if stop is None else stop) - turn.row) // BLOCK
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(middle) else (low, middle - 1)
        taken = tuple(taken_after(low)) if low else turn.taken
        return self._passed(replace(turn, row=turn.row + low * BLOCK, taken=taken), lengths)


def fitting(chosen: np.ndarray[Any, Any], left: Sequence[float]) -> int:
    """Returns how many of the chosen rows precede the first row of an exhausted source."""
    fits = len(chosen)
    for source, rows in enumerate(left):
        if rows < len(chosen):
            places = np.flatnonzero(chosen == source)
            if len(places) > rows:
                fits = min(fits, int(places[int(rows)]))
    return fits


def _with(numbers: Numbers, place: int, number: int) -> Numbers:
    return (*numbers[:place], number, *numbers[place + 1 :])
