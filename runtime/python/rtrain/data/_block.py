"""A block: a few rows as named columns of one length. A column is an Arrow array, as files give it, or a NumPy array, as
functions give it; several dimensions and arbitrary objects are NumPy's. Everything that flows through a plan is a block."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rtrain.data._arrow import _long

FORMATS = ("default", "numpy", "pandas", "pyarrow")


class Block:
    """Immutable by agreement. ValueError when the columns differ in length."""

    __slots__ = ("columns", "rows")

    def __init__(self, columns: dict[str, Any]) -> None:
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            column_lengths = ", ".join(f"{name!r} has {length}" for name, length in lengths.items())
            raise ValueError(f"the columns differ in length: {column_lengths}")
        self.columns = columns
        self.rows: int = next(iter(lengths.values()), 0)

    @property
    def names(self) -> list[str]:
        return list(self.columns)

    def slice(self, start: int, stop: int) -> Block:
        if start <= 0 and stop >= self.rows:
            return self
        return Block({name: column[start:stop] for name, column in self.columns.items()})

    def take(self, places: np.ndarray[Any, Any]) -> Block:
        return Block({name: _take(column, places) for name, column in self.columns.items()})

    def column(self, name: str, caller: str) -> Any:
        if name not in self.columns:
            raise KeyError(f"{caller}: there is no column {name!r}; there are: {', '.join(self.columns) or 'none'}")
        return self.columns[name]

    def select(self, names: Sequence[str], caller: str) -> Block:
        return Block({name: self.column(name, caller) for name in names})

    # -- as other types -------------------------------------------------------------------------------------------------
    def numpy(self, *, private: bool = True) -> dict[str, np.ndarray[Any, Any]]:
        """`private`: arrays that the caller may write into."""
        arrays = {name: as_numpy(column) for name, column in self.columns.items()}
        return {name: _private(column) for name, column in arrays.items()} if private else arrays

    def arrow(self) -> pa.Table:
        return pa.table({name: as_arrow(column, name) for name, column in self.columns.items()})

    def pandas(self) -> Any:
        import pandas

        return pandas.DataFrame({name: _as_series(column) for name, column in self.columns.items()})

    def batch(self, batch_format: str | None, *, private: bool = True) -> Any:
        if batch_format == "pandas":
            return self.pandas()
        return self.arrow() if batch_format == "pyarrow" else self.numpy(private=private)

    def dicts(self) -> Iterator[dict[str, Any]]:
        """Row by row, as plain Python values; what has several dimensions as arrays."""
        lists = {name: values_of(column) for name, column in self.columns.items()}
        for place in range(self.rows):
            yield {name: values[place] for name, values in lists.items()}

    @property
    def nbytes(self) -> int:
        return sum(int(column.nbytes) for column in self.columns.values())


def check_format(batch_format: str | None, caller: str) -> None:
    if batch_format is not None and batch_format not in FORMATS:
        raise ValueError(f"{caller}: batch_format is {batch_format!r}; it is one of {', '.join(FORMATS)}, or None")


# -- making blocks ------------------------------------------------------------------------------------------------------
def from_arrow(table: Any) -> Block:
    """Makes a block of a Table or RecordBatch; its arrays are shared."""
    return Block({name: table.column(place) for place, name in enumerate(table.schema.names)})


def from_rows(rows: Sequence[Mapping[str, Any]]) -> Block:
    """A key that a row lacks is None there."""
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    return Block({str(name): column_of([row.get(name) for row in rows]) for name in names})


def from_batch(value: Any) -> Block:
    """What a function gave for a batch. TypeError for anything but columns."""
    if isinstance(value, Mapping):
        return Block({str(name): _checked_column(name, column) for name, column in value.items()})
    if isinstance(value, pa.Table | pa.RecordBatch):
        return from_arrow(value)
    if hasattr(value, "iloc") and hasattr(value, "columns"):
        return from_pandas(value)
    raise TypeError(f"a batch is a dict of arrays, a pandas DataFrame or a pyarrow Table, not {type(value).__name__}")


def from_pandas(frame: Any) -> Block:
    return Block({str(name): _of_series(frame[name]) for name in frame.columns})


def concat(blocks: Iterable[Block]) -> Block:
    """One below the other. A column that some lack is null there."""
    parts = [block for block in blocks if block.columns]
    if len(parts) > 1:
        parts = [block for block in parts if block.rows] or parts[:1]
    if len(parts) <= 1:
        return parts[0] if parts else Block({})
    names: dict[str, None] = {}
    for block in parts:
        names.update(dict.fromkeys(block.columns))
    return Block({name: _one_below_the_other(name, [_or_nulls(block, name) for block in parts]) for name in names})


def without_negative_zero(column: Any) -> Any:
    """An Arrow column in which -0.0 is 0.0, which equals it: Arrow's hashes tell them apart."""
    return pc.add(column, pa.scalar(0.0, column.type)) if column.type in (pa.float32(), pa.float64()) else column


def column_of(values: list[Any]) -> Any:
    """A column of Python values: NumPy for numbers and arrays of one shape, Arrow for texts, lists and gaps, else objects."""
    values = [value.numpy(force=True) if _is_tensor(value) else value for value in values]
    if values and all(isinstance(value, bool | int | float | np.generic) for value in values):
        array = np.asarray(values)
        if array.dtype.kind in "biufMmc":
            return array
    if values and all(isinstance(value, np.ndarray) for value in values):
        if len({(value.shape, value.dtype) for value in values}) == 1:
            return np.stack(values)
        return objects(values)
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return objects(values)


def objects(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    array = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        array[place] = value
    return array


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "detach") and hasattr(value, "numpy")


def _checked_column(name: Any, column: Any) -> Any:
    if _is_tensor(column):
        column = column.numpy(force=True)
    if isinstance(column, np.ndarray) and column.ndim == 0:
        raise TypeError(f"the column {name!r} is a single value; a column is an array or a list with one value for each row")
    if isinstance(column, np.ndarray | pa.Array | pa.ChunkedArray):
        return column
    if hasattr(column, "iloc"):
        return _of_series(column)
    if isinstance(column, list | tuple):
        return column_of(list(column))
    raise TypeError(f"the column {name!r} is of type {type(column).__name__}; a column is an array or a list")


# -- columns ------------------------------------------------------------------------------------------------------------
def as_numpy(column: Any) -> np.ndarray[Any, Any]:
    """Tensors and lists of one length get a dimension more; ragged lists are objects; integers with gaps are floats."""
    if isinstance(column, np.ndarray):
        return column
    if _long.is_long(column):
        return _arrays_below_each_other([as_numpy(chunk) for chunk in column.chunks])
    array = _combined(column)
    kind = array.type
    if isinstance(kind, pa.FixedShapeTensorType):
        return np.asarray(array.to_numpy_ndarray()) if len(array) else np.empty((0, *kind.shape))
    if isinstance(kind, pa.BaseExtensionType):
        return as_numpy(array.storage)
    if pa.types.is_dictionary(kind):
        return as_numpy(array.dictionary_decode())
    if _is_list(kind):
        return _lists(array)
    return np.asarray(array.to_numpy(zero_copy_only=False))


def as_arrow(column: Any, name: str) -> Any:
    """TypeError that names the column when Arrow has no type for what it holds."""
    if not isinstance(column, np.ndarray):
        return column
    if column.ndim > 1:
        return pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(column))
    try:
        return pa.array(column if column.dtype.kind != "U" else column.tolist())
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        held = type(column[0]).__name__ if len(column) else column.dtype
        raise TypeError(f"the column {name!r} holds {held}, which Arrow has no type for: {error}") from error


def values_of(column: Any) -> list[Any]:
    """Plain Python values, arrays for what has several dimensions."""
    if isinstance(column, np.ndarray):
        if column.ndim > 1:
            return [row.copy() for row in column]
        if column.dtype.kind in "Mm":
            return list(column.astype(column.dtype.kind + "8[us]").tolist())
        return list(column.tolist())
    if isinstance(column.type, pa.FixedShapeTensorType):
        return list(as_numpy(column))
    return list(column.to_pylist())


def _lists(array: Any) -> np.ndarray[Any, Any]:
    """Rows of numbers, all of one length, as two dimensions; else an object for each row."""
    kind, inner = array.type, array.type.value_type
    plain = pa.types.is_integer(inner) or pa.types.is_floating(inner) or pa.types.is_boolean(inner)
    if plain and array.null_count == 0 and len(array):
        flat = array.flatten()
        width = kind.list_size if pa.types.is_fixed_size_list(kind) else len(flat) // len(array)
        if flat.null_count == 0 and len(flat) == width * len(array):
            sizes = array.value_lengths().to_numpy(zero_copy_only=False)
            if (sizes == width).all():
                return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(len(array), width)
    rows = array.to_pylist()
    return objects([np.asarray(row) if row is not None and plain else row for row in rows])


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _combined(column: Any) -> Any:
    """One Arrow array, without a copy where there is one chunk."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    chunk = column.combine_chunks()
    return pa.concat_arrays(chunk.chunks) if isinstance(chunk, pa.ChunkedArray) else chunk


def _take(column: Any, places: np.ndarray[Any, Any]) -> Any:
    if isinstance(column, np.ndarray):
        return column[places]
    if isinstance(column.type, pa.BaseExtensionType):
        array = _combined(column)
        return pa.ExtensionArray.from_storage(array.type, array.storage.take(pa.array(places)))
    return _long.take(column, places) if _long.is_long(column) else column.take(pa.array(places))


def _private(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array if array.base is None and array.flags.writeable else array.copy()


def _or_nulls(block: Block, name: str) -> Any:
    return block.columns[name] if name in block.columns else pa.nulls(block.rows)


def _one_below_the_other(name: str, columns: list[Any]) -> Any:
    """NumPy columns of one shape and Arrow columns stay what they are; what has no common type row by row is objects. TypeError for
    Arrow types that none includes."""
    if all(isinstance(column, np.ndarray) for column in columns):
        return _arrays_below_each_other(columns)
    if any(isinstance(column, np.ndarray) and (column.ndim > 1 or column.dtype == object) for column in columns):
        return objects([value for column in columns for value in values_of(column)])
    return _arrow_below_each_other(name, [as_arrow(column, name) for column in columns])


def _arrays_below_each_other(columns: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    if len({column.shape[1:] for column in columns}) == 1 and all(column.dtype != object for column in columns):
        return np.concatenate(columns)
    return objects([value for column in columns for value in column])


def _arrow_below_each_other(name: str, arrays: list[Any]) -> Any:
    chunks = [chunk for array in arrays for chunk in (array.chunks if isinstance(array, pa.ChunkedArray) else [array])]
    if len({chunk.type for chunk in chunks}) == 1:
        return pa.chunked_array(chunks)
    tables = [pa.table({"column": array}) for array in arrays]
    try:
        return pa.concat_tables(tables, promote_options="permissive").column(0)
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        kinds = " and ".join(dict.fromkeys(str(chunk.type) for chunk in chunks))
        raise TypeError(
            f"the column {name!r} holds {kinds} in different rows, which go into no common batch; convert it by map"
        ) from error


def _as_series(column: Any) -> Any:
    if isinstance(column, np.ndarray):
        return column if column.ndim == 1 else list(column)
    if isinstance(column.type, pa.BaseExtensionType):
        return list(as_numpy(column))
    return column.to_pandas()


def _of_series(series: Any) -> Any:
    if isinstance(series.dtype, np.dtype):
        if series.dtype != object:
            return series.to_numpy()
        values = series.tolist()
        if any(isinstance(value, np.ndarray) for value in values):
            return column_of(values)
    try:
        return pa.array(series, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return objects(series.tolist())


def plain(value: Any) -> Any:
    """A NumPy scalar or an Arrow scalar as Python has it."""
    if isinstance(value, pa.Scalar):
        return value.as_py()
    if isinstance(value, np.datetime64):
        return value.astype("M8[us]").astype(datetime.datetime)
    return value.item() if isinstance(value, np.generic) else value


def is_nan(value: Any) -> bool:
    return isinstance(value, float | np.floating) and bool(np.isnan(value))
