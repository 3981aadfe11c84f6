"""Converts the results of users' functions to columns. Unchanged columns keep their Arrow type, because NumPy, pandas and
Python have fewer types than Arrow."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rtrain.data._values import _types
from rtrain.data._values._columns import as_arrow, as_numpy, as_series, of_masked, of_series, values_of, without_gaps
from rtrain.data._values._python import column_of, objects, same_values

Array = np.ndarray[Any, Any]


def cells_before(column: Any, array: Any) -> Array | None:
    """Returns the objects of a column before a function runs, to compare them with its result. Returns None if they are not
    needed.

    If a cell can be changed in place, like a list, a comparison of objects does not detect changes. Such a column is converted
    again.
    """
    if column.type.id in _types.GO_BACK or _types.is_changeable(column.type):
        return None
    values = array if isinstance(array, np.ndarray) else array.to_numpy() if array.dtype == object else None
    return values.copy() if values is not None and values.dtype == object else None


def array_after(old: Any, array: Array, cells: Array | None, name: str) -> Any:
    """Returns the column for an array that a function returned under the name of the Arrow column `old`.

    Returns `old` itself if the function changed nothing. Otherwise keeps the old type if all values fit it.
    """
    kind = old.type
    if kind.id in _types.GO_BACK and type(array) is np.ndarray and array.dtype != object and not old.null_count:
        return array
    if isinstance(array, np.ma.MaskedArray):
        column = of_masked(array, name)
        return old if pa.types.is_dictionary(kind) and _types.combined(old).dictionary_decode().equals(column) else column
    if array.dtype == object and array.ndim == 1:
        return _objects_after(old, array, cells, name)
    if pa.types.is_timestamp(kind) and kind.tz is not None and array.dtype.kind == "M" and array.ndim == 1:
        return _with_zone(array, kind, name)
    if len(array) != len(old):
        return array
    before = as_numpy(old, name)
    return old if before.dtype == array.dtype and before.shape == array.shape and _same_bits(before, array) else array


def _with_zone(array: Array, kind: Any, name: str) -> Any:
    """Returns the times with the column's zone. NumPy has no zones, so the function received UTC."""
    times = as_arrow(array, name)
    if pa.types.is_date(times.type):
        times = times.cast(pa.timestamp("s"))
    return pa.Array.from_buffers(
        pa.timestamp(times.type.unit, kind.tz), len(times), times.buffers(), times.null_count, times.offset
    )


def _objects_after(old: Any, array: Array, cells: Array | None, name: str) -> Any:
    kind = old.type
    if not len(array) or (array[0] is None and all(value is None for value in array)):
        return _types.nulls(len(array), kind)
    if kind == pa.string():
        return array  # The array is converted back to the same type.
    if cells is not None and len(cells) == len(array) and (_pointers(cells) == _pointers(array)).all():
        return old
    if _types.is_changeable(kind) and len(array) == len(old):
        return _nested_after(old, array.tolist(), name)
    return _of_old_type(array.tolist(), column_of(array.tolist(), name), kind)


def _nested_after(old: Any, values: list[Any], name: str) -> Any:
    """Returns a column of lists or structs. Values of the old type keep it; others are compared one by one."""
    column = column_of(values, name)
    if not isinstance(column, np.ndarray) and column.type == old.type:
        return column
    return old if same_values(values_of(old, name), values) else column


def _of_old_type(values: Sequence[Any], column: Any, kind: Any) -> Any:
    """Returns a column of texts, bytes, decimals or times in the column's old type, if the values fit it."""
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    for family in (pa.types.is_temporal, _types.is_text, _types.is_bytes, pa.types.is_decimal):
        if (
            not isinstance(column, np.ndarray)
            and family(inner)
            and family(column.type)
            and _types.common(column.type, inner) is not None
        ):
            with contextlib.suppress(pa.ArrowException):
                return _types.cast(column, inner) if family is pa.types.is_temporal else pa.array(values, inner)
    return column


def _pointers(array: Array) -> Array:
    return np.frombuffer(np.ascontiguousarray(array), np.intp)


def _same_bits(left: Array, right: Array) -> bool:
    """Returns True if the arrays are equal. NaN equals NaN with the same bits."""
    buffers = [pa.py_buffer(np.ascontiguousarray(array).reshape(-1).view(np.uint8)) for array in (left, right)]
    return bool(buffers[0].equals(buffers[1]))


def series_after(old: Any, series: Any, cells: Array | None, name: str) -> Any:
    """Returns the column for a pandas Series that a function returned under the name of the Arrow column `old`."""
    kind, dtype = old.type, series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        return array_after(old, series.to_numpy(), None, name)
    if isinstance(dtype, np.dtype):
        array = series.to_numpy()
        if cells is not None and len(cells) == len(array) and (_pointers(cells) == _pointers(array)).all():
            return old
        return _objects_after(old, objects(without_gaps(array.tolist())), None, name)
    column = of_series(series, name)
    if isinstance(column, np.ndarray) or column.type == kind:
        return column
    if _types.is_text(kind) and _types.is_text(column.type):
        return _types.cast_column(column, kind, name)
    before = as_series(old, name)
    return old if len(old) == len(series) and series.dtype == before.dtype and series.array.equals(before.array) else column


def values_after(old: Any, values: Sequence[Any], given: Sequence[Any], name: str) -> Any:
    """Returns the column for the values that a function returned for rows, where `given` are the values of the column `old`."""
    if isinstance(old, np.ndarray) and old.dtype.kind not in "Mm":
        return column_of(values, name)  # Integers become Arrow's integers in every piece, because another piece may hold None.
    old = as_arrow(old, name)
    kind = old.type
    places = _places(values, given)
    if places is not None and not _types.is_changeable(kind):
        return _at(old, places, len(given))
    column = column_of(values, name)
    if not isinstance(column, np.ndarray) and column.type == kind:
        return column
    if places is not None and same_values(values_of(old, name), given):
        return _at(old, places, len(given))
    if isinstance(column, np.ndarray):
        return column
    if pa.types.is_null(column.type):
        return _types.nulls(len(values), kind)
    return _of_old_type(values, column, kind)


def _places(values: Sequence[Any], given: Sequence[Any]) -> Sequence[int] | None:
    """Returns for each value the index of the same object in `given`; None if a value is a new object."""
    if len(values) == len(given) and all(map(operator.is_, values, given)):
        return range(len(given))
    place_of = {id(value): place for place, value in enumerate(given)}
    places = []
    for value in values:
        place = place_of.get(id(value))
        if place is None:
            return None
        places.append(place)
    return places


def _at(old: Any, places: Sequence[int], rows: int) -> Any:
    return old if places == range(rows) else _types.take(old, np.array(places, dtype=np.int64))
