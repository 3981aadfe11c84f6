"""A mix of sources. The source of row k of a stream is chosen by (seed, epoch, stream, k). The row is the next one of the same
stream of that source, so a rank reads its own streams of each source only."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, get_args

import numpy as np

from rtrain import _chance
from rtrain.data import _block
from rtrain.data._block import Block
from rtrain.data._in_streams import _turns
from rtrain.data._in_streams._found import Found
from rtrain.data._in_streams._onward import Place, Reader
from rtrain.data._in_streams._turns import Mixing, Numbers, Strategy, Turn
from rtrain.data._joins import Union
from rtrain.data._plan import Node, Order

_PIECE = 250  # rows; a quarter of a block of choices
_PASS = 1 << 40  # repetition n of a source uses the order of epoch + n * _PASS, which no run reaches as an epoch


class Mixed(Found):
    """timeline: entries (epoch, rows of all streams in that epoch, weights). Weights hold from that row on. The first entry is
    for (0, 0)."""

    each = _PIECE

    def __init__(
        self,
        children: Sequence[Node],
        timeline: Sequence[tuple[tuple[int, int], Numbers]],
        seed: int | None,
        strategy: Strategy,
    ) -> None:
        super().__init__(tuple(children))
        self.timeline, self.seed, self.strategy = tuple(timeline), seed, strategy
        self._union = Union(self.children)
        self._lengths: dict[Order, _Lengths | None] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_lengths": {}}

    def names(self) -> list[str] | None:
        return self._union.names()

    def says(self) -> str:
        weights = self.timeline[0][1]
        parts = [f"{weight / sum(weights):.3g} {child.says()}" for weight, child in zip(weights, self.children, strict=True)]
        return f"mix({', '.join(parts)})"

    @property
    def positioned(self) -> bool:
        repeats = self.strategy == "all_exhausted" and any(isinstance(child, Found) for child in self.children)
        return not repeats and all(child.positioned for child in self.children)

    # -- arithmetic ---------------------------------------------------------------------------------------------------
    def mixing(self, order: Order, stream: int, *, endless: bool = False) -> Mixing:
        """Returns the choices of a stream in the epoch of an order."""
        weights: list[tuple[int, Numbers]] = []
        for (epoch, row), numbers in self.timeline:
            if (epoch, row) <= (order.epoch, 0):
                weights = [(0, numbers)]
            elif epoch == order.epoch:
                first = -(-max(row - stream, 0) // order.streams)  # Row m of the epoch is row m // streams of stream m % streams.
                weights = [entry for entry in weights if entry[0] < first or not first]
                weights.append((first, numbers))
        return Mixing(tuple(weights), self._key(order, stream), self.strategy, endless)

    def _key(self, order: Order, stream: int) -> Numbers:
        return (order.seed if self.seed is None else self.seed, _SALT + len(self.children), order.epoch, stream)

    def _of_source(self, source: int, passes: int, order: Order) -> Order:
        """Returns the order of a source. It differs for each source and each repetition."""
        seed = _chance.number_of(order.seed, _SALT, source)
        return dataclasses.replace(order, seed=seed, epoch=order.epoch + passes * _PASS)

    def known(self, order: Order) -> _Lengths | None:
        """Returns the lengths of the streams if the sources' row counts are known, else None. With `equal`, all streams end
        together."""
        if order not in self._lengths:
            if len(self._lengths) > 64:
                self._lengths = {}
            self._lengths[order] = self._known(order)
        return self._lengths[order]

    def _known(self, order: Order) -> _Lengths | None:
        sources: list[list[int]] = []
        for stream in range(order.streams):
            lengths = [self.length(source, self._of_source(source, 0, order), stream) for source in range(len(self.children))]
            if any(isinstance(child, Found) for child in self.children) and self.strategy == "all_exhausted":
                return None  # A repeated source has other rows in each pass.
            whole = [length for length in lengths if length is not None]
            if len(whole) < len(lengths):
                return None
            for source, length in enumerate(whole):
                self._refuse_empty(source, length, order)
            sources.append(whole)
        rows = [self.mixing(order, stream).rows(lengths) for stream, lengths in enumerate(sources)]
        if order.equal and self.strategy != "all_exhausted_without_replacement":
            rows = [max(rows) if self.strategy == "all_exhausted" else min(rows)] * len(rows)
        return _Lengths(sources, rows)

    def _refuse_empty(self, source: int, length: int, order: Order) -> None:
        if length == 0 and self.strategy != "all_exhausted_without_replacement":
            where = "no rows" if order.streams == 1 else f"fewer rows than the {order.streams} streams of an epoch"
            raise ValueError(f"mix: {self.children[source].says()} has {where}")

    def known_rows(self, order: Order, stream: int) -> int | None:
        known = self.known(order)
        return None if known is None else known.rows[stream]

    def place_at(self, order: Order, stream: int, row: int) -> Place:
        known = self.known(order)
        assert known is not None
        turn = self.mixing(order, stream, endless=True).at(row, known.sources[stream])
        places = [
            self.place_in(source, self._of_source(source, turn.passes[source], order), stream, turn.place(source))
            for source in range(len(self.children))
        ]
        return [turn.written(), places]

    # -- reading ------------------------------------------------------------------------------------------------------
    def of_stream(self, order: Order, stream: int, place: Place) -> Iterator[tuple[Block, Place]]:
        rows = self.known_rows(order, stream)
        mixing = self.mixing(order, stream, endless=rows is not None)
        turn, places = (mixing.begin(), [None] * len(self.children)) if place is None else (_turns.read(place[0]), place[1])

        def opened(source: int, turn: Turn, at: Place) -> Reader:
            return self.reader(source, self._of_source(source, turn.passes[source], order), stream, at)

        readers = [opened(source, turn, at) for source, at in enumerate(places)]
        mixed = _MixedRows(mixing, turn, readers, opened, lambda source: self._refuse_empty(source, 0, order))
        while True:
            end = (mixed.turn.row // self.each + 1) * self.each
            blocks = [self._union.fitted(block) for block in mixed.blocks(end if rows is None else min(end, rows))]
            if not blocks:
                return
            yield _block.concat(blocks), [mixed.turn.written(), [reader.place for reader in mixed.readers]]


_SALT = 0x6D6978


@dataclasses.dataclass(frozen=True)
class _Lengths:
    """sources: the rows of each source, for each stream. rows: the rows of each stream of the mix."""

    sources: list[list[int]]
    rows: list[int]


class _MixedRows:
    """The rows of a mixed stream, read from its sources."""

    def __init__(
        self,
        mixing: Mixing,
        turn: Turn,
        readers: list[Reader],
        opened: Callable[[int, Turn, Place], Reader],
        refuse_empty: Callable[[int], None],
    ) -> None:
        self.mixing, self.turn, self.readers = mixing, turn, readers
        self._opened, self._refuse_empty = opened, refuse_empty

    def blocks(self, end: int) -> Iterator[Block]:
        """Yields the rows up to row `end` of the stream, or up to the stream's end."""
        while self.turn.row < end:
            self.turn, chosen = self.mixing.choices(self.turn, end - self.turn.row)
            if not len(chosen):
                return
            counts = np.bincount(chosen, minlength=len(self.readers)).tolist()
            fits = _turns.fitting(chosen, [reader.ready(count) for reader, count in zip(self.readers, counts, strict=True)])
            if fits:
                yield self._taken(chosen[:fits])
            if fits < len(chosen):
                self._end(int(chosen[fits]))

    def _taken(self, chosen: np.ndarray[Any, Any]) -> Block:
        self.turn = self.mixing.after(self.turn, chosen)
        counts = np.bincount(chosen, minlength=len(self.readers)).tolist()
        parts = [block for reader, count in zip(self.readers, counts, strict=True) if count for block in reader.take(count)]
        by_source = np.argsort(chosen, kind="stable")  # Row n of the concatenated parts is row by_source[n] of the block.
        places = np.empty_like(by_source)
        places[by_source] = np.arange(len(chosen))
        whole = _block.concat(parts)
        return whole if len(parts) == 1 else whole.take(places)

    def _end(self, source: int) -> None:
        if self.turn.place(source) == 0:
            self._refuse_empty(source)
        passes = self.turn.passes[source]
        self.turn = self.mixing.without(self.turn, source)
        if self.turn.passes[source] != passes:
            self.readers[source] = self._opened(source, self.turn, None)


def mixed(weights: Mapping[Any, float], nodes: Mapping[Any, Node], seed: int | None, strategy: Any, schedule: Any) -> Mixed:
    """Returns the node of `rtrain.data.mix`, which has the same arguments. nodes: the plans of the datasets."""
    if strategy not in get_args(Strategy):
        raise ValueError(f"mix: stopping_strategy is {strategy!r}; it is one of {', '.join(get_args(Strategy))}")
    timeline = {(0, 0): _numbers("weights", weights, nodes)}
    for begin, later in {} if schedule is None else schedule.items():
        key = begin if isinstance(begin, tuple) else (0, begin)
        if len(key) != 2 or not all(isinstance(number, int) and not isinstance(number, bool) and number >= 0 for number in key):
            raise ValueError(f"mix: schedule has {begin!r}; a key is a number of rows, or (epoch, rows), from 0 on")
        timeline[key] = _numbers(f"schedule[{begin!r}]", later, nodes)
    return Mixed(list(nodes.values()), sorted(timeline.items()), seed, strategy)


def _numbers(what: str, weights: Any, nodes: Mapping[Any, Node]) -> Numbers:
    if not isinstance(weights, Mapping) or not weights.keys() <= nodes.keys():
        raise TypeError(f"mix: {what} is a dict of weights by dataset, of the datasets that are mixed")
    for weight in weights.values():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < float("inf"):
            raise ValueError(f"mix: {what} has the weight {weight!r}; it is a finite number from 0 on")
    if not any(weights.values()):
        raise ValueError(f"mix: {what} has no weight above 0")
    return _turns.whole_numbers([weights.get(dataset, 0) for dataset in nodes])
