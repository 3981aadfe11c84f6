"""Computes the decoded bytes of an Arrow array's entries: for texts of a dictionary, the bytes of the texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Sizes = np.ndarray[Any, Any]
OFFSET = 4  # bytes that Arrow holds beside each text and each list


def lengths(array: Any) -> Sizes:
    """Returns how many bytes each entry of an Arrow array takes when it is decoded."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return lengths(array.storage)
    if pa.types.is_dictionary(kind):
        entries = lengths(array.dictionary)
        places = array.indices.fill_null(0).to_numpy(zero_copy_only=False)
        return entries[places] if len(entries) else np.zeros(len(array), dtype=np.int64)
    if pa.types.is_struct(kind):
        return np.asarray(sum((lengths(array.field(place)) for place in range(kind.num_fields)), np.zeros(len(array), np.int64)))
    if pa.types.is_map(kind):
        return _summed(lengths(array.keys) + lengths(array.items), array.offsets)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _summed(lengths(array.values), array.offsets)
    if pa.types.is_fixed_size_list(kind):
        inner = lengths(array.values).reshape(-1, kind.list_size) if kind.list_size else np.zeros((len(array), 0), np.int64)
        return np.asarray(inner.sum(axis=1)[array.offset : array.offset + len(array)])
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return np.asarray(pc.binary_length(array).fill_null(0).to_numpy(zero_copy_only=False)).astype(np.int64) + OFFSET
    try:
        width = 0 if pa.types.is_null(kind) else max(1, kind.bit_width // 8)
    except ValueError:  # views of texts and of lists
        width = -(-int(array.nbytes) // max(1, len(array)))
    return np.full(len(array), width, dtype=np.int64)


def _summed(inner: Sizes, offsets: Any) -> Sizes:
    """Returns the sums of `inner` between neighbouring offsets."""
    places = offsets.to_numpy()
    until = np.concatenate([[0], np.cumsum(inner)])
    return np.asarray(until[places[1:]] - until[places[:-1]]) + OFFSET
