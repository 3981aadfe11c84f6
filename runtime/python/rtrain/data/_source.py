"""The interface between plans and the code that reads rows. Another engine can replace these classes: it returns groups and
opens them.

A source has *groups*, each of which is read from its beginning to its end (a row group, a file, a part of a table). A group has
pieces with known rows, or its rows are found by reading it once. `open(group, piece)` yields the blocks from a piece on.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rtrain.data import _block
from rtrain.data._block import Block

PIECE_BYTES = 4 << 20  # bytes of rows that are read at once, at most
PIECE_ROWS = 1 << 16


@dataclass
class Group:
    pieces: list[int] | None  # rows of each piece; None: not known before it is read
    nbytes: int | None = None


class Source:
    name = ""
    in_memory = False
    apart = False  # Each group is one piece, and several threads may open groups at the same time.
    sized = False  # the rows of all pieces are known without reading rows

    def groups(self) -> Sequence[Group]:
        raise NotImplementedError

    def group(self, place: Any) -> Group:
        """Returns a group. place: its number, or a place that `part_of` returned."""
        group: Group = self.groups()[place]
        return group

    def part_of(self, place: int, part: int, parts: int) -> Any:
        """Returns the place of one of `parts` parts of a group, which can be opened like a group. None if the group can only be
        read as a whole."""
        return None

    def open(self, place: Any, piece: int) -> Iterator[Block]:
        raise NotImplementedError

    def far_bytes(self, place: int) -> int:
        """Returns how many bytes of the group are fetched from a remote file system; 0: none."""
        return 0

    def begin(self, place: int) -> Callable[[int], Iterator[Block]]:
        """Begins to fetch the group if it is remote. Returns a function that opens it, as `open` does."""
        return functools.partial(self.open, place)

    def names(self) -> list[str] | None:
        return None

    def types(self) -> list[Any] | None:
        return None

    def where(self, place: int) -> str:
        """Returns a description of the group for messages."""
        return f"part {place}"

    def take(self, places: np.ndarray[Any, Any]) -> Block:
        """Returns rows by their numbers. Only sources in memory implement it."""
        raise NotImplementedError


class _InPieces(Source):
    """A source in which each piece is a group, so that any piece is read without the others."""

    sized = True

    def __init__(self, name: str, rows: int, each: int) -> None:
        self.name = name
        self.rows, self.each = rows, each
        self._groups: list[Group] | None = None

    def groups(self) -> Sequence[Group]:
        if self._groups is None:
            self._groups = [Group([min(self.each, self.rows - start)]) for start in range(0, self.rows, self.each)]
        return self._groups

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_groups": None}

    def open(self, place: int, piece: int) -> Iterator[Block]:
        start = place * self.each
        if piece == 0:
            yield self.part(start, min(start + self.each, self.rows))

    def part(self, start: int, stop: int) -> Block:
        raise NotImplementedError


class InMemory(_InPieces):
    """A block that is part of the plan."""

    in_memory = True

    def __init__(self, name: str, block: Block) -> None:
        super().__init__(name, block.rows, piece_rows(block.rows, block.nbytes))
        self.block = block.with_columns({column: _read_only(held) for column, held in block.columns.items()})

    def names(self) -> list[str]:
        return self.block.names

    def part(self, start: int, stop: int) -> Block:
        return self.block.slice(start, stop)

    def take(self, places: np.ndarray[Any, Any]) -> Block:
        return self.block.take(places)


def _read_only(column: Any) -> Any:
    """Returns a read-only column. Loops receive copies of it."""
    if isinstance(column, np.ndarray):
        column = column.view()
        column.flags.writeable = False
    return column


class Counting(_InPieces):
    """The numbers from 0 on. For `range_tensor`, each fills an array of `shape`."""

    in_memory = True

    def __init__(self, rows: int, shape: tuple[int, ...] | None = None) -> None:
        width = 8 * int(np.prod(shape or (1,)))
        super().__init__(f"range({rows})" if shape is None else f"range_tensor({rows})", rows, piece_rows(rows, rows * width))
        self.shape = shape

    def names(self) -> list[str]:
        return ["id" if self.shape is None else "data"]

    def part(self, start: int, stop: int) -> Block:
        return self.take(np.arange(start, stop))

    def take(self, places: np.ndarray[Any, Any]) -> Block:
        if self.shape is None:
            return Block({"id": np.array(places)})
        column = places.reshape(-1, *[1] * len(self.shape))
        return Block({"data": np.broadcast_to(column, (len(places), *self.shape)).copy()})


class Indexed(_InPieces):
    """A source with a length and items, such as a torch Dataset or a Hugging Face one. Items are fetched when they are read."""

    def __init__(self, name: str, rows: int, fetch: Callable[[int, int], Block], each: int = 256) -> None:
        super().__init__(name, rows, each)
        self.fetch = fetch

    def part(self, start: int, stop: int) -> Block:
        return self.fetch(start, stop)


class Streamed(Source):
    """An iterable without a length. Each iteration of the plan iterates it again."""

    def __init__(self, name: str, items: Any, each: int = 256) -> None:
        self.name = name
        self.items, self.each = items, each
        self._groups = [Group(None)]

    def groups(self) -> Sequence[Group]:
        return self._groups

    def open(self, place: int, piece: int) -> Iterator[Block]:
        rows: list[Any] = []
        for item in self.items:
            rows.append(item if isinstance(item, dict) else {"item": item})
            if len(rows) == self.each:
                if piece > 0:
                    piece -= 1
                else:
                    yield _block.from_rows(rows)
                rows = []
        if rows and piece == 0:
            yield _block.from_rows(rows)


class Recent:
    """The pieces that a process read last, up to a number of bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._most, self._held = most_bytes, 0
        self._blocks: dict[Any, Block] = {}

    def get(self, key: Any) -> Block | None:
        return self._blocks.get(key)

    def add(self, key: Any, block: Block) -> None:
        if key not in self._blocks:
            self._blocks[key] = block
            self._held += block.nbytes
        while self._held > self._most and len(self._blocks) > 1:
            self._held -= self._blocks.pop(next(iter(self._blocks))).nbytes


def piece_rows(rows: int, nbytes: float, most_rows: int = PIECE_ROWS, most_bytes: int = PIECE_BYTES) -> int:
    """Returns the rows of a piece, if `rows` rows take `nbytes` in total."""
    if rows <= 0:
        return 1
    return max(1, min(most_rows, math.floor(most_bytes / max(nbytes / rows, 1))))
