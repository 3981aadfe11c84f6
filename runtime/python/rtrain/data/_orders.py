"""Other orders of a child's rows: shuffled, its groups in a random order, or one order kept for good.

A shuffle of rows in memory is a permutation of all of them. Of files, which are read from front to back: the groups (row
groups, files) come in a random order, a few are read in turn, and their pieces are shuffled row by row within windows of a
bounded size. Both depend on seed and epoch alone, never on the number of ranks: a rank reads the windows that its rows lie in.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from rtrain.data import _block
from rtrain.data._block import Block
from rtrain.data._ops import Columns, MapRows
from rtrain.data._plan import OPEN_GROUPS, UNKNOWN, Mapped, Node, Order, Piece, Read, Run, cut
from rtrain.data._source import Source

WINDOW_BYTES = 128 << 20
_PIECE_BYTES = 4 << 20
_TURNS = OPEN_GROUPS - 1  # groups that are read in turn, fewer where they are large: a reader holds all of a row group
_TURN_PIECES = 64
_INDEX_MAX = 1 << 26  # rows that are permuted as a whole, 8 bytes for each


class Reordered(Node):
    """The child's rows, all of them, in another order."""

    def __init__(self, child: Node, seed: int | None) -> None:
        self.children = (child,)
        self.seed = seed
        self.salt = _depth(child)

    @property
    def child(self) -> Node:
        return self.children[0]

    @property
    def steady(self) -> bool:
        return False

    def rows(self) -> int | None:
        return self.child.rows()

    def names(self) -> list[str] | None:
        return self.child.names()

    def over(self, child: Node) -> Node:
        """The same reordering of another child."""
        return type(self)(child, self.seed)


class Shuffled(Reordered):
    def __init__(self, child: Node, seed: int | None, window_bytes: int = WINDOW_BYTES) -> None:
        super().__init__(child, seed)
        self.window_bytes = window_bytes

    def over(self, child: Node) -> Node:
        return Shuffled(child, self.seed, self.window_bytes)

    def says(self) -> str:
        return f"{self.child.says()} -> random_shuffle({'' if self.seed is None else f'seed={self.seed}'})"

    def start(self, order: Order) -> Run:
        source = _in_memory(self.child)
        if source is not None and (self.rows() or 0) <= _INDEX_MAX:
            return _IndexRun(self, source, order)
        return _WindowRun(self, order)


class _IndexRun:
    """A permutation of rows that lie in memory."""

    def __init__(self, node: Shuffled, source: Source, order: Order) -> None:
        self.node, self.source, self.order = node, source, order
        self.places = order.random(node.seed, node.salt).permutation(node.rows() or 0)

    def pieces(self) -> Iterator[Piece]:
        each = max((max(group.pieces or [1]) for group in self.source.groups()), default=1)
        start = 0
        for rows in cut(len(self.places), each):
            yield Piece((start, start + rows), rows)
            start += rows

    def outline(self) -> Iterator[Piece]:
        return self.pieces()

    def read(self, piece: Piece) -> Block:
        block = self.source.take(self.places[slice(*piece.key)])
        return self.node.child.apply(block, piece, self.order) if isinstance(self.node.child, Mapped) else block


class _WindowRun:
    """Pieces dealt from a few groups at a time, and rows permuted within a window of pieces, of which one is held."""

    def __init__(self, node: Shuffled, order: Order) -> None:
        self.node, self.order = node, order
        self.child = node.child.start(order)
        self.windows: list[list[Piece]] | None = None
        self.held: tuple[int, Block] | None = None

    def pieces(self) -> Iterator[Piece]:
        for number, window in enumerate(self._windows()):
            known = all(piece.rows != UNKNOWN for piece in window)
            rows = sum(piece.rows for piece in window) if known else self._window(number).rows
            start = 0
            for length in cut(rows, max(1, math.ceil(rows / len(window)))):
                yield Piece((number, start, start + length), length)
                start += length

    def _windows(self) -> list[list[Piece]]:
        """Deals the pieces into windows, also for a run that reads pieces which another run of the same order gave. Pieces
        without rows are dealt too: whether somebody counted the rows must not change the order."""
        if self.windows is None:
            self.windows = self._dealt(list(self.child.outline()))
        return self.windows

    def _dealt(self, pieces: list[Piece]) -> list[list[Piece]]:
        groups = _groups(pieces)
        order = self.order.random(self.node.seed, self.node.salt).permutation(len(groups))
        mixed = [groups[place] for place in order]
        dealt: list[Piece] = []
        turns = max(1, min(_TURNS, _TURN_PIECES // max(map(len, groups), default=1)))
        for start in range(0, len(mixed), turns):
            for turn in itertools.zip_longest(*mixed[start : start + turns]):
                dealt.extend(piece for piece in turn if piece is not None)
        each = max(1, self.node.window_bytes // _PIECE_BYTES)
        return [dealt[start : start + each] for start in range(0, len(dealt), each)]

    def outline(self) -> Iterator[Piece]:
        return self.pieces()

    def read(self, piece: Piece) -> Block:
        number, start, stop = piece.key
        return self._window(number).slice(start, stop)

    def _window(self, number: int) -> Block:
        if self.held is None or self.held[0] != number:
            self.held = None
            block = _block.concat(self.child.read(piece) for piece in self._windows()[number] if piece.rows)
            order = self.order.random(self.node.seed, self.node.salt + 1 + number).permutation(block.rows)
            self.held = number, block.take(order)
        return self.held[1]


class BlockOrder(Reordered):
    """Groups in a random order; the rows of each stay together."""

    def says(self) -> str:
        return f"{self.child.says()} -> randomize_block_order({'' if self.seed is None else f'seed={self.seed}'})"

    def start(self, order: Order) -> Run:
        return _BlockOrderRun(self, order)


class _BlockOrderRun:
    def __init__(self, node: BlockOrder, order: Order) -> None:
        self.node, self.order = node, order
        self.child = node.child.start(order)
        self.waiting: tuple[Piece, Block] | None = None

    def outline(self) -> Iterator[Piece]:
        groups = _groups(list(self.child.outline()))
        for place in self.order.random(self.node.seed, self.node.salt).permutation(len(groups)):
            yield from (Piece(piece, piece.rows, piece.group) for piece in groups[place])

    def pieces(self) -> Iterator[Piece]:
        for piece in self.outline():
            if piece.rows != UNKNOWN:
                counted = piece
            else:
                block = self.child.read(piece.key)
                counted = Piece(piece.key, block.rows, piece.group)
                self.waiting = counted, block
            if counted.rows:
                yield counted

    def read(self, piece: Piece) -> Block:
        waiting, self.waiting = self.waiting, None
        return waiting[1] if waiting is not None and waiting[0] == piece else self.child.read(piece.key)


class Frozen(Node):
    """One order of the child for every epoch, so that parts of it stay apart from each other."""

    def __init__(self, child: Node, seed: int) -> None:
        self.children = (child,)
        self.seed = seed

    @property
    def steady(self) -> bool:
        return True

    def start(self, order: Order) -> Run:
        return self.children[0].start(Order(self.seed, 0, order.strict))

    def rows(self) -> int | None:
        return self.children[0].rows()

    def names(self) -> list[str] | None:
        return self.children[0].names()

    def says(self) -> str:
        return self.children[0].says()


def _in_memory(node: Node) -> Source | None:
    """The source, where the node is nothing but rows of it, each changed by itself."""
    while isinstance(node, Mapped) and all(isinstance(op, MapRows | Columns) for op in node.ops):
        node = node.child
        if isinstance(node, Mapped):
            return None
    return node.source if isinstance(node, Read) and node.in_memory else None


def _groups(pieces: list[Piece]) -> list[list[Piece]]:
    """Neighbours of one group; a piece without a group is one by itself."""
    groups: list[list[Piece]] = []
    for piece in pieces:
        if groups and piece.group is not None and groups[-1][-1].group == piece.group:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return groups


def _depth(node: Node) -> int:
    return 1000 * (1 + max((_depth(child) for child in node.children), default=0))
