"""The chunks of packed and mixed rows. They can only be made in order, so a stream is read from a place on."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterator
from typing import Any

from rtrain.data._block import Block
from rtrain.data._dealing._from_lanes import Chunks
from rtrain.data._dealing._lanes import Lane
from rtrain.data._in_streams import _sequences
from rtrain.data._in_streams._found import Found
from rtrain.data._joins import Rebatched
from rtrain.data._making._made import Task, made
from rtrain.data._plan import Mapped, Node, Order, Piece, Read, changed


def is_dealt_from_lanes(node: Node) -> bool:
    """Returns True if only reading finds the row count, and ranks share the rows without counting."""
    return not node.positioned and (_has_places(node) or _sequences.has_chunks(node))


def _has_places(node: Node) -> bool:
    if isinstance(node, Found):
        return all(child.positioned or is_dealt_from_lanes(child) for child in node.children)
    return isinstance(node, Mapped | Rebatched) and _has_places(node.children[0])


def chunks_of(node: Node, order: Order) -> Chunks:
    return ByPlace(node, order) if _has_places(node) else _sequences.chunks_of(node, order)


def layout(node: Node) -> int:
    """Returns a number that depends on the input of a node (its files or rows in memory), as far as it is known before reading."""
    if isinstance(node, Read):
        groups = node.source.groups()
        return zlib.crc32(repr([group.pieces if node.source.sized else None for group in groups]).encode())
    return zlib.crc32(repr([layout(child) for child in node.children]).encode())


class ByPlace:
    def __init__(self, node: Node, order: Order) -> None:
        self.order, self.step = order, order.streams
        self.functions: list[Mapped] = []
        while not isinstance(node, Found):
            if isinstance(node, Mapped):
                self.functions.insert(0, node)
            node = node.children[0]
        self.found = node

    def lanes(self) -> list[Lane]:
        return [Lane(stream, None) for stream in range(self.order.streams)]

    def blocks(self, stream: int, chunk: int, lane: Lane, place: Any) -> Iterator[tuple[Block, Any]]:
        behind: deque[Any] = deque()

        def tasks() -> Iterator[Task | Block]:
            for number, (block, after) in enumerate(self.found.of_stream(self.order, stream, place), chunk // self.step):
                behind.append(after)
                yield self._applied(block, Piece((stream, number), block.rows))

        return ((block, behind.popleft()) for block in made(tasks()))

    def _applied(self, block: Block, piece: Piece) -> Task | Block:
        item: Task | Block = block
        for mapped in self.functions:
            item, piece = self._mapped(mapped, item, piece), Piece(piece, -1)
        return item

    def _mapped(self, mapped: Mapped, item: Task | Block, piece: Piece) -> Task | Block:
        apply = mapped.apply if mapped.gain is None else mapped.carried_out
        return changed(item, lambda block: apply(block, piece, self.order), mapped.gain)
