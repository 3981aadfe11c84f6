"""Aggregates such as sums: over a whole dataset, piece by piece, and over groups of rows, in memory by pyarrow."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rtrain.data import _block
from rtrain.data._block import Block
from rtrain.data._ops import Function
from rtrain.data._values._columns import python_values
from rtrain.data._values._types import cast_column, combined


class Summary:
    """The summary of one column, combined from its pieces. The spread uses the parallel form of Welford's algorithm."""

    def __init__(self) -> None:
        self.rows = 0
        self.total: Any = None
        self.least: Any = None
        self.most: Any = None
        self.mean = self.squares = 0.0
        self.nulls = False

    def add(self, column: Any, what: str, name: str) -> None:
        array = _block.as_arrow(column, name)
        array = combined(array).dictionary_decode() if pa.types.is_dictionary(array.type) else array
        self.nulls = self.nulls or array.null_count > 0
        rows = len(array) - array.null_count
        if not rows:
            return
        if what in ("min", "max"):
            least, most = _extremes(array, name)
            self.least = least if self.least is None else min(self.least, least)
            self.most = most if self.most is None else max(self.most, most)
        else:
            total = pc.sum(wide_enough(array)).as_py()
            total = int(total) if pa.types.is_integer(array.type) else total
            self.total = total if self.total is None else self.total + total
            self._spread(array, rows, what)
        self.rows += rows

    def _spread(self, array: Any, rows: int, what: str) -> None:
        mean = pc.mean(array).as_py()
        step = float(mean) - self.mean
        both = self.rows + rows
        if what == "std":
            self.squares += float(pc.variance(array, ddof=0).as_py()) * rows + step * step * self.rows * rows / both
        self.mean += step * rows / both

    def answer(self, what: str, ddof: int) -> Any:
        if self.rows == 0:
            return None
        if what == "std":
            return math.sqrt(self.squares / (self.rows - ddof)) if self.rows > ddof else None
        return {"sum": self.total, "min": self.least, "max": self.most, "mean": self.mean}[what]


def _extremes(array: Any, name: str) -> tuple[Any, Any]:
    extremes = pc.min_max(array)
    least, most = python_values(pa.array([extremes["min"], extremes["max"]], array.type), name)
    return least, most


def wide_enough(array: Any) -> Any:
    """Returns the column in a type that can hold its sum. Integers whose sum may exceed 64 bits become decimals."""
    if not pa.types.is_integer(array.type) or array.type.bit_width < 64 or array.null_count == len(array):
        return array
    extremes = pc.min_max(array).as_py()
    largest = max(abs(extremes["min"]), abs(extremes["max"]))
    return array.cast(pa.decimal128(38, 0)) if largest * len(array) >= 2**63 else array


def summaries(blocks: Iterable[Block], names: list[str] | None, what: str, *, ignore_nulls: bool) -> dict[str, Summary]:
    """Returns the summary of each column. KeyError and TypeError name the column."""
    by_column: dict[str, Summary] = {name: Summary() for name in names or ()}
    for block in blocks:
        for name in names if names is not None else block.names:
            try:
                by_column.setdefault(name, Summary()).add(block.column(name, what), what, name)
            except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError) as error:
                raise TypeError(f"{what}: the column {name!r} cannot be taken together: {error}") from error
    if not ignore_nulls:
        for name, summary in by_column.items():
            if summary.nulls:
                by_column[name] = Summary()
    return by_column


def _aggregate(table: Any, keys: list[str], aggregations: Sequence[tuple[Any, ...]]) -> Any:
    """Returns a table of keys and aggregates. aggregations: tuples (column, function, name of the result[, options of the
    function])."""
    names = _block.named([*keys, *(aggregation[2] for aggregation in aggregations)])
    for name in keys:
        table = _with_column(table, name, _block.without_negative_zero(table.column(name)))
    wide = table
    for column, what, *_ in aggregations:
        wide = _with_column(wide, column, wide_enough(wide.column(column))) if what == "sum" else wide
    grouped = wide.group_by(keys).aggregate([(column, what, *options) for column, what, _, *options in aggregations])
    count = len(aggregations)
    keys_first = grouped.column_names[: len(keys)] == keys  # False in the oldest supported releases of pyarrow.
    places = range(len(names)) if keys_first else [*range(count, len(names)), *range(count)]
    columns = [grouped.column(place) for place in places]
    for place, (column, what, *_) in enumerate(aggregations, start=len(keys)):
        if what == "sum" and wide.column(column).type != table.column(column).type:
            whole = pa.int64() if pa.types.is_signed_integer(table.column(column).type) else pa.uint64()
            columns[place] = cast_column(columns[place], whole, names[place])
    return pa.table(columns, names=names)


def _with_column(table: Any, name: str, column: Any) -> Any:
    return table.set_column(table.column_names.index(name), name, column)


def _mapped_group(fn: Function, group: Block, batch_format: str | None) -> Block:
    try:
        given = _block.Given(group, batch_format)
        return given.block_of(fn(given.batch))
    except TypeError as error:
        raise fn.wrong(str(error)) from error


def _groups(whole: Block, keys: list[str]) -> Iterable[Block]:
    """Yields the groups in the order of their keys."""
    if not whole.rows:
        return
    table = whole.select(keys, "groupby").arrow()
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in keys]).to_numpy()
    inside = whole.take(order)
    rows = list(zip(*inside.select(keys, "groupby").lists().values(), strict=True))
    start = 0
    for place in range(1, len(rows) + 1):
        if place == len(rows) or not _same(rows[place], rows[start]):
            yield inside.slice(start, place)
            start = place


def _same(key: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Returns True if two keys are equal. NaN equals NaN, as in the aggregates."""
    return all(a == b or (_block.is_nan(a) and _block.is_nan(b)) for a, b in zip(key, other, strict=True))
