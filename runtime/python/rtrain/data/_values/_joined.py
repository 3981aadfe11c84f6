"""Concatenates columns of the same name."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rtrain.data._values import _types
from rtrain.data._values._columns import as_arrow, as_numpy
from rtrain.data._values._python import objects

Array = np.ndarray[Any, Any]


def joined(name: str, columns: Sequence[Any], origins: Sequence[str]) -> Any:
    """Returns one column. NumPy arrays of one type and shape, and Arrow columns, keep their kind.

    TypeError names the column, the types and the files (`origins`) if no common type exists.
    """
    kind = getattr(columns[0], "type", None)
    if kind is not None and all(getattr(column, "type", None) == kind for column in columns):
        return pa.chunked_array([chunk for column in columns for chunk in _chunks(column)], kind)
    if all(isinstance(column, np.ndarray) for column in columns):
        return _arrays(name, columns, origins)
    if any(_has_no_arrow_type(column) for column in columns) or len(_tensor_types(columns)) > 1:
        return _rows(name, [as_numpy(column, name) for column in columns], origins)
    return _arrow(name, [as_arrow(column, name) for column in columns], origins)


def _has_no_arrow_type(column: Any) -> bool:
    """Returns True for arrays of several dimensions, and for objects that Arrow cannot hold."""
    if not isinstance(column, np.ndarray):
        return False
    if column.ndim > 1 or column.dtype.kind == "c":
        return True
    return column.dtype == object and type_of(column) is object


def _tensor_types(columns: Sequence[Any]) -> set[Any]:
    types = {None if isinstance(column, np.ndarray) else column.type for column in columns}
    return {kind for kind in types if isinstance(kind, pa.FixedShapeTensorType)}


def type_of(column: Any) -> Any:
    """Returns a column's Arrow type; `object` for arrays of several dimensions and for objects that Arrow cannot hold.

    In an array of objects, the first object that is not None decides.
    """
    if not isinstance(column, np.ndarray):
        return column.type
    if column.ndim > 1:
        return object
    if column.dtype != object:
        return _types.of_dtype(column.dtype) or object
    first = next((value for value in column if value is not None), None)
    if isinstance(first, np.ndarray):
        return object
    try:
        return pa.array([first]).type
    except (pa.ArrowException, OverflowError):
        return object


def _arrays(name: str, arrays: Sequence[Array], origins: Sequence[str]) -> Any:
    if len({array.shape[1:] for array in arrays}) > 1:
        return _rows(name, arrays, origins)
    dtypes = {array.dtype for array in arrays}
    kinds = {dtype.kind for dtype in dtypes}
    unlike = kinds == {"O"} and len({type_of(array) for array in arrays} - {pa.null()}) > 1
    if (len(dtypes) == 1 or (len(kinds) == 1 and kinds <= set("US"))) and not unlike:
        return np.concatenate(arrays)
    if "O" in kinds or "c" in kinds:
        return _rows(name, arrays, origins)
    whole = _arrow(name, [as_arrow(array.reshape(-1), name) for array in arrays], origins)
    if arrays[0].ndim == 1 and whole.null_count:
        return whole
    return as_numpy(whole, name, nullable=bool(whole.null_count)).reshape(-1, *arrays[0].shape[1:])


def _rows(name: str, arrays: Sequence[Array], origins: Sequence[str]) -> Any:
    """Returns arrays of different shapes, or without an Arrow type, as an array of objects. Arrays of numbers with one shape
    become one array."""
    cells = [array.ndim > 1 or (array.dtype == object and type_of(array) is object) or _is_empty(array) for array in arrays]
    if not all(cells):
        if any(cells):
            raise _no_common_type(name, [_described(array) for array in arrays], origins)
        return _arrow(name, [as_arrow(array, name) for array in arrays], origins)
    shapes = {array.shape[1:] for array in arrays}
    dtypes = {array.dtype for array in arrays}
    if len(shapes) == 1 and len(dtypes) == 1:
        return np.concatenate(arrays)
    return objects([value for array in arrays for value in array])


def _is_empty(array: Array) -> bool:
    return array.dtype == object and all(value is None for value in array)


def _described(array: Array) -> str:
    kind = type_of(array)
    if kind is not object:
        return str(kind)
    return f"{array.dtype} of shape {array.shape[1:]}" if array.ndim > 1 else f"values of type {type(array[0]).__name__}"


def _arrow(name: str, arrays: Sequence[Any], origins: Sequence[str]) -> Any:
    chunks = [chunk for array in arrays for chunk in _chunks(array)]
    kinds = list(dict.fromkeys(array.type for array in arrays))
    if len(kinds) == 1:
        return pa.chunked_array(chunks, kinds[0])
    kind = functools.reduce(lambda left, right: None if left is None else _types.common(left, right), kinds)
    if kind is None:
        raise _no_common_type(name, [str(array.type) for array in arrays], origins)
    try:
        return pa.chunked_array([_types.cast(chunk, kind) for chunk in chunks], kind)
    except pa.ArrowException as error:
        raise _no_common_type(name, [str(array.type) for array in arrays], origins, f": {error}") from error


def _chunks(array: Any) -> list[Any]:
    return list(array.chunks) if isinstance(array, pa.ChunkedArray) else [array]


def _no_common_type(name: str, kinds: Sequence[str], origins: Sequence[str], why: str = "") -> TypeError:
    by_kind: dict[str, str] = {}
    for kind, origin in zip(kinds, origins, strict=True):
        by_kind.setdefault(kind, origin)
    held = " and ".join(f"{kind} ({origin})" if origin else kind for kind, origin in by_kind.items())
    return TypeError(
        f"the column {name!r} holds {held} in different rows, and no type holds all of their values{why}; convert it to one type"
    )
