"""Makes columns of Python values. They are the results of functions for rows, or the argument of `from_items`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rtrain.data._values import _types

_WHOLE = (int, np.integer)
_NUMBERS = (int, float, complex, np.number)


def column_of(values: Sequence[Any], name: str) -> Any:
    """Returns an Arrow column, or a NumPy array for arrays of one shape and for values that Arrow cannot hold.

    ValueError names a column of integers and floats if float64 cannot hold one of the integers.
    """
    kinds = set(map(type, values)) - {type(None)}
    if not kinds <= _PLAIN:
        values = [value if type(value) in _PLAIN else _as_value(value) for value in values]
        kinds = set(map(type, values)) - {type(None)}
    if kinds == {int}:
        return _of_integers(values)
    if kinds == {float}:
        return pa.array(values, pa.float64())
    if kinds and all(issubclass(kind, np.ndarray) for kind in kinds):
        return _of_arrays(values)
    if kinds and all(issubclass(kind, np.datetime64 | np.timedelta64) for kind in kinds):
        dtypes = {value.dtype for value in values if value is not None}
        return np.array(values, dtypes.pop()) if len(dtypes) == 1 else _inferred(values)
    if kinds and bool not in kinds and all(issubclass(kind, _NUMBERS) for kind in kinds):
        return _of_numbers(values, kinds, name)
    return _inferred(values)


_PLAIN = {type(None), bool, int, float, str, bytes}


def _as_value(value: Any) -> Any:
    if hasattr(value, "detach") and hasattr(value, "numpy"):
        return value.numpy(force=True)
    return None if value is np.ma.masked else value


def objects(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    array = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        array[place] = value
    return array


def _of_arrays(values: Sequence[Any]) -> Any:
    if len({None if value is None else (value.shape, value.dtype) for value in values}) == 1:
        return np.stack(values)
    return objects(values)


def _of_numbers(values: Sequence[Any], kinds: set[type], name: str) -> Any:
    if len(kinds) == 1 and issubclass(next(iter(kinds)), np.generic):
        kind = _types.of_dtype(np.dtype(next(iter(kinds))))
        return np.asarray(values) if kind is None else pa.array(values, kind)
    if all(issubclass(kind, _WHOLE) for kind in kinds):
        return _of_integers(values)
    if any(issubclass(kind, complex | np.complexfloating) for kind in kinds):
        return objects(values) if None in values else np.asarray(values)
    wrong = next((value for value in values if isinstance(value, _WHOLE) and int(float(value)) != int(value)), None)
    if wrong is not None:
        raise ValueError(
            f"the column {name!r} has integers and floats, and float64 does not hold the integer {wrong} exactly; give all rows one type"
        )
    return pa.array([None if value is None else float(value) for value in values], pa.float64())


def _of_integers(values: Sequence[Any]) -> Any:
    whole = values
    if not set(map(type, values)) <= {int, type(None)}:
        whole = [None if value is None else int(value) for value in values]
    for kind in (pa.int64(), pa.uint64()):
        try:
            return pa.array(whole, kind)
        except (OverflowError, pa.ArrowException):
            continue
    return objects(values)


def _inferred(values: Sequence[Any]) -> Any:
    """Returns Arrow's conversion of the values if it keeps all of them. Arrow truncates nanoseconds, and drops the time of day
    if dates and times are mixed."""
    try:
        array = pa.array(values)
        if not _types.contains(array.type, pa.types.is_temporal) or same_values(array.to_pylist(), values):
            return array
        finer = pa.array(values, _of_nanoseconds(array.type))
        return finer if same_values(finer.to_pylist(), values) else objects(values)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return objects(values)


def _of_nanoseconds(kind: Any) -> Any:
    """Returns the type with nanoseconds for timestamps and durations, also within lists and structs."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ns", kind.tz)
    if pa.types.is_duration(kind):
        return pa.duration("ns")
    if pa.types.is_list(kind):
        return pa.list_(_of_nanoseconds(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _of_nanoseconds(field.type)) for field in map(kind.field, range(kind.num_fields))])
    return kind


def same_values(converted: Any, given: Any) -> bool:
    """Returns True if the values are equal, including nested values. NaN equals NaN."""
    if isinstance(given, list | tuple) and isinstance(converted, list | tuple):
        return len(converted) == len(given) and all(itertools.starmap(same_values, zip(converted, given, strict=True)))
    if isinstance(given, dict) and isinstance(converted, dict):
        return converted.keys() >= given.keys() and all(same_values(value, given.get(key)) for key, value in converted.items())
    if isinstance(given, np.ndarray) or isinstance(converted, np.ndarray):
        return same_values(list(converted), list(given)) if len(converted) == len(given) else False
    if isinstance(converted, float | np.floating) and isinstance(given, float | np.floating):
        return bool(converted == given or (np.isnan(converted) and np.isnan(given)))
    same = converted is given or converted == given
    return bool(same) and isinstance(converted, str) == isinstance(given, str)
