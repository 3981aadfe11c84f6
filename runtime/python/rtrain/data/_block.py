"""A block: some rows as named columns of one length. Every plan passes rows as blocks. Columns of files are Arrow arrays.
Columns of functions are NumPy arrays, which may have several dimensions or hold arbitrary objects."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rtrain.data._values import _given, _types
from rtrain.data._values._columns import as_arrow, as_numpy, as_series, is_nan, of_masked, of_series, values_of
from rtrain.data._values._joined import joined
from rtrain.data._values._python import column_of

_NONE: frozenset[str] = frozenset()
FORMATS = ("default", "numpy", "pandas", "pyarrow")

__all__ = ["Block", "Given", "as_arrow", "as_numpy", "column_of", "is_nan", "values_of"]


class Block:
    """Columns of one length. A block is never changed after its creation. ValueError if the columns differ in length.

    without_nulls: Arrow columns that hold no null in the whole dataset, as the source guarantees. NumPy arrays never hold
    nulls. origin: the file of the rows, for messages; empty if there is none.
    """

    __slots__ = ("columns", "origin", "rows", "without_nulls")

    def __init__(self, columns: dict[str, Any], without_nulls: frozenset[str] = _NONE, origin: str = "") -> None:
        lengths = {len(column) for column in columns.values()}
        if len(lengths) > 1:
            column_lengths = ", ".join(f"{name!r} has {len(column)}" for name, column in columns.items())
            raise ValueError(f"the columns differ in length: {column_lengths}")
        self.columns = columns
        self.rows: int = next(iter(lengths), 0)
        self.without_nulls, self.origin = without_nulls, origin

    def __setstate__(self, state: tuple[None, dict[str, Any]]) -> None:
        """Restores a block, also from a pickle of an earlier version."""
        for name, value in {"without_nulls": frozenset(), "origin": "", **state[1]}.items():
            setattr(self, name, value)

    @property
    def names(self) -> list[str]:
        return list(self.columns)

    def with_columns(self, columns: dict[str, Any]) -> Block:
        """Returns a block of these columns of the same dataset. Guarantees about columns by their names stay."""
        return Block(columns, self.without_nulls, self.origin)

    def slice(self, start: int, stop: int) -> Block:
        if start <= 0 and stop >= self.rows:
            return self
        return Block({name: column[start:stop] for name, column in self.columns.items()}, self.without_nulls, self.origin)

    def take(self, places: np.ndarray[Any, Any]) -> Block:
        return self.with_columns({name: _take(column, places) for name, column in self.columns.items()})

    def column(self, name: str, caller: str) -> Any:
        if name not in self.columns:
            raise KeyError(f"{caller}: there is no column {name!r}; there are: {', '.join(self.columns) or 'none'}")
        return self.columns[name]

    def select(self, names: Sequence[str], caller: str) -> Block:
        return self.with_columns({name: self.column(name, caller) for name in names})

    def may_hold_nulls(self, name: str) -> bool:
        return not isinstance(self.columns[name], np.ndarray) and name not in self.without_nulls

    def with_counted_nulls(self) -> Block:
        """Returns the block, which is a whole dataset, with the columns without nulls determined by counting."""
        arrow = {name: column for name, column in self.columns.items() if not isinstance(column, np.ndarray)}
        return Block(self.columns, frozenset(name for name, column in arrow.items() if not column.null_count), self.origin)

    # -- as other types -------------------------------------------------------------------------------------------------
    def numpy(self, *, private: bool = True) -> dict[str, np.ndarray[Any, Any]]:
        """Returns the columns as NumPy arrays. private: the caller may write into them."""
        arrays = {}
        for name, column in self.columns.items():
            array = column
            if not isinstance(column, np.ndarray):
                array = as_numpy(column, name, nullable=name not in self.without_nulls)
            arrays[name] = _private(array) if private else array
        return arrays

    def arrow(self) -> pa.Table:
        return pa.table({name: as_arrow(column, name) for name, column in self.columns.items()})

    def pandas(self) -> Any:
        import pandas

        columns = self.columns.items()
        return pandas.DataFrame(
            {name: as_series(column, name, nullable=name not in self.without_nulls) for name, column in columns}
        )

    def batch(self, batch_format: str | None, *, private: bool = True) -> Any:
        if batch_format == "pandas":
            return self.pandas()
        return self.arrow() if batch_format == "pyarrow" else self.numpy(private=private)

    def lists(self) -> dict[str, list[Any]]:
        """Returns each column as a list of Python values. Values with several dimensions are arrays."""
        return {name: values_of(column, name) for name, column in self.columns.items()}

    def dicts(self) -> Iterator[dict[str, Any]]:
        """Yields the rows as dicts, with the values of `lists`."""
        return rows_of(self.lists(), self.rows)

    @property
    def nbytes(self) -> int:
        return sum(int(column.nbytes) for column in self.columns.values())


def rows_of(lists: Mapping[str, list[Any]], rows: int) -> Iterator[dict[str, Any]]:
    for place in range(rows):
        yield {name: values[place] for name, values in lists.items()}


def all_rows_of(lists: Mapping[str, list[Any]], rows: int) -> list[dict[str, Any]]:
    """Returns the rows of columns that have `rows` values each."""
    if not lists:
        return [{} for _ in range(rows)]
    if len(lists) == 1:
        ((name, values),) = lists.items()
        return [{name: value} for value in values]
    return [dict(zip(lists, values)) for values in zip(*lists.values())]  # noqa: B905 (they are of one length)


def check_format(batch_format: str | None, caller: str) -> None:
    if batch_format is not None and batch_format not in FORMATS:
        raise ValueError(f"{caller}: batch_format is {batch_format!r}; it is one of {', '.join(FORMATS)}, or None")


# -- making blocks ------------------------------------------------------------------------------------------------------
def from_arrow(table: Any) -> Block:
    """Makes a block of a Table or RecordBatch, without a copy. ValueError names a column that appears twice."""
    named(table.schema.names)
    return Block({name: table.column(place) for place, name in enumerate(table.schema.names)})


def from_rows(
    rows: Sequence[Mapping[str, Any]], given: Mapping[str, list[Any]] | None = None, block: Block | None = None
) -> Block:
    """Makes a block of rows. A key that a row lacks is None in that row.

    block, given: the rows that a function received, and their values as lists. Columns that the function did not change stay as
    they are.
    """
    by_key = _values_by_key(rows)
    columns: dict[str, Any] = {}
    for values, name in zip(by_key.values(), named(by_key), strict=True):
        if block is None or given is None or name not in block.columns:
            columns[name] = column_of(values, name)
        else:
            columns[name] = _given.values_after(block.columns[name], values, given[name], name)
    return Block(columns)


def _values_by_key(rows: Sequence[Mapping[str, Any]]) -> dict[Any, Sequence[Any]]:
    """Returns the values of each key, in the order in which keys appear first."""
    first = rows[0] if rows else {}
    if first and set(map(type, rows)) == {dict} and set(map(len, rows)) == {len(first)}:
        with contextlib.suppress(KeyError):  # KeyError: a row has other keys
            return {key: list(map(operator.itemgetter(key), rows)) for key in first}
    keys: dict[Any, None] = {}
    for row in rows:
        keys.update(dict.fromkeys(row))
    return {key: [row.get(key) for row in rows] for key in keys}


def from_batch(value: Any) -> Block:
    """Makes a block of a function's result for a batch. TypeError if the result has no columns."""
    return Block(dict(_columns_of(value)))


def from_pandas(frame: Any) -> Block:
    return Block(dict(_columns_of(frame)))


def _columns_of(value: Any, given: Given | None = None) -> Iterator[tuple[str, Any]]:
    if isinstance(value, pa.Table | pa.RecordBatch):
        yield from from_arrow(value).columns.items()
    elif isinstance(value, Mapping):
        for key, name in zip(value, named(value), strict=True):
            yield name, _checked_column(name, value[key], given)
    elif hasattr(value, "iloc") and hasattr(value, "columns"):
        for key, name in zip(value.columns, named(value.columns), strict=True):
            yield name, _checked_column(name, value[key], given)
    else:
        raise TypeError(f"a batch is a dict of arrays, a pandas DataFrame or a pyarrow Table, not {type(value).__name__}")


def named(keys: Iterable[Any]) -> list[str]:
    """Returns the names of columns as texts. ValueError names two columns that would have the same name."""
    keys = list(keys)
    names = [str(key) for key in keys]
    if len(set(names)) < len(names):
        name = next(name for name in names if names.count(name) > 1)
        places = [place for place, other in enumerate(names) if other == name]
        which = " and ".join(f"number {place + 1} ({keys[place]!r})" for place in places)
        raise ValueError(f"{len(places)} columns have the name {name!r}: {which} of {len(names)}; give each a name of its own")
    return names


class Given:
    """A batch for a function, and the data that shows which columns the function did not change."""

    def __init__(self, block: Block, batch_format: str | None, *, private: bool = True) -> None:
        self.block = block
        self.batch = block.batch(batch_format, private=private)
        self._cells: dict[str, Any] = {}
        for name, column in block.columns.items() if batch_format != "pyarrow" else ():
            cells = None if isinstance(column, np.ndarray) else _given.cells_before(column, self.batch[name])
            if cells is not None:
                self._cells[name] = cells

    def block_of(self, value: Any) -> Block:
        """Returns the block of the function's result. TypeError if the result has no columns."""
        return Block(dict(_columns_of(value, self)))

    def after(self, name: str, column: Any) -> Any:
        """Returns the column for an array or a Series that the function returned under this name."""
        old = self.block.columns.get(name)
        if old is None or isinstance(old, np.ndarray):
            return None
        if isinstance(column, np.ndarray):
            return _given.array_after(old, column, self._cells.get(name), name)
        return _given.series_after(old, column, self._cells.get(name), name)


def concat(blocks: Iterable[Block]) -> Block:
    """Concatenates blocks. A column that a block lacks is null in its rows."""
    parts = [block for block in blocks if block.columns]
    if len(parts) > 1:
        parts = [block for block in parts if block.rows] or parts[:1]
    if len(parts) <= 1:
        return parts[0] if parts else Block({})
    names: dict[str, None] = {}
    for block in parts:
        names.update(dict.fromkeys(block.columns))
    complete = frozenset(
        name for name in names if all(name in block.columns and not block.may_hold_nulls(name) for block in parts)
    )
    origins = [block.origin for block in parts]
    return Block(
        {name: joined(name, [_or_nulls(block, name) for block in parts], origins) for name in names}, complete, origins[0]
    )


def _or_nulls(block: Block, name: str) -> Any:
    return block.columns[name] if name in block.columns else pa.nulls(block.rows)


def without_negative_zero(column: Any) -> Any:
    """Returns an Arrow column with 0.0 for -0.0. They are equal, but Arrow's hashes differ."""
    return pc.add(column, pa.scalar(0.0, column.type)) if column.type in (pa.float32(), pa.float64()) else column


def _checked_column(name: str, column: Any, given: Given | None = None) -> Any:
    is_series = not isinstance(column, np.ndarray) and hasattr(column, "iloc")
    if not isinstance(column, np.ndarray) and not is_series and hasattr(column, "detach") and hasattr(column, "numpy"):
        column = column.numpy(force=True)
    if isinstance(column, np.ndarray) and column.ndim == 0:
        raise TypeError(f"the column {name!r} is a single value; a column is an array or a list with one value for each row")
    if isinstance(column, np.ndarray) or is_series:
        kept = None if given is None else given.after(name, column)
        column = column if kept is None else kept
    if isinstance(column, np.ma.MaskedArray):
        return of_masked(column, name)
    if isinstance(column, np.ndarray | pa.Array | pa.ChunkedArray):
        return column
    if hasattr(column, "iloc"):
        return of_series(column, name)
    if isinstance(column, list | tuple):
        return column_of(list(column), name)
    raise TypeError(f"the column {name!r} is of type {type(column).__name__}; a column is an array or a list")


# -- columns ------------------------------------------------------------------------------------------------------------
def _take(column: Any, places: np.ndarray[Any, Any]) -> Any:
    return column[places] if isinstance(column, np.ndarray) else _types.take(column, places)


def _private(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray):
        return np.ma.MaskedArray(_private(array.data), array.mask)
    return array if array.base is None and array.flags.writeable else array.copy()
