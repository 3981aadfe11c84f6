"""Sums and their kin: of a whole dataset read piece by piece, and of groups of rows by pyarrow, in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from rtrain._lazy import public_in
from rtrain.data import _block
from rtrain.data._block import Block
from rtrain.data._ops import Function

if TYPE_CHECKING:
    from rtrain.data._dataset import Dataset


class Summary:
    """The summary of one column, joined from its pieces; the spread by the parallel form of Welford's sums."""

    def __init__(self) -> None:
        self.rows = 0
        self.total: Any = None
        self.least: Any = None
        self.most: Any = None
        self.mean = self.squares = 0.0
        self.nulls = False

    def add(self, column: Any, what: str) -> None:
        array = column if isinstance(column, pa.Array | pa.ChunkedArray) else pa.array(column)
        self.nulls = self.nulls or array.null_count > 0
        rows = len(array) - array.null_count
        if not rows:
            return
        if what in ("min", "max"):
            extremes = pc.min_max(array).as_py()
            self.least = extremes["min"] if self.least is None else min(self.least, extremes["min"])
            self.most = extremes["max"] if self.most is None else max(self.most, extremes["max"])
        else:
            total = pc.sum(array).as_py()
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


def summaries(blocks: Iterable[Block], names: list[str] | None, what: str, *, ignore_nulls: bool) -> dict[str, Summary]:
    """KeyError and TypeError name the column."""
    by_column: dict[str, Summary] = {name: Summary() for name in names or ()}
    for block in blocks:
        for name in names if names is not None else block.names:
            try:
                by_column.setdefault(name, Summary()).add(block.column(name, what), what)
            except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError) as error:
                raise TypeError(f"{what}: the column {name!r} cannot be taken together: {error}") from error
    if not ignore_nulls:
        for name, summary in by_column.items():
            if summary.nulls:
                by_column[name] = Summary()
    return by_column


class GroupedData:
    """Rows of equal keys together: what `Dataset.groupby` returns. A process that computes it holds all rows in memory."""

    def __init__(self, dataset: Dataset, keys: Sequence[str]) -> None:
        self._dataset, self._keys = dataset, list(keys)

    def count(self) -> Dataset:
        """Returns a Dataset with a row for each group: its key, and its number of rows in the column `count()`."""
        return self._aggregated([([], "count_all", "count()")], [])

    def sum(self, on: Any = None) -> Dataset:
        """Returns a Dataset with a row for each group: its key, and the sum of each column in `sum(column)`.

        on: a column or several; left out, all but the key.
        """
        return self._by("sum", on)

    def min(self, on: Any = None) -> Dataset:
        """Returns a Dataset with a row for each group: its key, and the least value of each column in `min(column)`.

        on: as for `sum`.
        """
        return self._by("min", on)

    def max(self, on: Any = None) -> Dataset:
        """Returns a Dataset with a row for each group: its key, and the greatest value of each column in `max(column)`.

        on: as for `sum`.
        """
        return self._by("max", on)

    def mean(self, on: Any = None) -> Dataset:
        """Returns a Dataset with a row for each group: its key, and the mean of each column in `mean(column)`.

        on: as for `sum`.
        """
        return self._by("mean", on)

    def std(self, on: Any = None, ddof: int = 1) -> Dataset:
        """Returns a Dataset with a row for each group: its key, and the standard deviation of each column in `std(column)`.

        on: as for `sum`. ddof: the divisor is the number of rows less `ddof`.
        """
        names = self._columns(on)
        option = pc.VarianceOptions(ddof=ddof)
        return self._aggregated([(name, "stddev", f"std({name})", option) for name in names], names)

    def map_groups(self, fn: Any, *, batch_format: str | None = "default", fn_args: Any = None, fn_kwargs: Any = None) -> Dataset:
        """Returns a Dataset of the batches that `fn` returns, one for each group's rows, which it gets as one batch.

        batch_format: what `fn` is given, as in `Dataset.map_batches`. fn_args, fn_kwargs: further arguments of `fn`.
        """
        _block.check_format(batch_format, "map_groups")
        keys = self._keys
        function = Function("map_groups", fn, fn_args, fn_kwargs)

        def compute(whole: Block) -> Block:
            return _block.concat(_mapped_group(function, group, batch_format) for group in _groups(whole, keys))

        return self._dataset._computed(f"groupby({', '.join(keys)}) -> {function.said}", compute)

    def _by(self, what: str, on: Any) -> Dataset:
        names = self._columns(on)
        return self._aggregated([(name, what, f"{what}({name})") for name in names], names)

    def _columns(self, on: Any) -> list[str]:
        if on is None:
            return [name for name in self._dataset.columns() or [] if name not in self._keys]
        return [on] if isinstance(on, str) else list(on)

    def _aggregated(self, aggregations: list[tuple[Any, ...]], needed: list[str]) -> Dataset:
        keys = self._keys

        def compute(whole: Block) -> Block:
            if not whole.rows:
                return Block({})
            table = whole.select(list(dict.fromkeys([*keys, *needed])), "groupby").arrow()
            for name in keys:
                table = table.set_column(table.column_names.index(name), name, _block.without_negative_zero(table.column(name)))
            grouped = table.group_by(keys).aggregate(
                [
                    aggregation[:2] if len(aggregation) == 3 else (aggregation[0], aggregation[1], aggregation[3])
                    for aggregation in aggregations
                ]
            )
            new = {name: grouped.column(name) for name in keys}
            rest = [name for name in grouped.column_names if name not in keys]
            new.update({aggregation[2]: grouped.column(name) for aggregation, name in zip(aggregations, rest, strict=True)})
            return _block.from_arrow(pa.table(new).sort_by([(name, "ascending") for name in keys]))

        text = f"groupby({', '.join(keys)}).{', '.join(str(aggregation[2]) for aggregation in aggregations)}"
        return self._dataset._computed(text, compute)


def _mapped_group(fn: Function, group: Block, batch_format: str | None) -> Block:
    try:
        return _block.from_batch(fn(group.batch(batch_format)))
    except TypeError as error:
        raise fn.wrong(str(error)) from error


def _groups(whole: Block, keys: list[str]) -> Iterable[Block]:
    """Yields the groups in the order of their keys."""
    if not whole.rows:
        return
    table = whole.select(keys, "groupby").arrow()
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in keys]).to_numpy()
    inside = whole.take(order)
    rows = list(zip(*(_block.values_of(column) for column in inside.select(keys, "groupby").columns.values()), strict=True))
    start = 0
    for place in range(1, len(rows) + 1):
        if place == len(rows) or not _same(rows[place], rows[start]):
            yield inside.slice(start, place)
            start = place


def _same(key: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """NaN is one key, as in the aggregates."""
    return all(a == b or (_block.is_nan(a) and _block.is_nan(b)) for a, b in zip(key, other, strict=True))


Compute = Callable[[Block], Block]


public_in("rtrain.data", GroupedData)
