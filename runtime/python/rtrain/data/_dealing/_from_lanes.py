"""Gives out one rank's rows of an epoch if only reading finds how many rows a stream has.

A rank makes the chunks of its own streams, publishes their row counts, and receives the counts of the other ranks. So all ranks
compute the same global batches, and each gives out its part. If a part has rows of another rank's stream, the rank makes their
chunks too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from rtrain.data import _block, _position
from rtrain.data._block import Block
from rtrain.data._dealing._dealt import AS_THEY_COME, Rows
from rtrain.data._dealing._lanes import ChunkRows, Cut, Dealing, Lane, part_of
from rtrain.data._dealing._progress import Local, OfLanes
from rtrain.data._plan import Node, Order

_KNOWN = 10_000  # row counts of chunks; with more, the counts of passed chunks are dropped
ENDED = ChunkRows(-1)  # marks a chunk that does not exist, because its stream ends before it


class Chunks(Protocol):
    """The chunks of all streams of one epoch. step: the difference between the numbers of two neighbouring chunks of a stream."""

    @property
    def step(self) -> int: ...

    def lanes(self) -> list[Lane]:
        """Returns the chunks that each stream has at the epoch's beginning."""
        ...

    def blocks(self, stream: int, chunk: int, lane: Lane, place: Any) -> Iterator[tuple[Block, Any]]:
        """Yields the chunks of a stream from number `chunk` on, each with the place behind it. `place` is the place of that
        chunk. Ends at the lane's current stop or at the stream's end."""
        ...


class Published(Protocol):
    """The row counts of one epoch's chunks, as published by any rank."""

    def wait(self, chunk: int, owner: int) -> ChunkRows | None:
        """Returns the count that rank `owner` published; None if it published none in time."""
        ...

    def publish(self, chunk: int, chunk_rows: ChunkRows) -> None: ...


class FromLanes(Rows):
    def __init__(self, node: Node, order: Order, rank: int, progress: OfLanes, chunks: Chunks, published: Published) -> None:
        super().__init__(node, order, rank)
        self.progress, self.chunks, self.published = progress, chunks, published
        self.dealing, self.world, self.equal = progress.dealing, progress.world, progress.equal
        self.dealing.sizes = self._rows_of
        self.count = len(self.dealing.lanes)
        self.own = range(
            rank * self.count // self.world, -(-(rank + 1) * self.count // self.world)
        )  # the streams that this rank reads
        self._known: dict[int, ChunkRows] = {}
        self._most_known = _KNOWN
        self._readers: dict[int, _Reader] = {}

    def blocks(self) -> Iterator[Block]:
        return self._blocks(self._parts(None), lambda blocks: blocks)

    def batches(self, size: int | None, *, drop_last: bool) -> Iterator[Block]:
        blocks = self._blocks(self._parts(size), self.steady)
        return (block for block in blocks if not (drop_last and size and block.rows < size))

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yields the rows one by one, where a global batch has one row of each rank."""
        groups: deque[int] = deque()
        blocks: list[list[dict[str, Any]]] = []
        for block in self._blocks(self._turns(groups), self.waited):
            blocks.append(list(block.dicts()))
            if len(blocks) == groups[0]:
                groups.popleft()
                for rows in zip(*blocks, strict=True):
                    yield from rows
                blocks = []

    def _blocks(self, parts: Iterator[list[Cut]], steady: Callable[[Iterator[Block]], Iterator[Block]]) -> Iterator[Block]:
        """Yields each part as one block. All blocks have the same columns and types."""
        counts: deque[int] = deque()

        def read() -> Iterator[Block]:
            for cuts in parts:
                counts.append(_rows(cuts))
                for cut in cuts:
                    yield from self._reader(cut.stream).read(cut)

        held: list[Block] = []
        rows = 0
        try:
            for block in steady(read()):
                held.append(block)
                rows += block.rows
                if rows == counts[0]:
                    yield _block.concat(held)
                    held, rows = [], 0
                    counts.popleft()
        finally:
            for reader in self._readers.values():
                reader.close()

    # -- what is dealt ------------------------------------------------------------------------------------------------
    def _parts(self, size: int | None) -> Iterator[list[Cut]]:
        """Yields this rank's part of each global batch of `size` rows a rank. None: a batch has as many rows as all current
        blocks allow."""
        while True:
            self._make_own((size or 1) * self.world)
            together = self.dealing.rounds()
            each, over = divmod((size or 0) * self.world, self.count)
            if each and not over and together >= 2 * each:
                yield from self._whole_batches(each, together // each)
                continue
            together = together if size is None and self.count == self.world else 0
            cuts = self.dealing.take((size or together or AS_THEY_COME) * self.world)
            if not cuts:
                return
            part = part_of(cuts, self.world, self.rank, equal=self.equal)
            self.progress.passed(_rows(part), _rows(cuts))
            if not part:
                return
            yield part

    def _whole_batches(self, each: int, batches: int) -> Iterator[list[Cut]]:
        """Yields this rank's parts of global batches that take `each` rows from the current block of every stream."""
        before = self.dealing.copy()
        cuts = self.dealing.take(batches * each * self.count)
        first = part_of([cut._replace(stop=cut.start + each) for cut in cuts], self.world, self.rank, equal=self.equal)
        self.progress.passed(batches * _rows(first), _rows(cuts), before)
        for start in range(0, batches * each, each):
            yield [
                Cut(stream, block, after, low + start, high + start, place) for stream, block, after, low, high, place in first
            ]

    def _turns(self, groups: deque[int]) -> Iterator[list[Cut]]:
        """Yields cuts whose rows are given out in turn, one row of each stream. Appends to `groups` how many cuts belong
        together."""
        while True:
            self._make_own(self.world)
            turns = 0 if self.count % self.world else self.dealing.rounds()
            if turns:
                before = self.dealing.copy()
                cuts = self.dealing.take(turns * self.count)
                of_streams = [
                    [cut for cut in cuts if cut.stream == stream] for stream in range(self.rank, self.count, self.world)
                ]
                self.progress.passed(sum(map(_rows, of_streams)), _rows(cuts), before)
                groups.append(len(of_streams))
                yield from of_streams
                continue
            cuts = self.dealing.take(self.world)
            if not cuts:
                return
            part = part_of(cuts, self.world, self.rank, equal=self.equal)
            self.progress.passed(_rows(part), _rows(cuts))
            if not part:
                return
            groups.append(1)
            yield part

    # -- chunks -------------------------------------------------------------------------------------------------------
    def _make_own(self, rows: int) -> None:
        """Makes the chunks of this rank's streams that the next `rows` rows need, before it waits for other ranks."""
        for reader in self._readers.values():
            reader.drop_passed()
        if len(self._known) > self._most_known:
            kept = min(lane.at for lane in self.progress.newest().left.lanes)
            self._known = {chunk: chunk_rows for chunk, chunk_rows in self._known.items() if chunk >= kept}
            self._most_known = 2 * len(self._known) + _KNOWN
        each = rows // self.count + 1
        for stream in self.own if self.count > 1 else ():
            lane = self.dealing.lanes[stream]
            chunk, place, there = lane.at, lane.place, -lane.given
            while there < each and chunk != lane.stop:
                chunk_rows = self._rows_of(stream, chunk, place)
                if chunk_rows is None:
                    break
                chunk, place, there = chunk + self.chunks.step, chunk_rows.place, there + chunk_rows.rows

    def _rows_of(self, stream: int, chunk: int, place: Any) -> ChunkRows | None:
        """Returns the rows of a chunk. This rank makes the chunk if it reads the stream, or if the stream's owner publishes no
        count."""
        chunk_rows = self._known.get(chunk)
        if chunk_rows is None:
            chunk_rows = None if stream in self.own else self.published.wait(chunk, stream * self.world // self.count)
            if chunk_rows is None:
                chunk_rows = self._reader(stream).make(chunk, place) or ENDED
                if stream not in self.own:
                    self._reader(stream).drop(chunk)
                if stream not in self.own or stream * self.world // self.count == self.rank:
                    self.published.publish(chunk, chunk_rows)
            self._known[chunk] = chunk_rows
        return None if chunk_rows.rows < 0 else chunk_rows

    def _reader(self, stream: int) -> _Reader:
        if stream not in self._readers:
            self._readers[stream] = _Reader(stream, self.dealing, self.chunks, self.progress)
        return self._readers[stream]


class _Reader:
    """Makes the chunks of one stream in order. It holds the chunks that are not given out completely."""

    def __init__(self, stream: int, dealing: Dealing, chunks: Chunks, progress: OfLanes) -> None:
        self.stream, self.dealing, self.chunks = stream, dealing, chunks
        self.local: Local | None = progress.local
        self.epoch = progress.epoch
        self._held: dict[int, Block] = {}
        self._coming: Iterator[tuple[Block, Any]] | None = None
        self._next = 0  # the number of the next chunk
        self._shuffled: tuple[int, Block] | None = None

    def make(self, chunk: int, place: Any) -> ChunkRows | None:
        """Makes a chunk and holds it. Returns None if the stream ends before the chunk."""
        if self._coming is None or self._next != chunk:
            self.close()
            self._coming = self.chunks.blocks(self.stream, chunk, self.dealing.lanes[self.stream], place)
        item = next(self._coming, None)
        if item is None:
            self._coming = None
            return None
        self._held[chunk], self._next = item[0], chunk + self.chunks.step
        return ChunkRows(item[0].rows, item[1])

    def drop(self, chunk: int) -> None:
        self._held.pop(chunk, None)

    def drop_passed(self) -> None:
        """Drops the chunks before the lane's first one. Their rows were given out, by this rank or by others."""
        first = self.dealing.lanes[self.stream].at
        for chunk in list(self._held):
            if chunk == first:
                return
            self.drop(chunk)

    def read(self, cut: Cut) -> Iterator[Block]:
        """Yields the rows of a cut."""
        place = cut.place
        for chunk in range(cut.first, cut.after, self.chunks.step):
            if chunk not in self._held:
                chunk_rows = self.make(chunk, place)
                if chunk_rows is None:
                    raise RuntimeError(f"stream {self.stream} ends before chunk {chunk}, which was there: a source has changed")
                place = chunk_rows.place
        if self.local is None:
            yield from self._rows(cut)
            return
        if self._shuffled is None or self._shuffled[0] != cut.first:
            whole = _block.concat([self._held[chunk] for chunk in range(cut.first, cut.after, self.chunks.step)])
            order = _position.permutation(self.local.seed, self.epoch, 0, cut.first, whole.rows)
            self._shuffled = cut.first, whole.take(order)
        yield self._shuffled[1].slice(cut.start, cut.stop)

    def _rows(self, cut: Cut) -> Iterator[Block]:
        passed = 0
        for chunk in range(cut.first, cut.after, self.chunks.step):
            block = self._held[chunk]
            start, stop = max(cut.start - passed, 0), min(cut.stop - passed, block.rows)
            if start < stop:
                yield block.slice(start, stop)
            passed += block.rows

    def close(self) -> None:
        close = getattr(self._coming, "close", None)
        if close is not None:
            close()
        self._coming = None


def _rows(cuts: list[Cut]) -> int:
    return sum(cut.stop - cut.start for cut in cuts)
