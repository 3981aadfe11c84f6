"""Tables of every Arrow type for Hypothesis, and how two of them are compared."""

from __future__ import annotations

import datetime
import decimal
import uuid

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

UNITS = ("s", "ms", "us", "ns")
ZONES = (None, "UTC", "Europe/Berlin", "+05:30")
_LIMIT = {"s": 2**31, "ms": 2**41, "us": 2**50, "ns": 2**60}  # years that the types of Python and pandas can represent


def _integers(kind) -> st.SearchStrategy:
    limits = np.iinfo(kind.to_pandas_dtype())
    return st.integers(int(limits.min), int(limits.max)) | st.sampled_from([int(limits.min), int(limits.max), 0, 1])


def _of(kind, values: st.SearchStrategy, storage=None) -> st.SearchStrategy:
    """Returns a strategy for a column type with its values. A value is sometimes None."""
    return st.tuples(st.just(kind), st.just(values), st.just(storage))


def _numbers() -> list:
    whole = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]
    floats = [(pa.float16(), 16), (pa.float32(), 32), (pa.float64(), 64)]
    large = st.integers(2**53, 2**60)  # numbers that float64 cannot represent
    return [
        *(_of(kind, _integers(kind)) for kind in whole),
        _of(pa.int64(), large),
        *(_of(kind, st.floats(width=width, allow_nan=True)) for kind, width in floats),
        _of(pa.bool_(), st.booleans()),
    ]


def _times() -> list:
    ranges = {unit: st.integers(-(_LIMIT[unit]), _LIMIT[unit]) for unit in UNITS}
    days = st.integers(-100_000, 100_000)
    return [
        *(_of(pa.timestamp(unit, zone), ranges[unit], pa.int64()) for unit in UNITS for zone in ZONES),
        *(_of(pa.duration(unit), ranges[unit], pa.int64()) for unit in UNITS),
        _of(pa.date32(), days, pa.int32()),
        _of(pa.date64(), days.map(lambda day: day * 86_400_000), pa.int64()),
        _of(pa.time32("s"), st.integers(0, 86_399), pa.int32()),
        _of(pa.time32("ms"), st.integers(0, 86_399_999), pa.int32()),
        _of(pa.time64("us"), st.integers(0, 86_399_999_999), pa.int64()),
        _of(pa.time64("ns"), st.integers(0, 86_399_999_999).map(lambda time: time * 1000), pa.int64()),
    ]


def _texts() -> list:
    text, content = st.text(max_size=4), st.binary(max_size=4)
    cents = st.integers(-(10**6), 10**6).map(lambda number: decimal.Decimal(number).scaleb(-2))
    return [
        _of(pa.string(), text),
        _of(pa.large_string(), text),
        _of(pa.binary(), content),
        _of(pa.large_binary(), content),
        _of(pa.binary(3), st.binary(min_size=3, max_size=3)),
        _of(pa.decimal128(9, 2), cents),
        _of(pa.decimal256(50, 4), cents),
        _of(pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["a", "b", "long"])),
        _of(pa.dictionary(pa.int32(), pa.int64()), st.sampled_from([2**53 + 1, 1])),
        _of(pa.null(), st.none()),
    ]


FLAT = [*_numbers(), *_times(), *_texts()]
INNER = st.one_of(
    _of(pa.int64(), _integers(pa.int64())),
    _of(pa.int16(), _integers(pa.int16())),
    _of(pa.float32(), st.floats(width=32)),
    _of(pa.string(), st.text(max_size=3)),
    _of(
        pa.timestamp("us", "UTC"),
        st.datetimes(min_value=datetime.datetime(1900, 1, 1)).map(lambda at: at.replace(tzinfo=datetime.timezone.utc)),
    ),
    _of(pa.large_binary(), st.binary(max_size=3)),
)


@st.composite
def nested(draw) -> tuple:
    inner, values, _ = draw(INNER)
    filled = values | st.none()
    pairs = st.lists(st.tuples(st.text(max_size=2), filled), max_size=2, unique_by=lambda pair: pair[0])
    return draw(
        st.one_of(
            _of(pa.list_(inner), st.lists(filled, max_size=3)),
            _of(pa.large_list(inner), st.lists(filled, max_size=3)),
            _of(pa.list_(inner, 2), st.lists(filled, min_size=2, max_size=2)),
            _of(pa.list_(inner), st.lists(values, min_size=2, max_size=2)),
            _of(
                pa.struct([("x", inner), ("y", pa.int64())]),
                st.fixed_dictionaries({"x": filled, "y": _integers(pa.int64()) | st.none()}),
            ),
            _of(pa.map_(pa.string(), inner), pairs),
            _of(pa.list_(pa.struct([("x", inner)])), st.lists(st.fixed_dictionaries({"x": filled}), max_size=2)),
        )
    )


TENSORS = st.sampled_from([(pa.float32(), [2]), (pa.int64(), [2, 2]), (pa.uint8(), [3])])


@st.composite
def column(draw, rows: int) -> pa.Array:
    """Draws an array of some type with nulls, often a slice of a longer one."""
    before, after = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    total = rows + before + after
    if draw(st.integers(0, 12)) == 0:
        inner, shape = draw(TENSORS)
        size = int(np.prod(shape))
        numbers = pa.array(draw(st.lists(st.integers(0, 99), min_size=total * size, max_size=total * size)), inner)
        storage = pa.FixedSizeListArray.from_arrays(numbers, size)
        array = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(inner, shape), storage)
    elif hasattr(pa, "uuid") and draw(st.integers(0, 30)) == 0:
        array = pa.array([uuid.UUID(int=place) for place in range(total)], pa.uuid())
    else:
        kind, values, storage = draw(st.one_of(*FLAT, nested()))
        gaps = draw(st.sampled_from(["none", "some", "all"]))
        cells = values if gaps == "none" else values | st.none() if gaps == "some" else st.none()
        array = pa.array(draw(st.lists(cells, min_size=total, max_size=total)), storage or kind)
        array = array if storage is None else array.cast(kind)
    return array.slice(before, rows)


@st.composite
def tables(draw, max_rows: int = 8) -> pa.Table:
    """Draws a table with the row numbers in `id`, one or two other columns, and chunks, some of them empty."""
    rows = draw(st.integers(0, max_rows))
    names = draw(st.sampled_from([["x"], ["x", "y"]]))
    whole = pa.table({"id": pa.array(range(rows), pa.int64()), **{name: draw(column(rows)) for name in names}})
    ends = sorted(draw(st.lists(st.integers(0, rows), max_size=3)))
    starts = [0, *ends]
    return pa.concat_tables([whole.slice(start, end - start) for start, end in zip(starts, [*ends, rows], strict=True)])


def assert_same(result: pa.Table, expected: pa.Table) -> None:
    assert result.column_names == expected.column_names
    assert result.num_rows == expected.num_rows
    for name in expected.column_names:
        left, right = result.column(name), expected.column(name)
        assert left.type == right.type, f"{name}: {left.type} is not {right.type}"
        assert _same(left, right), f"{name}: {left} is not {right}"


def _same(left, right) -> bool:
    """Returns whether two columns are equal in every bit, where all NaN are equal. For Arrow's `equals` NaN differs
    from itself.
    """
    left, right = (column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in (left, right))
    left, right = (column.chunk(0) if isinstance(column, pa.ChunkedArray) else column for column in (left, right))
    kind = left.type
    if isinstance(kind, pa.BaseExtensionType):
        return _same(left.storage, right.storage)
    if pa.types.is_dictionary(kind):
        return _same(left.dictionary_decode(), right.dictionary_decode())
    if not left.is_null().equals(right.is_null()):
        return False
    if pa.types.is_map(kind):
        return str(left.to_pylist()) == str(right.to_pylist())  # compares texts, so that NaN equals itself
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return left.value_lengths().equals(right.value_lengths()) and _same(left.flatten(), right.flatten())
    if pa.types.is_struct(kind):
        return all(_same(a, b) for a, b in zip(left.flatten(), right.flatten(), strict=True))
    if pa.types.is_floating(kind):
        a, b = (np.asarray(column.drop_null()) for column in (left, right))
        return bool(np.array_equal(a, b, equal_nan=True) and (np.isnan(a) | (np.signbit(a) == np.signbit(b))).all())
    return left.equals(right)
