"""Fast tests for values that a reader may have changed. A positive result is checked exactly elsewhere."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_EXACT = float(1 << 53)  # every integer up to here is a float
_INSIDE = rb"0-9A-Za-z.\-+:/"  # A zero after one of these bytes does not begin a value.
_NUMBER = rb"(?:[xX]|[0-9]+(?=[^0-9A-DF-Za-df-z/:\-]))"  # neither a date nor a time of day
_ZEROS = (
    re.compile(rb"0(?<=[^" + _INSIDE + rb"]0)" + _NUMBER),
    re.compile(rb"-0(?<=[^" + _INSIDE + rb"]-0)" + _NUMBER),
)
_NO_NUMBER = np.zeros(256, dtype=bool)  # letters of dates and times of day
_NO_NUMBER[list(b"/:-")] = True
CARRIED = 64  # bytes of a block that are tested again with the next block
_LAST_BEFORE = ord(",")  # Blanks, quotes and commas are at most this byte; digits and letters are above it.


def has_large_floats(column: Any) -> bool:
    """Returns True if a column, or a nested part of it, has a float that may stand for another integer."""
    if isinstance(column, pa.ChunkedArray):
        return any(has_large_floats(chunk) for chunk in column.chunks)
    if pa.types.is_struct(column.type):
        return any(has_large_floats(column.field(place)) for place in range(column.type.num_fields))
    if pa.types.is_list(column.type):
        return has_large_floats(column.values)
    if not pa.types.is_floating(column.type):
        return False
    extremes = pc.min_max(column)
    least, most = extremes["min"].as_py(), extremes["max"].as_py()
    return most is not None and bool(most >= _EXACT or least <= -_EXACT)


def has_zeros_first(content: bytes, delimiter: int) -> bool:
    """Returns True if a value of a CSV file may begin with a zero and another digit."""
    letters = np.frombuffer(content.ljust(4, b"\n"), dtype=np.uint8)
    begins = letters <= _LAST_BEFORE
    if delimiter > _LAST_BEFORE:
        begins |= letters == delimiter
    zeros = letters[1:-1] == ord("0")
    zeros &= letters[2:] >= ord("0")
    places = np.flatnonzero(begins[:-2] & zeros)
    behind = letters[np.minimum(places + 3, len(letters) - 1)]
    if not _NO_NUMBER[behind].all() and _ZEROS[0].search(content):
        return True
    if b"-0" not in content:
        return False
    begins[:-1] &= letters[1:] == ord("-")
    return bool((begins[:-3] & zeros[1:]).any()) and _ZEROS[1].search(content) is not None


def hides_zeros(delimiter: str) -> bool:
    """Returns True if `has_zeros_first` cannot work for this delimiter."""
    return re.fullmatch(b"[" + _INSIDE + b"]", delimiter.encode()) is not None
