"""The plan of a dataset: a tree of nodes with sources at its leaves. It is small and picklable.

For an `Order` (a seed and an epoch), a node returns pieces of rows in the epoch's order, at most a few MiB each. The n-th row
of an epoch is the same on every rank. A node is started once for each iteration. Its `Run` holds what is open.

    Dataset.iter_batches -> Epoch.blocks -> run.pieces / run.read -> (ops) -> (orders) -> source.open
"""

from __future__ import annotations

import functools
import math
import warnings
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from rtrain.data._block import Block
from rtrain.data._far._ahead import Ahead, Fetching
from rtrain.data._making._gain import Gain
from rtrain.data._making._made import Task, carried_out, made
from rtrain.data._making._processes._rule import Limits
from rtrain.data._ops import Calling, Op, Steps, own_instances
from rtrain.data._source import Group, InMemory, Recent, Source

OPEN_GROUPS = 5  # row groups or files that one run holds open


@dataclass(frozen=True)
class Order:
    """The order of one epoch.

    seed: the run's, or drawn for this iteration. strict: several ranks share these rows, or they are resumed, so a function
    that is declared to keep the number of rows must keep it. whole_windows: windows of a shuffle are not cut by bytes, as in
    states of earlier versions. streams, equal: how the epoch's positions are cut (`_streams.Streams`); a shuffle keeps rows in
    their stream. lanes: row counts that only reading finds are not counted; each stream has pieces instead (`_lanes.Dealing`).
    stream: the only stream whose pieces are made, if the pieces of an epoch are not known in advance."""

    seed: int = 0
    epoch: int = 0
    strict: bool = False
    streams: int = 1
    equal: bool = True
    whole_windows: bool = False
    lanes: bool = False
    stream: int | None = None

    def whole(self) -> Order:
        """Returns the order for a child whose positions differ from the epoch's."""
        if self.stream is not None:
            return self
        return Order(self.seed, self.epoch, self.strict, whole_windows=self.whole_windows, lanes=self.lanes)

    def random(self, own: int | None, salt: int) -> np.random.Generator:
        """Returns the random numbers of one node. own: the seed that the user gave to the node, if any."""
        return np.random.default_rng([self.seed if own is None else own, salt, self.epoch])


@dataclass(frozen=True)
class Piece:
    key: Any  # identifies the piece within the node's run
    rows: int = field(repr=False)  # not in repr, which determines the piece's random numbers whether or not it is counted
    group: Any = field(default=None, repr=False)  # The pieces of one group are read fastest in their order.
    start: int = field(default=0, repr=False)  # the number of the first row in the whole piece, if the piece is a part


class Run(Protocol):
    def pieces(self) -> Iterator[Piece]: ...

    def outline(self) -> Iterator[Piece]:
        """Yields the pieces, including those without rows, for a node that reorders them. No function is called to count rows:
        such a piece has UNKNOWN rows."""
        ...

    def read(self, piece: Piece) -> Block: ...

    def part(self, piece: Piece, start: int, stop: int) -> Block:
        """Returns rows `start` to `stop` of a piece. Functions of single rows are called for these rows only."""
        ...


@runtime_checkable
class Dividing(Protocol):
    """A run that reads in the calling thread, and whose functions other threads may carry out."""

    def task(self, piece: Piece, start: int, stop: int) -> Task | Block:
        """Returns a task for rows `start` to `stop` of the last piece of `pieces`, or their block if there is no work."""
        ...


UNKNOWN = -1


def task_of(run: Run, piece: Piece, start: int, stop: int) -> Task | Block:
    """Returns a task or block for rows `start` to `stop` of the last piece of `run.pieces`."""
    return run.task(piece, start, stop) if isinstance(run, Dividing) else part_of(run, piece, start, stop)


def changed(item: Task | Block, change: Callable[[Block], Block], gain: Gain | None = None) -> Task | Block:
    """Returns the item with `change` applied. gain: the threads' gain for functions in `change`; None: it calls no function."""
    if isinstance(item, Block):
        return change(item) if gain is None else Task(lambda: change(item), gain)
    make = item.make
    return Task(lambda: change(make()), item.gain if gain is None else gain)


def part_of(run: Run, piece: Piece, start: int, stop: int) -> Block:
    """Returns rows `start` to `stop` of a piece."""
    return run.read(piece) if start <= 0 and stop >= piece.rows else run.part(piece, start, stop)


class Node:
    """A step of a plan, which reads `children`. `steady`: its pieces and their rows are the same in every epoch."""

    children: tuple[Node, ...] = ()
    in_memory = False
    divides = False  # the node only divides its child's pieces among streams

    def start(self, order: Order) -> Run:
        raise NotImplementedError

    @property
    def steady(self) -> bool:
        return all(child.steady for child in self.children)

    @property
    def sized(self) -> bool:
        """Returns True if the plan shows that the rows of all pieces are known before they are read, in each epoch."""
        return all(child.sized for child in self.children)

    @property
    def positioned(self) -> bool:
        """Returns True if the plan shows that rows have positions before they are read, possibly by a function's declaration."""
        return all(child.positioned for child in self.children)

    @property
    def assumes(self) -> bool:
        """Returns True if `rows` relies on a function's declaration that it keeps the number of rows."""
        return any(child.assumes for child in self.children)

    def rows(self) -> int | None:
        """Returns the number of rows if it is known without reading rows, else None."""
        raise NotImplementedError

    def names(self) -> list[str] | None:
        """Returns the columns if they are known without reading rows, else None."""
        return None

    def says(self) -> str:
        raise NotImplementedError

    # -- counting: what to count is named by keys, so that ranks can divide it ----------------------------------------
    def uncounted(self) -> list[Any]:
        return []

    def count(self, keys: Sequence[Any]) -> list[Any]:
        """Returns the count of each key."""
        raise NotImplementedError

    def learn(self, keys: Sequence[Any], counts: Sequence[Any]) -> None:
        raise NotImplementedError


Exchange = Callable[[Any], "list[Any]"]  # sends an object to all ranks and returns every rank's object; a barrier


def count_all(node: Node, rank: int = 0, world: int = 1, exchange: Exchange | None = None) -> None:
    """Makes `node.rows()` known. With an exchange every rank counts its part, and all ranks must call this."""
    for child in node.children:
        count_all(child, rank, world, exchange)
    keys = node.uncounted()
    if not keys:
        return
    if exchange is None:
        node.learn(keys, node.count(keys))
        return
    own_keys = keys[len(keys) * rank // world : len(keys) * (rank + 1) // world]
    counts = exchange((len(keys), node.count(own_keys)))
    for other, (count, _) in enumerate(counts):
        if count != len(keys):
            raise ValueError(
                f"rank {other} sees {count} files or pieces of {node.says()} and rank {rank} sees {len(keys)}: the ranks must read the same files"
            )
    node.learn(keys, [rows for _, part in counts for rows in part])


def undeclared(node: Node) -> list[str]:
    """Returns the functions that are called an additional time to count rows, because they are not declared to keep their
    number."""
    names = [name for child in node.children for name in undeclared(child)]
    return [*names, *(op.name for op in node.ops if op.undeclared)] if isinstance(node, Mapped) else names


def shared_rows(node: Node) -> int:
    """Returns the number of rows that ranks share, counted if necessary. Functions that are assumed to keep the number of rows
    are not called for it."""
    if node.rows() is None:
        count_all(node)
    known = node.rows()
    return known if known is not None else sum(piece.rows for piece in node.start(Order(strict=True)).pieces())


def rows_of(node: Node) -> int:
    """Returns the exact number of rows. Calls functions if necessary."""
    return sum(piece.rows for piece in node.start(Order()).pieces()) if node.assumes else shared_rows(node)


class Read(Node):
    """The rows of a source, in the source's order."""

    _gain: Gain | None = None

    def __init__(self, source: Source) -> None:
        self.source = source

    @property
    def in_memory(self) -> bool:  # type: ignore[override]
        return self.source.in_memory

    @property
    def sized(self) -> bool:
        return self.source.sized

    @property
    def positioned(self) -> bool:
        return self.source.sized

    def start(self, order: Order) -> Run:
        if self.source.apart and self._gain is None:
            self._gain = Gain()
        return ReadRun(self.source, self._gain)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_gain"}

    def rows(self) -> int | None:
        groups = self.source.groups()
        if any(group.pieces is None for group in groups):
            return None
        return sum(sum(group.pieces or ()) for group in groups)

    def names(self) -> list[str] | None:
        return self.source.names()

    def says(self) -> str:
        return self.source.name

    def uncounted(self) -> list[Any]:
        return [place for place, group in enumerate(self.source.groups()) if group.pieces is None]

    def count(self, keys: Sequence[Any]) -> list[Any]:
        return [[block.rows for block in self.source.open(place, 0)] for place in keys]

    def learn(self, keys: Sequence[Any], counts: Sequence[Any]) -> None:
        for place, pieces in zip(keys, counts, strict=True):
            self.source.groups()[place].pieces = pieces


class ReadRun:
    """Reads forwards from the current position. An earlier or a far later position opens the group again. Blocks that were read
    to count their rows are held until they are taken."""

    def __init__(self, source: Source, gain: Gain | None = None) -> None:
        self.source, self.gain = source, gain
        self.open: dict[Any, tuple[int, Iterator[Block]]] = {}  # group -> the next piece and the iterator of blocks
        self.ahead = Ahead(source)
        self.recent: Recent | None = None  # the pieces that were read last, shared with other runs
        self.waiting: tuple[tuple[int, int], Block] | None = None

    def pieces(self) -> Iterator[Piece]:
        for place in range(len(self.source.groups())):
            yield from self.pieces_of(place)

    def pieces_of(self, place: Any, *, anew: bool = False) -> Iterator[Piece]:
        """Yields the pieces of one group. Reads the group if its pieces are not known. anew: reads it in any case."""
        group = self.source.group(place)
        if anew and not self.source.sized:
            group.pieces = None
        if group.pieces is not None:
            yield from (Piece((place, number), rows, place) for number, rows in enumerate(group.pieces))
        else:
            yield from self._found_out(place, group)

    def outline(self) -> Iterator[Piece]:
        return self.pieces()

    def _found_out(self, place: Any, group: Group) -> Iterator[Piece]:
        rows: list[int] = []
        while (block := self._next(place, len(rows))) is not None:
            key = (place, len(rows))
            self.waiting = key, block
            rows.append(block.rows)
            yield Piece(key, block.rows, place)
        group.pieces = rows

    def read(self, piece: Piece) -> Block:
        if self.waiting is not None and self.waiting[0] == piece.key:
            block = self.waiting[1]
            self.waiting = None
            return block
        next_block = self.recent.get(piece.key) if self.recent is not None else None
        if next_block is None:
            next_block = self._next(*piece.key)
        if next_block is None or next_block.rows != piece.rows:
            there = 0 if next_block is None else next_block.rows
            raise RuntimeError(
                f"{self.source.name}: {self.source.where(piece.key[0])} changed while it was read: {piece.rows} rows were there, now {there}"
            )
        return next_block

    def part(self, piece: Piece, start: int, stop: int) -> Block:
        return self.read(piece).slice(start, stop)

    def task(self, piece: Piece, start: int, stop: int) -> Task | Block:
        if not self.source.apart or (self.waiting is not None and self.waiting[0] == piece.key):
            return part_of(self, piece, start, stop)
        return Task(lambda: part_of(ReadRun(self.source), piece, start, stop), self.gain)

    def _next(self, place: Any, number: int) -> Block | None:
        comes, blocks = self.open.pop(place, (-1, iter(())))
        if not 0 <= comes <= number:
            comes, blocks = number, self.ahead.open(place, number, self.open)
        for passed in range(comes, number):  # A reopened group would be read from its beginning.
            self._keep((place, passed), next(blocks, None))
        block = next(blocks, None)
        self._keep((place, number), block)
        pieces = self.source.group(place).pieces
        if block is not None and (pieces is None or number + 1 < len(pieces)):
            self.open[place] = number + 1, blocks
        while len(self.open) > OPEN_GROUPS:
            self.open.pop(next(iter(self.open)))
        return block

    def _keep(self, key: tuple[int, int], block: Block | None) -> None:
        if self.recent is not None and block is not None:
            self.recent.add(key, block)

    def expect(self, groups: Sequence[int]) -> None:
        self.ahead.expect(groups)


class Mapped(Node):
    """Ops on each piece of the child. If an op changes the number of rows, the ops are carried out to count the rows.

    An op without a declaration may change the number. A shuffle has other pieces in each epoch, so the pieces of the first
    epoch are counted once. If the ops kept the rows of each piece, they are assumed to keep them in later epochs.
    """

    _gain: Gain | None = None

    def __init__(self, child: Node, ops: tuple[Op, ...]) -> None:
        self.children = (child,)
        self.ops = ops
        self.keeps_rows = all(op.keeps_rows for op in ops)
        self.undeclared = not self.keeps_rows and all(op.keeps_rows or op.undeclared for op in ops)
        self._counts: dict[Any, int] = {}
        self._found_to_keep: bool | None = None  # None: not counted yet

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name not in ("_gain", "steps")}
        return {**state, "_counts": {}, "_found_to_keep": None}  # The files may differ where the plan is used next.

    @property
    def child(self) -> Node:
        return self.children[0]

    def over(self, child: Node) -> Mapped:
        """Returns the same ops on another child. Both share the measured number of threads."""
        mapped = Mapped(child, self.ops)
        mapped._gain = self.gain
        return mapped

    def start(self, order: Order) -> Run:
        return _MappedRun(self, self.child.start(order), order)

    @property
    def positioned(self) -> bool:
        return self.keeps_rows and self.child.positioned

    @property
    def sized(self) -> bool:
        return self.keeps_rows and not any(op.assumed for op in self.ops) and self.child.sized

    @property
    def assumes(self) -> bool:
        by_word = self.keeps_rows and any(op.assumed for op in self.ops)
        return super().assumes or by_word or bool(self._found_to_keep)

    def rows(self) -> int | None:
        if self.keeps_rows or self._found_to_keep:
            return self.child.rows()
        if not self.steady or self.child.rows() is None or self.uncounted():
            return None
        return sum(self._counts.values())

    def _depth(self) -> int:
        """Returns how many nodes lie below this node. Two nodes of one plan that make the same piece have different random
        numbers."""
        depth, below = 0, self.child
        while below.children:
            depth, below = depth + (not below.divides), below.children[0]
        return depth

    def names(self) -> list[str] | None:
        names = self.child.names()
        for op in self.ops:
            names = op.names(names)
        return names

    def says(self) -> str:
        return " -> ".join([self.child.says(), *(op.name for op in self.ops)])

    def uncounted(self) -> list[Any]:
        if self.keeps_rows or self._found_to_keep is not None or not (self.steady or self.undeclared):
            return []
        return [piece for piece in self.child.start(Order(strict=True)).pieces() if piece.key not in self._counts]

    def count(self, keys: Sequence[Any]) -> list[Any]:
        order = Order(strict=True)
        run = _MappedRun(self, self.child.start(order), order)
        return [block.rows for block in made(run.whole(piece) for piece in keys)]

    def learn(self, keys: Sequence[Any], counts: Sequence[Any]) -> None:
        if self.steady:
            self._counts.update(zip((piece.key for piece in keys), counts, strict=True))
            return
        self._found_to_keep = all(piece.rows == rows for piece, rows in zip(keys, counts, strict=True))
        if not self._found_to_keep:
            functions = " -> ".join(op.name for op in self.ops)
            warnings.warn(
                f"{functions} changes the number of rows behind a shuffle: each rank carries it out on all rows to count them, in each "
                "epoch. Before the shuffle it is counted once",
                stacklevel=2,
            )

    @property
    def gain(self) -> Gain | None:
        """Returns the object that decides how many threads carry the functions out; None if one thread does, or if there are
        none."""
        functions = [op.fn for op in self.ops if isinstance(op, Calling)]
        asked = [threads for threads in (fn.threads for fn in functions) if threads is not None]
        if not functions or 1 in asked:
            return None
        if self._gain is None:
            num_cpus, memory = max(fn.num_cpus for fn in functions), max(fn.memory for fn in functions)
            self._gain = Gain(Limits(asked=min(asked, default=None), num_cpus=num_cpus, memory=memory))
        return self._gain

    def known(self, piece: Piece, order: Order) -> int | None:
        if self.keeps_rows or self._found_to_keep:
            return None if self.assumes and not order.strict else piece.rows
        return self._counts.get(piece.key) if self.steady else None

    def whole_batches(self, start: int, stop: int, rows: int) -> tuple[int, int]:
        """Returns the smallest range around `start` to `stop` that the ops make as they would in the whole piece of `rows`
        rows."""
        each = math.lcm(*(op.each for op in self.ops)) if self.keeps_rows else 0
        return (start // each * each, min(-(-stop // each) * each, rows)) if each else (0, rows)

    def in_parts(self, blocks: Iterator[Block], piece: Piece, order: Order) -> Iterator[Block]:
        """Yields the results of the ops for a piece that is read in blocks."""
        place = _place_of(piece, order)
        taken = [0] * len(self.ops)  # rows of the piece that each op has received before
        for given in blocks:
            block = given
            for number, op in enumerate(self.ops):
                rows = block.rows
                with self.steps.chance_of(number, place, taken[number]), own_instances():
                    block = op.apply_from(block, place[2], taken[number])
                taken[number] += rows
            block.origin = block.origin or given.origin
            yield block

    @functools.cached_property
    def steps(self) -> Steps:
        return Steps(self.ops, self._depth())

    def apply(self, block: Block, piece: Piece, order: Order, first: int = 0) -> Block:
        """Applies the ops to a piece, or to its rows from number `first` on."""
        return self.steps.apply(block, _place_of(piece, order), first)

    def carried_out(self, block: Block, piece: Piece, order: Order, first: int = 0) -> Block:
        """Returns the result of `apply`. Processes carry it out if that gains."""
        return carried_out(self.steps, block, _place_of(piece, order), first)


class _MappedRun:
    def __init__(self, node: Mapped, child: Run, order: Order) -> None:
        self.node, self.child, self.order = node, child, order
        self.waiting: tuple[Piece, Block] | None = None

    def pieces(self) -> Iterator[Piece]:
        taken: deque[tuple[Piece, int | None]] = deque()
        for block in made(self._unknown(taken)):
            piece, rows = taken.popleft()
            if rows is None:
                rows = block.rows
                self.waiting = Piece(piece, rows, piece.group), block
                if self.node.steady and not self.node.keeps_rows:
                    self.node.learn([piece], [rows])
            if rows:
                yield Piece(piece, rows, piece.group)

    def _unknown(self, taken: deque[tuple[Piece, int | None]]) -> Iterator[Any]:
        """Yields a task for each piece without a known row count, and None for the others. Appends each piece to `taken`."""
        for piece in self.child.pieces():
            rows = self.node.known(piece, self.order)
            taken.append((piece, rows))
            yield self.whole(piece) if rows is None else None

    def expect(self, groups: Sequence[int]) -> None:
        if isinstance(self.child, Fetching):
            self.child.expect(groups)

    def whole(self, piece: Piece) -> Task | Block:
        """Returns a task or block for all rows that a piece of the child becomes."""
        return self._applied(task_of(self.child, piece, 0, piece.rows), piece, piece.start)

    def _applied(self, item: Task | Block, piece: Piece, first: int) -> Task | Block:
        gain = self.node.gain
        if gain is None and any(isinstance(op, Calling) for op in self.node.ops):
            block = item if isinstance(item, Block) else item.make()
            return self.node.apply(block, piece, self.order, first)
        apply = self.node.apply if gain is None else self.node.carried_out
        return changed(item, lambda block: apply(block, piece, self.order, first), gain)

    def outline(self) -> Iterator[Piece]:
        for piece in self.child.outline():
            rows = UNKNOWN if piece.rows == UNKNOWN else self.node.known(piece, self.order)
            yield Piece(piece, UNKNOWN if rows is None else rows, piece.group)

    def read(self, piece: Piece) -> Block:
        waiting, self.waiting = self.waiting, None
        if waiting is not None and waiting[0] == piece:
            return waiting[1]
        block = self.node.apply(self.child.read(piece.key), piece.key, self.order)
        if piece.rows not in (block.rows, UNKNOWN):
            self._refuse(piece, block)
        return block

    def part(self, piece: Piece, start: int, stop: int) -> Block:
        first, last = self.node.whole_batches(start, stop, piece.rows)
        if (first, last) == (0, piece.rows) or (self.waiting is not None and self.waiting[0] == piece):
            return self.read(piece).slice(start, stop)
        block = self.node.apply(self.child.part(piece.key, first, last), piece.key, self.order, first)
        if block.rows != last - first:
            self._refuse(Piece(piece.key, last - first), block)
        return block.slice(start - first, stop - first)

    def task(self, piece: Piece, start: int, stop: int) -> Task | Block:
        if self.waiting is not None and self.waiting[0] == piece:
            return part_of(self, piece, start, stop)
        is_unknown = piece.rows == UNKNOWN
        first, last = (0, UNKNOWN) if is_unknown else self.node.whole_batches(start, stop, piece.rows)
        if last == piece.rows and first == 0:
            item = self.whole(piece.key)
        else:
            item = self._applied(task_of(self.child, piece.key, first, last), piece.key, first)

        def checked(block: Block) -> Block:
            if is_unknown:
                return block
            if block.rows != last - first:
                self._refuse(Piece(piece, last - first), block)
            return block.slice(start - first, stop - first)

        return changed(item, checked)

    def _refuse(self, piece: Piece, block: Block) -> None:
        functions = " -> ".join(op.name for op in self.node.ops)
        if self.node.keeps_rows or self.node._found_to_keep:
            word = (
                "udf_modifying_row_count=False" if self.node.keeps_rows else "in the epoch that was counted it kept their number"
            )
            raise ValueError(
                f"{functions} made {block.rows} rows of {piece.rows} ({word}). What ranks share, or what is resumed, must be counted first: "
                "say so by map_batches(..., udf_modifying_row_count=True)"
            )
        raise ValueError(
            f"{functions} made {block.rows} rows where it made {piece.rows} before: a function that changes the number of rows must do so alike each time"
        )


def _place_of(piece: Piece, order: Order) -> tuple[int, ...]:
    return order.seed, order.epoch, zlib.crc32(repr(piece.key).encode())


def materialized(rows: Block, of: str) -> Node:
    """Returns a node of a block's rows in memory. `of` describes their origin."""
    return Read(InMemory(f"materialized({of})", rows))


def cut(rows: int, each: int) -> list[int]:
    """Returns the sizes of pieces of `each` rows that make up `rows`. The last one has the rest."""
    return [min(each, rows - start) for start in range(0, rows, each)]
