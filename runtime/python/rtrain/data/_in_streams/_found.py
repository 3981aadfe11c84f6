"""Nodes whose row count is found for each stream, by reading the stream or from the row counts of its sources.

Other nodes see the streams as one sequence. The epoch's streams are cut from it, so a rank may read the end of a long stream as
part of a shorter one. A table for each epoch stores the place of each piece. With the table, a piece is read without the pieces
before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rtrain.data._block import Block
from rtrain.data._in_streams import _onward, _sequences
from rtrain.data._in_streams._onward import Place, Reader
from rtrain.data._plan import Node, Order, Piece, Run

_TABLES = 2  # epochs whose tables are kept


@dataclass(frozen=True)
class _Entry:
    """A piece of a stream: its place, the number of the stream's rows before it, and the number of its rows."""

    place: Place
    before: int
    rows: int


class Found(Node):
    """A node that implements `of_stream`. `each`: rows of each piece, except a stream's last one."""

    each = 1
    steady = False
    sized = False

    def __init__(self, children: tuple[Node, ...]) -> None:
        self.children = children
        self._tables: dict[Order, list[list[_Entry]]] = {}
        self._rows: dict[tuple[int, Order], int | None] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_tables": {}, "_rows": {}}

    @property
    def positioned(self) -> bool:
        return False

    @property
    def assumes(self) -> bool:
        return False  # The rows are counted by reading, even if a child's function is declared to keep the number of rows.

    def rows(self) -> int | None:
        return None

    def of_stream(self, order: Order, stream: int, place: Place) -> Iterator[tuple[Block, Place]]:
        """Yields the pieces of a stream from a place on, each with the place behind it."""
        raise NotImplementedError

    def known_rows(self, order: Order, stream: int) -> int | None:
        """Returns the number of a stream's rows if it follows from the row counts of the sources, else None."""
        return None

    def place_at(self, order: Order, stream: int, row: int) -> Place:
        """Returns the place of a row. The stream's row count must be known."""
        raise NotImplementedError

    def start(self, order: Order) -> Run:
        return _FoundRun(self, order)

    def table(self, order: Order) -> list[list[_Entry]] | None:
        return self._tables.get(order)

    def keep(self, order: Order, table: list[list[_Entry]]) -> None:
        tables = {**self._tables, order: table}
        for old in list(tables)[:-_TABLES]:
            del tables[old]
        self._tables = tables  # One assignment, because other threads read it.

    # -- its children -------------------------------------------------------------------------------------------------
    def length(self, child: int, order: Order, stream: int) -> int | None:
        """Returns the number of rows of a child's stream; None if only reading finds it."""
        node = self.children[child]
        if isinstance(node, Found):
            return node.known_rows(order, stream)
        if order.lanes and not node.positioned:
            return None
        return _onward.length_of(self._rows_of(child, order), order, stream)

    def place_in(self, child: int, order: Order, stream: int, row: int) -> Place:
        """Returns the place of a reader at a row of a child's stream. The stream's row count must be known."""
        node = self.children[child]
        return [node.place_at(order, stream, row) if isinstance(node, Found) else row, 0]

    def reader(self, child: int, order: Order, stream: int, place: Place) -> Reader:
        """Returns a reader of a child's stream."""
        node, inner = self.children[child], None if place is None else place[0]
        if isinstance(node, Found):
            return Reader(node.of_stream(order, stream, inner), place)
        if order.lanes and not node.positioned:
            return Reader(_sequences.onward(node, order, stream, inner), place)
        return Reader(_onward.positioned(node, order, stream, self._rows_of(child, order), inner), place)

    def _rows_of(self, child: int, order: Order) -> int | None:
        if (child, order) not in self._rows:
            if len(self._rows) > 64:
                self._rows = {}
            self._rows[child, order] = _onward.rows_of_streams(self.children[child], order)
        return self._rows[child, order]


class _FoundRun:
    def __init__(self, node: Found, order: Order) -> None:
        self.node, self.order = node, order
        self.places: dict[tuple[int, int], Place] = {}  # the places of pieces, by their keys
        self.open: tuple[tuple[int, int], Iterator[tuple[Block, Place]]] | None = (
            None  # the next piece of an open stream, and its iterator
        )
        self.held: tuple[tuple[int, int], Block] | None = None

    def pieces(self) -> Iterator[Piece]:
        table = self.node.table(self.order)
        if table is not None:
            for stream, entries in enumerate(table):
                for entry in entries:
                    self.places[stream, entry.before] = entry.place
                    yield Piece((stream, entry.before), entry.rows, stream)
            return
        table_found: list[list[_Entry]] = []
        known = True
        for stream in range(self.order.streams):
            rows = self.node.known_rows(self.order, stream)
            if rows is not None:
                for before in range(0, rows, self.node.each):
                    yield Piece((stream, before), min(self.node.each, rows - before), stream)
                continue
            known = False
            table_found.append([])
            for entry in self._found(stream):
                table_found[-1].append(entry)
                yield Piece((stream, entry.before), entry.rows, stream)
        if not known and len(table_found) == self.order.streams:
            self.node.keep(self.order, table_found)

    def _found(self, stream: int) -> Iterator[_Entry]:
        place: Place = None
        before = 0
        for block, after in self.node.of_stream(self.order, stream, None):
            self.held, self.places[stream, before] = ((stream, before), block), place
            yield _Entry(place, before, block.rows)
            place, before = after, before + block.rows

    def outline(self) -> Iterator[Piece]:
        return self.pieces()

    def read(self, piece: Piece) -> Block:
        if self.held is not None and self.held[0] == piece.key:
            return self.held[1]
        stream, before = piece.key
        key, blocks = (None, iter(())) if self.open is None else self.open
        if key != piece.key:
            place = self.places[piece.key] if piece.key in self.places else self._place_of(piece)
            blocks = self.node.of_stream(self.order, stream, place)
        block, _ = next(blocks, (None, None))
        if block is None or block.rows != piece.rows:
            there = 0 if block is None else block.rows
            raise ValueError(
                f"{self.node.says()}: {piece.rows} rows were there, now {there}: a source, or what a function makes of it, has changed"
            )
        self.open = (stream, before + block.rows), blocks
        self.held = piece.key, block
        return block

    def _place_of(self, piece: Piece) -> Place:
        stream, before = piece.key
        table = self.node.table(self.order)
        if table is not None:
            return next(entry.place for entry in table[stream] if entry.before == before)
        return self.node.place_at(self.order, stream, before) if before else None

    def part(self, piece: Piece, start: int, stop: int) -> Block:
        return self.read(piece).slice(start, stop)
