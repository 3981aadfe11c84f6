"""Columns of more than 2 GiB of texts, bytes or lists. Arrow counts the bytes of such an array in 32 bits, so these columns
consist of several chunks of the same type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from rtrain.data._arrow._lengths import lengths

LIMIT = (1 << 31) - 1  # bytes of one array
_CHUNK = 1 << 28  # bytes of a chunk that this module creates


def is_long(column: Any) -> bool:
    """Returns True if Arrow cannot make one array of a column."""
    return isinstance(column, pa.ChunkedArray) and column.num_chunks > 1 and column.nbytes > LIMIT


def take(column: Any, places: np.ndarray[Any, Any]) -> Any:
    """Returns the entries of a long column at these places, in chunks that Arrow can make."""
    chunks, places = column.chunks, places.astype(np.int64)
    sizes = np.concatenate([lengths(chunk) for chunk in chunks])
    starts = np.concatenate([[0], np.cumsum([len(chunk) for chunk in chunks])])
    until = np.cumsum(sizes[places])
    new_chunks, start = [], 0
    while start < len(places):
        before = 0 if start == 0 else int(until[start - 1])
        stop = max(start + 1, int(np.searchsorted(until, before + min(_CHUNK, LIMIT), side="right")))
        new_chunks.append(_chunk(chunks, starts, places[start:stop]))
        start = stop
    return pa.chunked_array(new_chunks, type=column.type)


def _chunk(chunks: list[Any], starts: np.ndarray[Any, Any], places: np.ndarray[Any, Any]) -> Any:
    """Returns one array of the entries at `places`, which together take less than LIMIT bytes."""
    chunk_of = np.searchsorted(starts, places, side="right") - 1
    order = np.argsort(chunk_of, kind="stable")
    parts = []
    for number in np.unique(chunk_of):
        of_chunk = order[np.searchsorted(chunk_of[order], number) : np.searchsorted(chunk_of[order], number, side="right")]
        parts.append(chunks[number].take(pa.array(places[of_chunk] - starts[number])))
    back = np.empty(len(places), dtype=np.int64)
    back[order] = np.arange(len(places))
    return pa.concat_arrays(parts).take(pa.array(back))
