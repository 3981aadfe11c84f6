"""Sequences packed into rows of a fixed length. The place of a row is the place of its first document, and the number of tokens
of that document, or of its window, that earlier rows have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rtrain.data._block import Block
from rtrain.data._in_streams import _fill
from rtrain.data._in_streams._fill import Array
from rtrain.data._in_streams._found import Found
from rtrain.data._in_streams._onward import Place, Reader
from rtrain.data._plan import Node, Order

DOCUMENTS, POSITIONS = "document_ids", "position_ids"
_PIECE_BYTES = 4 << 20
WINDOW = 1024  # documents that are packed together if documents stay whole
_WINDOW_ROWS = 128  # A window ends earlier if its documents fill so many rows.


@dataclass(frozen=True)
class Packing:
    """The arguments of `Dataset.pack`. padding: for each column, the value after the last token."""

    length: int
    columns: tuple[str, ...]
    padding: tuple[int, ...]
    split: bool
    drop_last: bool


class Packed(Found):
    def __init__(self, child: Node, packing: Packing) -> None:
        super().__init__((child,))
        self.packing = packing
        row_bytes = packing.length * (8 * len(packing.columns) + 8)
        self.each = max(1, min(256, _PIECE_BYTES // row_bytes))

    def names(self) -> list[str] | None:
        return [*self.packing.columns, DOCUMENTS, POSITIONS]

    def says(self) -> str:
        return f"{self.children[0].says()} -> pack({self.packing.length})"

    def of_stream(self, order: Order, stream: int, place: Place) -> Iterator[tuple[Block, Place]]:
        inner, skipped = (None, 0) if place is None else place
        documents = _Documents(self.reader(0, order, stream, inner), self.packing, self.says())
        filled = self._concatenated if self.packing.split else self._in_windows
        return filled(documents, skipped)

    def _concatenated(self, documents: _Documents, skipped: int) -> Iterator[tuple[Block, Place]]:
        """Yields rows of concatenated documents. A document that does not fit continues in the next row."""
        length, full = self.packing.length, self.packing.length * self.each
        while documents.tokens - skipped < full and documents.more():
            pass
        while documents.tokens > skipped:
            stop = min(documents.tokens, skipped + full)
            if self.packing.drop_last:
                stop = skipped + (stop - skipped) // length * length
            if stop == skipped:
                return
            block = _fill.rows(documents.joined(), _fill.in_turn(documents.lengths(), skipped, stop, length), self.packing)
            skipped = documents.drop(stop)
            yield block, [documents.place(), skipped]
            while documents.tokens - skipped < full and documents.more():
                pass

    def _in_windows(self, documents: _Documents, skipped: int) -> Iterator[tuple[Block, Place]]:
        """Yields rows of whole documents. The documents of a window are assigned to rows by their lengths."""
        while True:
            while documents.count < WINDOW and documents.tokens < _WINDOW_ROWS * self.packing.length and documents.more():
                pass
            lengths = documents.window(WINDOW, _WINDOW_ROWS * self.packing.length)
            if not len(lengths):
                return
            bins = _fill.best_fits(lengths, self.packing.length)
            begin = documents.place()
            for first in range(skipped, len(bins), self.each):
                block = _fill.rows(documents.joined(), bins[first : first + self.each], self.packing)
                after = first + self.each
                if after < len(bins):
                    yield block, [begin, after]
                else:
                    documents.drop(int(lengths.sum()), documents=len(lengths))
                    yield block, [documents.place(), 0]
            if skipped >= len(bins):
                documents.drop(int(lengths.sum()), documents=len(lengths))
            skipped = 0


class _Documents:
    """The documents that were read and not given out, with the place of each."""

    def __init__(self, reader: Reader, packing: Packing, named: str) -> None:
        self._reader, self._packing, self._named = reader, packing, named
        self._parts: list[_Part] = []
        self._joined: list[Array] | None = None
        self.tokens = self.count = 0

    def more(self) -> bool:
        """Reads the next block. Returns False at the stream's end."""
        taken = self._reader.take_block()
        if taken is None:
            return False
        block, (before, row) = taken
        values, lengths = _fill.lists(block, self._packing.columns, self._named)
        self._parts.append(_Part(values, lengths, before, row))
        self._joined = None
        self.tokens += int(lengths.sum())
        self.count += len(lengths)
        return True

    def place(self) -> Place:
        """Returns the place of the first document."""
        return [self._parts[0].before, self._parts[0].row] if self._parts else self._reader.place

    def lengths(self) -> Array:
        return np.concatenate([part.lengths for part in self._parts])

    def joined(self) -> list[Array]:
        """Returns the concatenated tokens of all documents, for each column."""
        if self._joined is None:
            columns = range(len(self._packing.columns))
            self._joined = [_fill.together([part.values[column] for part in self._parts]) for column in columns]
        return self._joined

    def window(self, documents: int, tokens: int) -> Array:
        """Returns the lengths of the first documents, up to `documents` documents or `tokens` tokens."""
        if not self._parts:
            return np.empty(0, dtype=np.int64)
        lengths = self.lengths()
        by_tokens = int(np.searchsorted(np.cumsum(lengths), tokens)) + 1
        return lengths[: min(documents, by_tokens)]

    def drop(self, tokens: int, documents: int | None = None) -> int:
        """Removes the documents in the first `tokens` tokens. Returns how many of these tokens belong to the first document
        that remains.

        documents: their number, needed if the last of them may be empty.
        """
        if documents is None:
            documents = int(np.searchsorted(np.cumsum(self.lengths()), tokens, side="right"))
        left = tokens
        while documents and self._parts:
            part = self._parts.pop(0)
            step = min(documents, len(part.lengths))
            dropped = int(part.lengths[:step].sum())
            if step < len(part.lengths):
                values = [array[dropped:] for array in part.values]
                self._parts.insert(0, _Part(values, part.lengths[step:], part.before, part.row + step))
            documents, left = documents - step, left - dropped
            self.tokens, self.count = self.tokens - dropped, self.count - step
        self._joined = None
        return left


@dataclass(frozen=True)
class _Part:
    """Documents of one block. before, row: the place of the block, and the number of the first document's row in it."""

    values: list[Array]
    lengths: Array
    before: Place
    row: int


def packed(child: Node, length: Any, columns: str | Sequence[str], padding: Any, *, split: bool, drop_last: bool) -> Packed:
    """Returns the node of `Dataset.pack`, which has the same arguments."""
    if isinstance(length, bool) or not isinstance(length, int) or length < 1:
        raise ValueError(f"pack: length is {length!r}; it is a number of tokens from 1 on")
    if drop_last and not split:
        raise ValueError("pack: drop_last is for split documents: rows of whole documents have padding everywhere")
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    if not names or len(set(names)) < len(names) or {DOCUMENTS, POSITIONS} & set(names):
        raise ValueError(
            f"pack: columns is {columns!r}; it names columns of lists, each once, and none of {DOCUMENTS}, {POSITIONS}"
        )
    values = dict(padding) if isinstance(padding, Mapping) else dict.fromkeys(names, padding)
    if values.keys() - set(names) or not all(isinstance(value, int | float) for value in values.values()):
        raise ValueError(f"pack: padding is {padding!r}; it is a number, or a dict of numbers by packed columns")
    known = child.names()
    missing = [name for name in names if known is not None and name not in known]
    if missing:
        raise KeyError(f"pack: there is no column {missing[0]!r}; there are: {', '.join(known or [])}")
    filling = tuple(values.get(name, 0) for name in names)
    return Packed(child, Packing(length, names, filling, split, drop_last))
