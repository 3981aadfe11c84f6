"""The arithmetic of packing: computes the parts of documents in each row, and fills arrays with them."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from rtrain.data import _block
from rtrain.data._block import Block
from rtrain.data._values import _types

Array = np.ndarray[Any, Any]


class Part(NamedTuple):
    """Tokens `start` to `stop` of one document. Positions count the tokens of all documents together."""

    start: int
    stop: int


class Asked(Protocol):
    @property
    def length(self) -> int: ...
    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def padding(self) -> tuple[int, ...]: ...


def in_turn(lengths: Array, start: int, stop: int, length: int) -> list[list[Part]]:
    """Returns the parts of rows that hold the tokens `start` to `stop` of all documents in their order."""
    ends = np.cumsum(lengths)
    cuts = np.unique(np.concatenate([np.arange(start, stop, length), ends[(ends > start) & (ends < stop)], [stop]])).tolist()
    bins: list[list[Part]] = [[] for _ in range(-(-(stop - start) // length))]
    for first, last in itertools.pairwise(cuts):
        bins[(first - start) // length].append(Part(first, last))
    return bins


def best_fits(lengths: Array, length: int) -> list[list[Part]]:
    """Returns the parts of rows in which documents stay whole. Documents are placed by length, the longest first, each into the
    row with the least room that fits it.

    A document longer than a row fills whole rows, and its rest is placed like a document.
    """
    items: list[Part] = []
    start = 0
    for size in lengths.tolist():
        items += [Part(first, min(first + length, start + size)) for first in range(start, start + size, length)]
        start += size
    bins: list[list[Part]] = []
    room: list[tuple[int, int]] = []  # (free tokens, number of the row), ascending
    for item in sorted(items, key=lambda part: part.start - part.stop):
        size = item.stop - item.start
        at = bisect.bisect_left(room, (size, -1))
        free, number = room.pop(at) if at < len(room) else (length, len(bins))
        if number == len(bins):
            bins.append([])
        bins[number].append(item)
        if free > size:
            bisect.insort(room, (free - size, number))
    return sorted((sorted(parts) for parts in bins), key=lambda parts: parts[0])


def rows(tokens: Sequence[Array], bins: Sequence[Sequence[Part]], asked: Asked) -> Block:
    """Returns rows of these parts: the tokens, the number of each token's document within the row (-1: padding), and the
    token's position in its part."""
    shape = (len(bins), asked.length)
    columns = [_padded(shape, *column) for column in zip(asked.columns, asked.padding, tokens, strict=True)]
    documents = np.full(shape, -1, dtype=np.int32)
    positions = np.empty(shape, dtype=np.int32)
    counting = np.arange(asked.length, dtype=np.int32)
    for row, parts in enumerate(bins):
        at = 0
        for number, (start, stop) in enumerate(parts):
            end = at + stop - start
            for column, array in zip(columns, tokens, strict=True):
                column[row, at:end] = array[start:stop]
            documents[row, at:end] = number
            positions[row, at:end] = counting[: stop - start]
            at = end
        positions[row, at:] = counting[: asked.length - at]
    named = dict(zip(asked.columns, columns, strict=True))
    return Block({**named, "document_ids": documents, "position_ids": positions})


def _padded(shape: tuple[int, int], name: str, padding: float, tokens: Array) -> Array:
    try:
        return np.full(shape, padding, dtype=tokens.dtype)
    except OverflowError as error:
        raise ValueError(f"pack: the padding {padding} of the column {name!r} is no value of {tokens.dtype}") from error


def together(arrays: Sequence[Array]) -> Array:
    """Returns the concatenated arrays. Empty arrays are skipped, because they have no useful type."""
    filled = [array for array in arrays if len(array)] or list(arrays[:1])
    return filled[0] if len(filled) == 1 else np.concatenate(filled)


def lists(block: Block, names: Sequence[str], caller: str) -> tuple[list[Array], Array]:
    """Returns the concatenated lists of each column, and the length of each list.

    TypeError for a column without lists of numbers, ValueError for nulls and for columns whose lists differ in length.
    """
    values: list[Array] = []
    lengths: Array | None = None
    for name in names:
        flat, own = _lists(block.column(name, caller), name, caller)
        if lengths is not None and not np.array_equal(lengths, own):
            row = int(np.flatnonzero(lengths != own)[0])
            raise ValueError(f"{caller}: a row has {lengths[row]} values in {names[0]!r} and {own[row]} in {name!r}")
        values.append(flat)
        lengths = own
    assert lengths is not None
    return values, lengths


def _lists(column: Any, name: str, caller: str) -> tuple[Array, Array]:
    if isinstance(column, np.ndarray) and column.ndim == 2 and column.dtype.kind in "iuf":
        return column.reshape(-1), np.full(len(column), column.shape[1], dtype=np.int64)
    array = _types.combined(_block.as_arrow(column, name))
    if isinstance(array.type, pa.ExtensionType):
        array = array.storage
    if not _types.is_list(array.type):
        raise TypeError(f"{caller}: the column {name!r} is of type {array.type}; a row of it must be a list of numbers")
    if array.null_count:
        raise ValueError(f"{caller}: the column {name!r} holds a null; filter those rows out")
    if pa.types.is_fixed_size_list(array.type):
        lengths = np.full(len(array), array.type.list_size, dtype=np.int64)
    else:
        lengths = np.asarray(array.value_lengths().to_numpy(zero_copy_only=False)).astype(np.int64)
    flat = array.flatten()
    if flat.null_count:
        raise ValueError(f"{caller}: a list in the column {name!r} holds a null")
    if not (pa.types.is_integer(flat.type) or pa.types.is_floating(flat.type) or pa.types.is_null(flat.type)):
        raise TypeError(f"{caller}: the lists in the column {name!r} hold {flat.type}, and not numbers")
    if pa.types.is_null(flat.type):
        return np.empty(0, dtype=np.int64), lengths
    return np.asarray(flat.to_numpy(zero_copy_only=False)), lengths
