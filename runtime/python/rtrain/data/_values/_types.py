"""Arrow types: finds a common type of two, and casts without changed values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rtrain.data._arrow import _long

_UNITS = ("s", "ms", "us", "ns")
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}  # bits -> the most decimal digits of such an integer


def is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_plain_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def is_text(kind: Any) -> bool:
    return kind in (pa.string(), pa.large_string()) or str(kind) == "string_view"


def is_bytes(kind: Any) -> bool:
    return kind in (pa.binary(), pa.large_binary()) or bool(pa.types.is_fixed_size_binary(kind)) or str(kind) == "binary_view"


def is_extension(kind: Any) -> bool:
    return isinstance(kind, pa.BaseExtensionType)


_WHOLE = [pa.bool_(), *(getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64))]
_FLOATS = [pa.float16(), pa.float32(), pa.float64()]
WHOLE = frozenset(kind.id for kind in _WHOLE)  # ids, which are compared faster than types
GO_BACK = frozenset(
    kind.id for kind in [*_WHOLE, *_FLOATS, pa.string()]
)  # NumPy converts these types back to the same Arrow type
DIRECT = frozenset(  # pyarrow converts these types to NumPy arrays without changed values
    kind.id
    for kind in [*_FLOATS, pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.timestamp("s"), pa.duration("s")]
)


def is_changeable(kind: Any) -> bool:
    """Returns true if a Python value of the type can be changed in place: a list, a dict, an array."""
    inner = kind.storage_type if is_extension(kind) else kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_nested(inner))


def contains(kind: Any, wanted: Callable[[Any], bool]) -> bool:
    """Returns True if `wanted` holds for the type or for a type within it."""
    if wanted(kind):
        return True
    if is_extension(kind):
        return contains(kind.storage_type, wanted)
    if pa.types.is_dictionary(kind):
        return contains(kind.value_type, wanted)
    if pa.types.is_map(kind):
        return contains(kind.key_type, wanted) or contains(kind.item_type, wanted)
    return (
        any(contains(kind.field(place).type, wanted) for place in range(kind.num_fields)) if pa.types.is_nested(kind) else False
    )


def nulls(rows: int, kind: Any) -> Any:
    return pa.nulls(rows, kind)


def combined(column: Any) -> Any:
    """Returns one Arrow array. A single chunk is not copied."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    chunk = column.combine_chunks()
    return pa.concat_arrays(chunk.chunks) if isinstance(chunk, pa.ChunkedArray) else chunk


def take(column: Any, places: np.ndarray[Any, Any]) -> Any:
    """Returns the rows of an Arrow column at these places."""
    if is_extension(column.type):
        array = combined(column)
        return pa.ExtensionArray.from_storage(array.type, array.storage.take(pa.array(places)))
    return _long.take(column, places) if _long.is_long(column) else column.take(pa.array(places))


# -- one type for two ---------------------------------------------------------------------------------------------------
def common(left: Any, right: Any) -> Any | None:
    """Returns the type to which the values of both types can be converted unchanged; None if there is none.

    Integers and floats become float64. Signed and unsigned integers of 64 bits become int64. The cast fails for a value that
    does not fit. Text never becomes bytes, and a time with a zone never loses it.
    """
    if left == right:
        return left
    if pa.types.is_null(left) or pa.types.is_null(right):
        return right if pa.types.is_null(left) else left
    for kind, counterpart in ((left, right), (right, left)):
        if pa.types.is_dictionary(kind):
            return common(kind.value_type, counterpart.value_type if pa.types.is_dictionary(counterpart) else counterpart)
    if is_extension(left) or is_extension(right):
        return None
    for both in (_numbers, _texts, _times, _lists, _structs):
        merged = both(left, right)
        if merged is not None:
            return merged
    return None


def _numbers(left: Any, right: Any) -> Any | None:
    integers = [pa.types.is_integer(kind) for kind in (left, right)]
    floats = [pa.types.is_floating(kind) for kind in (left, right)]
    decimals = [pa.types.is_decimal(kind) for kind in (left, right)]
    if all(integers):
        return _integers(left, right)
    if all(floats):
        return max(left, right, key=lambda kind: int(kind.bit_width))
    if any(integers) and any(floats):
        return pa.float64()
    if any(decimals) and all(decimal or integer for decimal, integer in zip(decimals, integers, strict=True)):
        return _decimals(left, right)
    return None


def _integers(left: Any, right: Any) -> Any:
    if pa.types.is_signed_integer(left) == pa.types.is_signed_integer(right):
        return max(left, right, key=lambda kind: int(kind.bit_width))
    signed, unsigned = (left, right) if pa.types.is_signed_integer(left) else (right, left)
    width = max(signed.bit_width, min(64, unsigned.bit_width * 2))
    return {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[width]


def _decimals(left: Any, right: Any) -> Any | None:
    shapes = [
        (kind.precision, kind.scale) if pa.types.is_decimal(kind) else (_DIGITS[kind.bit_width], 0) for kind in (left, right)
    ]
    scale = max(scale for _, scale in shapes)
    precision = scale + max(digits - scale for digits, scale in shapes)
    large = precision > 38 or any(pa.types.is_decimal256(kind) for kind in (left, right))
    if precision > 76:
        return None
    return pa.decimal256(precision, scale) if large else pa.decimal128(precision, scale)


def _texts(left: Any, right: Any) -> Any | None:
    if is_text(left) and is_text(right):
        return pa.string() if left == right == pa.string() else pa.large_string()
    if is_bytes(left) and is_bytes(right):
        fixed = all(pa.types.is_fixed_size_binary(kind) or kind == pa.binary() for kind in (left, right))
        return pa.binary() if fixed else pa.large_binary()
    return None


def _times(left: Any, right: Any) -> Any | None:
    if pa.types.is_date(left) and pa.types.is_date(right):
        return pa.date64()
    if pa.types.is_time(left) and pa.types.is_time(right):
        unit = _finer(left, right)
        return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    if pa.types.is_duration(left) and pa.types.is_duration(right):
        return pa.duration(_finer(left, right))
    if pa.types.is_timestamp(left) and pa.types.is_timestamp(right) and left.tz == right.tz:
        return pa.timestamp(_finer(left, right), left.tz)
    return None


def _finer(left: Any, right: Any) -> str:
    return _UNITS[max(_UNITS.index(left.unit), _UNITS.index(right.unit))]


def _lists(left: Any, right: Any) -> Any | None:
    if pa.types.is_map(left) and pa.types.is_map(right):
        key, item = common(left.key_type, right.key_type), common(left.item_type, right.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if not (is_list(left) and is_list(right)):
        return None
    inner = common(left.value_type, right.value_type)
    if inner is None:
        return None
    sizes = {kind.list_size if pa.types.is_fixed_size_list(kind) else None for kind in (left, right)}
    if len(sizes) == 1 and None not in sizes:
        return pa.list_(inner, sizes.pop())
    return pa.large_list(inner) if pa.types.is_large_list(left) or pa.types.is_large_list(right) else pa.list_(inner)


def _structs(left: Any, right: Any) -> Any | None:
    if not (pa.types.is_struct(left) and pa.types.is_struct(right)):
        return None
    by_name: dict[str, Any] = {}
    for kind in (left, right):
        for place in range(kind.num_fields):
            field = kind.field(place)
            merged = common(by_name[field.name], field.type) if field.name in by_name else field.type
            if merged is None:
                return None
            by_name[field.name] = merged
    if len(by_name) < max(left.num_fields, right.num_fields):
        return None  # two fields have the same name
    return pa.struct(list(by_name.items()))


# -- casts --------------------------------------------------------------------------------------------------------------
def cast(array: Any, kind: Any) -> Any:
    """Returns the Arrow array as this type. ArrowInvalid if the type does not hold a value exactly."""
    if array.type == kind:
        return array
    if isinstance(array, pa.ChunkedArray):
        return pa.chunked_array([cast(chunk, kind) for chunk in array.chunks], kind)
    if pa.types.is_null(array.type):
        return nulls(len(array), kind)
    if pa.types.is_dictionary(array.type) and not pa.types.is_dictionary(kind):
        return cast(array.dictionary_decode(), kind)
    if pa.types.is_struct(array.type) and pa.types.is_struct(kind):
        return _cast_struct(array, kind)
    return pc.cast(array, kind, safe=True)


def _cast_struct(array: Any, kind: Any) -> Any:
    names = [array.type.field(place).name for place in range(array.type.num_fields)]
    parts = dict(zip(names, array.flatten(), strict=True))
    fields = [kind.field(place) for place in range(kind.num_fields)]
    columns = [cast(parts[field.name], field.type) if field.name in parts else nulls(len(array), field.type) for field in fields]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=array.is_null())


def cast_column(column: Any, kind: Any, name: str) -> Any:
    """Returns the Arrow column as this type. TypeError names the column and both types where a value would change."""
    try:
        return cast(column, kind)
    except pa.ArrowException as error:
        raise TypeError(
            f"the column {name!r} holds {column.type} in some rows and {kind} in others, which does not hold all of its values: {error}; "
            "convert the column to one type"
        ) from error


def of_dtype(dtype: np.dtype[Any]) -> Any | None:
    """Returns the Arrow type of a NumPy type; None if there is none, or if it depends on the values."""
    if dtype.kind == "U":
        return pa.string()
    try:
        return None if dtype.kind == "O" else pa.from_numpy_dtype(dtype)
    except (pa.ArrowNotImplementedError, TypeError):
        return None
