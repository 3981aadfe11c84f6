"""Nodes with several children, nodes that select a part of a child, and results that need all rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rtrain.data import _block
from rtrain.data._block import Block
from rtrain.data._dealing._streams import Streams
from rtrain.data._making._made import Task
from rtrain.data._orders import Frozen, Reordered
from rtrain.data._plan import Node, Order, Piece, Read, Run, changed, part_of, task_of
from rtrain.data._source import InMemory
from rtrain.data._values import _schema


class Slice(Node):
    """Rows `start` to `stop` (None: the end), counted in the child's order."""

    def __init__(self, child: Node, start: int, stop: int | None, text: str) -> None:
        self.children = (child,)
        self.first, self.last = start, stop
        self.said = text

    def start(self, order: Order) -> Run:
        return _SliceRun(self, self.children[0].start(order.whole()))

    def rows(self) -> int | None:
        rows = self.children[0].rows()
        if rows is None:
            return None
        return max(0, min(rows, self.last if self.last is not None else rows) - self.first)

    def names(self) -> list[str] | None:
        return self.children[0].names()

    def says(self) -> str:
        return f"{self.children[0].says()} -> {self.said}"


class _SliceRun:
    def __init__(self, node: Slice, child: Run) -> None:
        self.node, self.child = node, child

    def pieces(self) -> Iterator[Piece]:
        first, last = self.node.first, self.node.last
        if last is not None and last <= first:
            return
        passed = 0
        for piece in self.child.pieces():
            start = max(first - passed, 0)
            stop = piece.rows if last is None else min(last - passed, piece.rows)
            if start < stop:
                yield Piece((piece, start, stop), stop - start, piece.group)
            passed += piece.rows
            if last is not None and passed >= last:
                return

    def outline(self) -> Iterator[Piece]:
        return self.pieces()

    def read(self, piece: Piece) -> Block:
        return self.part(piece, 0, piece.rows)

    def part(self, piece: Piece, start: int, stop: int) -> Block:
        whole, first, _ = piece.key
        return part_of(self.child, whole, first + start, first + stop)

    def task(self, piece: Piece, start: int, stop: int) -> Task | Block:
        whole, first, _ = piece.key
        return task_of(self.child, whole, first + start, first + stop)


class Rebatched(Node):
    """The child's rows in pieces of a multiple of `each` rows. A piece may have fewer at the end of all rows, or at the end of
    a stream whose rows a shuffle keeps together. A child whose rows must be counted keeps its pieces."""

    def __init__(self, child: Node, each: int) -> None:
        self.children = (child,)
        self.each = each

    def start(self, order: Order) -> Run:
        run = self.children[0].start(order)
        return _RebatchedRun(self, run, order) if self.children[0].sized else run

    def rows(self) -> int | None:
        return self.children[0].rows()

    def names(self) -> list[str] | None:
        return self.children[0].names()

    def says(self) -> str:
        return self.children[0].says()


class _RebatchedRun:
    def __init__(self, node: Rebatched, child: Run, order: Order) -> None:
        self.node, self.child, self.order = node, child, order

    def pieces(self) -> Iterator[Piece]:
        parts: list[tuple[Piece, int, int]] = []
        held = passed = 0
        ends = iter(self._ends())
        end = next(ends, None)
        for piece in self.child.pieces():
            start = 0
            full = max(held // self.node.each + 1, piece.rows // self.node.each) * self.node.each
            while start < piece.rows:
                stop = min(piece.rows, start + full - held, piece.rows if end is None else end - passed)
                parts.append((piece, start, stop))
                held += stop - start
                start = stop
                if held >= full or passed + stop == end:
                    yield self._piece(parts)
                    parts, held = [], 0
                if passed + stop == end:
                    end = next(ends, None)
            passed += piece.rows
        if parts:
            yield self._piece(parts)

    def _ends(self) -> list[int]:
        """Returns the positions at which batches end because another rank's rows begin: the ends of a shuffle's streams."""
        rows = self.node.rows()
        if self.node.steady or self.order.streams == 1 or not rows:
            return []
        streams = Streams(self.order.streams, rows, self.order.equal)
        return sorted({stop for stop in (streams.range_of(number)[1] for number in range(streams.count)) if stop})

    def _piece(self, parts: list[tuple[Piece, int, int]]) -> Piece:
        return Piece(tuple(parts), sum(stop - start for _, start, stop in parts), parts[0][0].group)

    def outline(self) -> Iterator[Piece]:
        return self.pieces()

    def read(self, piece: Piece) -> Block:
        return self.part(piece, 0, piece.rows)

    def part(self, piece: Piece, start: int, stop: int) -> Block:
        return _joined([part_of(self.child, *part) for part in self._parts(piece, start, stop)])

    def task(self, piece: Piece, start: int, stop: int) -> Task | Block:
        items = [task_of(self.child, *part) for part in self._parts(piece, start, stop)]
        gain = next((item.gain for item in items if isinstance(item, Task)), None)
        if gain is None:
            return _joined([item if isinstance(item, Block) else item.make() for item in items])
        return Task(lambda: _joined([item if isinstance(item, Block) else item.make() for item in items]), gain)

    def _parts(self, piece: Piece, start: int, stop: int) -> Iterator[tuple[Piece, int, int]]:
        """Yields the child's pieces that contain some of the rows, each with its first row and the end of these rows."""
        passed = 0
        for inner, first, last in piece.key:
            low, high = max(start - passed, 0), min(stop - passed, last - first)
            if low < high:
                yield inner, first + low, first + high
            passed += last - first


def _joined(blocks: list[Block]) -> Block:
    return blocks[0] if len(blocks) == 1 else _block.concat(blocks)


class Union(Node):
    """The rows of all children, one child after the other, with the columns of all children."""

    def __init__(self, children: Sequence[Node]) -> None:
        self.children = tuple(children)
        self._columns: _Columns | None = None
        self._whole: Union | None = None

    def over(self, children: Sequence[Node]) -> Union:
        """Returns a union of parts of the children, with the same columns."""
        union = Union(children)
        union._whole = self
        return union

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_columns": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({"_columns": None, "_whole": None, **state})

    def start(self, order: Order) -> Run:
        return _UnionRun(self, [child.start(order.whole()) for child in self.children])

    def rows(self) -> int | None:
        rows = [child.rows() for child in self.children]
        known = [count for count in rows if count is not None]
        return sum(known) if len(known) == len(rows) else None

    def names(self) -> list[str] | None:
        names: dict[str, None] = {}
        for child in self.children:
            of_child = child.names()
            if of_child is None:
                return None
            names.update(dict.fromkeys(of_child))
        return list(names)

    def says(self) -> str:
        return f"union({', '.join(child.says() for child in self.children)})"

    def fitted(self, block: Block) -> Block:
        """Returns a child's block with the columns of all children, which are found in each child's first rows."""
        if self._whole is not None:
            return self._whole.fitted(block)
        if self._columns is None:
            self._columns = _columns_of(self.children)
        complete, types = self._columns.without_nulls, self._columns.types
        own = _schema.types_of(block)
        if own.items() - types.items():
            types = _schema.wider(types, own, "the first rows", f"later rows of {self.says()}")
        fitted = _schema.with_types(block, types, plain=complete)
        return Block(fitted.columns, fitted.without_nulls & complete, fitted.origin)


@dataclass(frozen=True)
class _Columns:
    types: dict[str, Any]
    without_nulls: frozenset[str]


def _columns_of(children: Sequence[Node]) -> _Columns:
    """Returns the columns of all children, and the columns without nulls. TypeError names two children without a common type."""
    types: dict[str, Any] = {}
    complete: frozenset[str] | None = None
    for child in children:
        head = _head(child)
        if head is None:
            continue
        types = _schema.wider(types, _schema.types_of(head), children[0].says(), child.says())
        own = frozenset(name for name in head.names if not head.may_hold_nulls(name))
        complete = own if complete is None else complete & own
    return _Columns(types, complete or frozenset())


def _head(node: Node) -> Block | None:
    """Returns some rows of a node, to find its columns; None for a node without rows."""
    while isinstance(node, Reordered | Frozen | Slice):
        node = node.children[0]
    run = node.start(Order())
    return next((run.read(piece) for piece in run.pieces()), None)


class _UnionRun:
    def __init__(self, node: Union, children: list[Run]) -> None:
        self.node, self.children = node, children

    def pieces(self) -> Iterator[Piece]:
        return self._in_turn([child.pieces() for child in self.children])

    def outline(self) -> Iterator[Piece]:
        return self._in_turn([child.outline() for child in self.children])

    def _in_turn(self, parts: list[Iterator[Piece]]) -> Iterator[Piece]:
        for place, pieces in enumerate(parts):
            for piece in pieces:
                yield Piece((place, piece), piece.rows, None if piece.group is None else (place, piece.group))

    def read(self, piece: Piece) -> Block:
        return self.part(piece, 0, piece.rows)

    def part(self, piece: Piece, start: int, stop: int) -> Block:
        place, inner = piece.key
        return self.node.fitted(part_of(self.children[place], inner, start, stop))

    def task(self, piece: Piece, start: int, stop: int) -> Task | Block:
        place, inner = piece.key
        return changed(task_of(self.children[place], inner, start, stop), self.node.fitted)


class Zip(Node):
    """The columns of both children, row by row. The second child's column gets the suffix `_1` if the first has the same name."""

    def __init__(self, left: Node, right: Node) -> None:
        self.children = (left, right)

    def start(self, order: Order) -> Run:
        return _ZipRun(self, order.whole())

    def rows(self) -> int | None:
        left, right = (child.rows() for child in self.children)
        if left is not None and right is not None and left != right:
            raise ValueError(f"zip: {self.children[0].says()} has {left} rows, {self.children[1].says()} has {right}")
        return left if right is not None else None

    def names(self) -> list[str] | None:
        left, right = (child.names() for child in self.children)
        if left is None or right is None:
            return None
        return [*left, *_apart(right, left).values()]

    def says(self) -> str:
        return f"zip({', '.join(child.says() for child in self.children)})"


class _ZipRun:
    def __init__(self, node: Zip, order: Order) -> None:
        self.node, self.order = node, order
        self.left = node.children[0].start(order)
        self.right: _Reader | None = None

    def pieces(self) -> Iterator[Piece]:
        place = 0
        for piece in self.left.pieces():
            yield Piece((place, piece), piece.rows, piece.group)
            place += piece.rows
        if not self.node.children[1].assumes and self.node.children[1].rows() is not None:
            self.node.rows()
        elif self.right is not None and self.right.place == place and self.right.more():
            raise ValueError(
                f"zip: {self.node.children[1].says()} has more than the {place} rows of {self.node.children[0].says()}"
            )

    def outline(self) -> Iterator[Piece]:
        return self.pieces()

    def read(self, piece: Piece) -> Block:
        place, inner = piece.key
        left = self.left.read(inner)
        if self.right is None or self.right.place > place:
            self.right = _Reader(self.node.children[1].start(self.order))
        right = self.right.rows(place, left.rows)
        if right.rows != left.rows:
            raise ValueError(
                f"zip: {self.node.children[1].says()} ends at row {place + right.rows}, {self.node.children[0].says()} goes on"
            )
        renamed = _apart(right.names, left.names)
        columns = {**left.columns, **{renamed[name]: column for name, column in right.columns.items()}}
        complete = left.without_nulls | {renamed[name] for name in right.without_nulls if name in renamed}
        return Block(columns, complete)

    def part(self, piece: Piece, start: int, stop: int) -> Block:
        return self.read(piece).slice(start, stop)


class _Reader:
    """Reads rows by their positions, forwards."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.coming = run.pieces()
        self.place = 0  # the position of the first row in `ahead`
        self.ahead: list[Block] = []

    def rows(self, place: int, count: int) -> Block:
        self._skip_to(place)
        while sum(block.rows for block in self.ahead) < count:
            piece = next(self.coming, None)
            if piece is None:
                break
            self.ahead.append(self.run.read(piece))
        combined = _block.concat(self.ahead)
        self.ahead = [combined.slice(count, combined.rows)]
        self.place += min(count, combined.rows)
        return combined.slice(0, count)

    def _skip_to(self, place: int) -> None:
        held = _block.concat(self.ahead)
        step = min(place - self.place, held.rows)
        self.ahead, self.place = [held.slice(step, held.rows)], self.place + step
        while self.place < place:
            piece = next(self.coming, None)
            if piece is None:
                return
            if self.place + piece.rows > place:
                self.ahead = [self.run.read(piece).slice(place - self.place, piece.rows)]
                self.place = place
            else:
                self.place += piece.rows

    def more(self) -> bool:
        return any(block.rows for block in self.ahead) or next(self.coming, None) is not None


class Computed(Node):
    """A result that needs all rows of the child in memory. It is computed once in each process."""

    def __init__(self, child: Node, text: str, compute: Callable[[Block], Block], seed: int = 0) -> None:
        self.children = (child,)
        self.said, self.compute, self.seed = text, compute, seed
        self._found: Read | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_found": None}

    @property
    def steady(self) -> bool:
        return True

    @property
    def positioned(self) -> bool:
        return True  # after the computation, which each process does

    @property
    def assumes(self) -> bool:
        return False

    def _node(self) -> Read:
        if self._found is None:
            run = self.children[0].start(Order(self.seed))
            whole = _block.concat(run.read(piece) for piece in run.pieces())
            self._found = Read(InMemory(self.says(), self.compute(whole).with_counted_nulls()))
        return self._found

    def start(self, order: Order) -> Run:
        return self._node().start(order)

    def rows(self) -> int | None:
        return None if self._found is None else self._found.rows()

    def uncounted(self) -> list[Any]:
        return [0] if self._found is None else []

    def count(self, keys: Sequence[Any]) -> list[Any]:
        return [0 for _ in keys]

    def learn(self, keys: Sequence[Any], counts: Sequence[Any]) -> None:
        self._node()

    def says(self) -> str:
        return f"{self.children[0].says()} -> {self.said}"


def _apart(names: list[str], taken: list[str]) -> dict[str, str]:
    """Returns new names for columns of the right side: `_1` is appended until the left side has no such name."""
    used = {*taken, *names}
    renamed = {}
    for name in names:
        new = name
        while name in taken and new in used:
            new += "_1"
        used.add(new)
        renamed[name] = new
    return renamed
