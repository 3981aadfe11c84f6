"""Fetches remote groups before they are read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from rtrain.data._block import Block
from rtrain.data._source import Source

_GROUPS = 8
_BYTES = 64 << 20


@runtime_checkable
class Fetching(Protocol):
    """A run that may fetch groups before they are read."""

    def expect(self, groups: Sequence[int]) -> None:
        """Sets the order in which groups are read. A group may come several times."""
        ...


class Ahead:
    """Opens the groups of a source for one run, and begins to fetch the groups that the run reads next."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._fetched: dict[Any, Callable[[int], Iterator[Block]]] = {}
        self._coming: list[int] | None = None  # the groups in the order in which they are read; None: the source's order

    def expect(self, groups: Sequence[int]) -> None:
        """Sets the order in which groups are read. A group may come several times."""
        self._coming = list(dict.fromkeys(groups))

    def open(self, group: Any, piece: int, are_open: Collection[Any]) -> Iterator[Block]:
        """Returns the group's blocks from a piece on. are_open: groups that need not be fetched."""
        begun = self._fetched.pop(group, None) or self._source.begin(group)
        if self._source.far_bytes(group):
            self._fetch(self._following(group)[:_GROUPS], are_open)
        return begun(piece)

    def _following(self, group: int) -> Sequence[int]:
        if self._coming is None:
            return range(group + 1, len(self._source.groups()))
        return self._coming[self._coming.index(group) + 1 :] if group in self._coming else ()

    def _fetch(self, groups: Sequence[int], are_open: Collection[int]) -> None:
        self._fetched = {group: begun for group, begun in self._fetched.items() if group in groups}
        nbytes = 0
        for group in groups:
            nbytes += self._source.far_bytes(group)
            if nbytes > _BYTES:
                return
            if group not in self._fetched and group not in are_open:
                self._fetched[group] = self._source.begin(group)
