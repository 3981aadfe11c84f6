"""Columns: from Arrow to NumPy, pandas and Python values, and back. A conversion keeps every value, or raises an error that names
the column.

The type of a converted column follows from its Arrow type, and from whether the whole column may hold nulls. It never follows from
the nulls of one piece.

    Arrow                       NumPy                              pandas          row
    integer, boolean            plain; masked where nulls may be   the same        int, bool, None
    float                       NaN for null                       the same        float, None
    timestamp, date, duration   datetime64, NaT; UTC for a zone    with its zone   datetime or pandas.Timestamp, None
    others                      Python objects, None               objects         objects, None
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from rtrain.data._arrow import _long
from rtrain.data._values import _types
from rtrain.data._values._python import column_of, objects

Array = np.ndarray[Any, Any]
_UNITS_OF_DATES = {"Y": "D", "M": "D", "W": "D", "h": "s", "m": "s"}
_UNITS_OF_DURATIONS = {"W": "s", "D": "s", "h": "s", "m": "s"}


# -- to NumPy -----------------------------------------------------------------------------------------------------------
def as_numpy(column: Any, name: str, *, nullable: bool = True) -> Array:
    """Returns the column as an array; a list column whose rows have one length has two dimensions.

    nullable: integers and booleans become a masked array, also where these rows have no null. Without it a null is an error.
    """
    if isinstance(column, np.ndarray):
        return column
    if _long.is_long(column):
        return _long_as_numpy(column, name, nullable=nullable)
    array = _types.combined(column)
    kind = array.type
    if kind.id in _types.WHOLE:
        return _whole_numbers(array, name, nullable=nullable)
    if kind.id in _types.DIRECT:
        return np.asarray(array.to_numpy(zero_copy_only=False))
    if isinstance(kind, pa.FixedShapeTensorType):
        return _tensors(array)
    if _types.is_extension(kind):
        return as_numpy(array.storage, name, nullable=nullable)
    if pa.types.is_dictionary(kind):
        return as_numpy(array.dictionary_decode(), name, nullable=nullable)
    if _types.is_list(kind):
        return _lists(array, name)
    if pa.types.is_time(kind) or pa.types.is_nested(kind) or _is_interval(kind):
        return objects(python_values(array, name))
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _long_as_numpy(column: Any, name: str, *, nullable: bool) -> Array:
    arrays = [as_numpy(chunk, name, nullable=nullable) for chunk in column.chunks if len(chunk)]
    if len({(array.dtype, array.shape[1:]) for array in arrays}) > 1:
        return objects([row for array in arrays for row in array])
    values = np.concatenate([np.asarray(array) for array in arrays])
    masked = isinstance(arrays[0], np.ma.MaskedArray)
    return np.ma.MaskedArray(values, np.concatenate([np.ma.getmaskarray(array) for array in arrays])) if masked else values


def _is_interval(kind: Any) -> bool:
    return str(kind) == "month_day_nano_interval"


def _whole_numbers(array: Any, name: str, *, nullable: bool) -> Array:
    if not nullable and array.null_count:
        raise ValueError(f"the column {name!r} holds a null, and its source counted none: the source changed while it was read")
    if not array.null_count:
        values = np.asarray(array.to_numpy(zero_copy_only=False))
        return np.ma.MaskedArray(values, np.zeros(len(array), dtype=bool)) if nullable else values
    mask = np.asarray(array.is_null().to_numpy(zero_copy_only=False))
    return np.ma.MaskedArray(array.fill_null(_below_mask(array.type)).to_numpy(zero_copy_only=False), mask)


def _below_mask(kind: Any) -> Any:
    """Returns the value of an array below a mask. It is an unlikely number, so that code that ignores the mask fails early."""
    if pa.types.is_boolean(kind):
        return pa.scalar(value=False)
    limits = np.iinfo(kind.to_pandas_dtype())
    return pa.scalar(limits.max if limits.min == 0 else limits.min, kind)


def _tensors(array: Any) -> Array:
    kind = array.type
    if not len(array):
        return np.empty((0, *kind.shape), dtype=kind.value_type.to_pandas_dtype())
    if not array.null_count:
        return np.asarray(array.to_numpy_ndarray())
    cells = iter(_types.take(array, np.flatnonzero(array.is_valid())).to_numpy_ndarray())
    return objects([next(cells) if valid else None for valid in array.is_valid().to_pylist()])


def _lists(array: Any, name: str) -> Array:
    """Returns rows of numbers with one length as a two-dimensional array. For other rows, returns an array of objects: an array
    for each row, or a list of other values."""
    inner = array.type.value_type
    if not _types.is_plain_number(inner):
        return objects(python_values(array, name))
    flat = array.flatten()
    if flat.null_count:
        rows = python_values(array, name)
        return objects([None if row is None else _cell(row, inner) for row in rows])
    numbers = np.asarray(flat.to_numpy(zero_copy_only=False))
    lengths = array.value_lengths()
    sizes = (lengths.fill_null(0) if lengths.null_count else lengths).to_numpy(zero_copy_only=False)
    if len(array) and not array.null_count and (sizes == sizes[0]).all():
        return numbers.reshape(len(array), sizes[0])
    ends = np.cumsum(sizes, dtype=np.int64).tolist()
    numbers = numbers.copy()  # A function may write into the arrays of the rows.
    spans = zip([0, *ends], ends, array.is_valid().to_pylist(), strict=False)
    return objects([numbers[start:end] if valid else None for start, end, valid in spans])


def _cell(row: list[Any], inner: Any) -> Array:
    """Returns one row of a list column that has nulls within lists, as an array of objects with None."""
    return objects(row) if None in row else np.asarray(row, dtype=inner.to_pandas_dtype())


# -- to Python values ---------------------------------------------------------------------------------------------------
def values_of(column: Any, name: str) -> list[Any]:
    """Returns a Python value for each row. A row with several dimensions is an array."""
    if isinstance(column, np.ndarray):
        if column.ndim > 1:
            return [row.copy() for row in column]
        return python_values(as_arrow(column, name), name) if column.dtype.kind in "Mm" else list(column.tolist())
    if isinstance(column.type, pa.FixedShapeTensorType):
        return list(as_numpy(column, name))
    return python_values(column, name)


def python_values(column: Any, name: str) -> list[Any]:
    """Returns an Arrow column's values. ValueError names a column of times that Python's types would truncate."""
    kind = column.type
    if column.null_count == 0 and _types.is_plain_number(kind) and not pa.types.is_float16(kind):
        return list(np.asarray(_types.combined(column).to_numpy(zero_copy_only=False)).tolist())
    for leaf in _times_of_nanoseconds(_types.combined(column)) if _types.contains(kind, _is_time_of_nanoseconds) else ():
        if (leaf.cast(pa.int64()).drop_null().to_numpy() % 1000).any():
            raise _no_python(name, kind, "datetime.time has no nanoseconds")
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError) as error:
        raise _no_python(name, kind, error) from error


def _no_python(name: str, kind: Any, why: object) -> ValueError:
    return ValueError(
        f"the column {name!r} holds a value of {kind} that Python's types do not hold ({why}); "
        "use batch_format='pyarrow', or cast the column"
    )


def _is_time_of_nanoseconds(kind: Any) -> bool:
    return bool(kind == pa.time64("ns"))


def _times_of_nanoseconds(array: Any) -> Iterator[Any]:
    """Yields the arrays of times in nanoseconds, also within lists and structs."""
    kind = array.type
    if _is_time_of_nanoseconds(kind):
        yield array
    elif pa.types.is_struct(kind):
        for part in array.flatten():
            yield from _times_of_nanoseconds(part)
    elif pa.types.is_map(kind):
        yield from _times_of_nanoseconds(array.keys)
        yield from _times_of_nanoseconds(array.items)
    elif pa.types.is_dictionary(kind):
        yield from _times_of_nanoseconds(array.dictionary)
    elif _types.is_extension(kind):
        yield from _times_of_nanoseconds(array.storage)
    elif pa.types.is_nested(kind):
        yield from _times_of_nanoseconds(array.flatten())


# -- to pandas ----------------------------------------------------------------------------------------------------------
def as_series(column: Any, name: str, *, nullable: bool = True) -> Any:
    """Returns a column for a DataFrame. Integers and booleans have pandas' masked types where the column may hold nulls."""
    import pandas

    if isinstance(column, np.ndarray):
        return column if column.ndim == 1 else pandas.Series(objects(list(column)), dtype=object)
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        if not nullable:
            return as_numpy(column, name, nullable=False)
        masked = {"b": "boolean", "u": f"UI{str(kind)[2:]}", "i": f"I{str(kind)[1:]}"}[str(kind)[0]]
        return column.to_pandas(types_mapper={kind: pandas.api.types.pandas_dtype(masked)}.get)
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_nested(inner) or pa.types.is_time(inner) or _types.is_extension(inner) or _is_interval(inner):
        return pandas.Series(objects(list(as_numpy(column, name))), dtype=object)
    return column.to_pandas()


# -- to Arrow -----------------------------------------------------------------------------------------------------------
def as_arrow(column: Any, name: str) -> Any:
    """Returns the column as an Arrow array. TypeError names a column with a value that has no Arrow type."""
    if not isinstance(column, np.ndarray):
        return column
    values_column = column_of(column.tolist(), name) if column.ndim == 1 and column.dtype == object else column
    if not isinstance(values_column, np.ndarray):
        return values_column
    try:
        if values_column.ndim > 1:
            return pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(_native(values_column, name)))
        return pa.array(_native(values_column, name) if values_column.dtype.kind != "U" else values_column.tolist())
    except (pa.ArrowException, OverflowError, NotImplementedError) as error:
        held = type(values_column[0]).__name__ if len(values_column) and values_column.ndim == 1 else values_column.dtype
        raise TypeError(f"the column {name!r} holds {held}, which Arrow has no type for: {error}") from error


def _native(array: Array, name: str) -> Array:
    """Returns the array in this machine's byte order, with dates and durations in a unit that Arrow supports."""
    if array.dtype.kind in "Mm":
        unit, count = np.datetime_data(array.dtype)
        target = (_UNITS_OF_DATES if array.dtype.kind == "M" else _UNITS_OF_DURATIONS).get(unit, unit)
        if array.dtype.kind == "m" and unit in ("Y", "M"):
            raise TypeError(f"the column {name!r} holds {array.dtype}, whose length is not fixed; convert it to days or seconds")
        if (target, 1) != (unit, count):
            array = array.astype(f"{array.dtype.kind}8[{target}]")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def of_masked(array: np.ma.MaskedArray[Any, Any], name: str) -> Any:
    """Returns the column of a masked array, with null for masked values."""
    mask = np.ma.getmaskarray(array)
    if array.ndim > 1:
        if mask.any():
            raise TypeError(f"the column {name!r} is a masked array of {array.ndim} dimensions; fill it: array.filled(value)")
        return array.data
    if array.dtype.kind in "OU":
        return column_of(
            [None if masked else value for value, masked in zip(array.data.tolist(), mask.tolist(), strict=True)], name
        )
    return pa.array(_native(array.data, name), mask=mask)


def of_series(series: Any, name: str) -> Any:
    """Returns the column of a pandas Series."""
    if not isinstance(series.dtype, np.dtype):
        try:
            return pa.array(series, from_pandas=True)
        except pa.ArrowException:
            return objects(series.tolist())
    return column_of(without_gaps(series.tolist()), name) if series.dtype == object else series.to_numpy()


def without_gaps(values: list[Any]) -> list[Any]:
    """Returns the values of a pandas column of objects, with None for NaT and NA. NaN becomes None unless the column holds
    floats."""
    kinds = set(map(type, values)) - {type(None)}
    if kinds <= {str, bytes}:
        return values
    import pandas

    only_floats = all(issubclass(kind, float | np.floating) for kind in kinds)
    gaps = (value is pandas.NaT or value is pandas.NA or (not only_floats and is_nan(value)) for value in values)
    return [None if gap else value for value, gap in zip(values, gaps, strict=True)]


def is_nan(value: Any) -> bool:
    return isinstance(value, float | np.floating) and bool(np.isnan(value))
