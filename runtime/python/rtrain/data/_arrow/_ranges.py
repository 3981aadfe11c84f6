"""Computes ranges of text files and their first bytes. A range is read without parsing the lines before it.

A file of `size` bytes is cut at the bytes size * part / parts. A range begins at the first line that starts at its cut or
later, and ends where the next range begins. So each line belongs to exactly one range, and the ranges depend on the file and on
`parts` only.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

LEAST_BYTES = 2 << 20  # bytes of a range, at least
_CHUNK = 1 << 20
_NEWLINE, _RETURN = 10, 13

Places = np.ndarray[Any, Any]  # byte positions in a chunk
Start = Callable[[Any, int], int]  # (opened file, byte) -> position of the first line that starts at the byte or later


class Range(NamedTuple):
    """Part `part` of `parts` parts of a file."""

    file: int
    part: int
    parts: int

    def bytes_of(self, opened: Any, size: int, start: Start) -> tuple[int, int]:
        """Returns the first byte of the range, and the byte behind its last one."""
        first, stop = size * self.part // self.parts, size * (self.part + 1) // self.parts
        return start(opened, first) if first else 0, start(opened, stop) if stop < size else size


class Section(io.RawIOBase):
    """A stream of the bytes `start` to `stop` of an opened file. It closes the file when it is closed."""

    def __init__(self, opened: Any, start: int, stop: int) -> None:
        self._opened, self._left = opened, max(stop - start, 0)
        opened.seek(start)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        size = self._left if size is None or size < 0 else min(size, self._left)
        content = bytes(self._opened.read(size)) if size else b""
        self._left -= len(content)
        return content

    def readinto(self, buffer: Any) -> int:
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        if not self.closed:
            self._opened.close()
        super().close()


def line_start(opened: Any, byte: int) -> int:
    """Returns where the first line begins that starts at `byte` or later; the file's size if none does."""
    place = byte - 1
    for chunk in _chunks(opened, place):
        newline = chunk.find(b"\n")
        if newline >= 0:
            return place + newline + 1
        place += len(chunk)
    return place


class QuotedStarts:
    """Finds where rows of one CSV file begin if values may have newlines between quotes.

    All quotes before a newline decide whether it lies between quotes. They are read once, in file order. A quote that neither
    opens nor closes a value can only be interpreted by a parser, so no row after such a quote is a start.
    """

    def __init__(self, quote: str, delimiter: str) -> None:
        self._quote, self._delimiter = ord(quote), ord(delimiter)
        self._passed, self._before = 0, _NEWLINE  # the bytes that were read, and the last one of them
        self._inside = 0  # 1: between quotes
        self._unclear = False  # True: only a parser finds the starts of later rows
        self._starts: dict[int, int] = {}
        self._beside = np.zeros(256, bool)
        self._beside[[self._quote, self._delimiter, _NEWLINE, _RETURN]] = True

    def __call__(self, opened: Any, byte: int) -> int:
        """Returns where the first row begins that starts at `byte` or later. Returns the file's size if there is none, or if
        only a parser can find it. Calls with rising `byte` are fastest."""
        if byte not in self._starts:
            reader = self if byte > self._passed else QuotedStarts(chr(self._quote), chr(self._delimiter))
            self._starts[byte] = reader._find(opened, byte)
        return self._starts[byte]

    def _find(self, opened: Any, byte: int) -> int:
        # A newline at byte - 1 makes `byte` a start, so the bytes before that newline are skipped.
        for chunk in _chunks(opened, self._passed, byte - 1):
            self._pass(chunk, self._quotes(chunk), opened)
        opened.seek(0, io.SEEK_END)
        size = int(opened.tell())
        ahead = copy.copy(self)
        for chunk in _chunks(opened, self._passed):
            quotes = ahead._quotes(chunk)
            end = ahead._end_of_row(chunk, quotes)
            if end is None:
                ahead._pass(chunk, quotes, opened)
            else:
                ahead._unclear = ahead._unclear or ahead._is_unclear(chunk[:end], quotes[quotes < end], b"")
            if ahead._unclear:
                return size
            if end is not None:
                return ahead._passed + end
        return size

    def _quotes(self, chunk: bytes) -> Places:
        return np.flatnonzero(np.frombuffer(chunk, np.uint8) == self._quote)

    def _end_of_row(self, chunk: bytes, quotes: Places) -> int | None:
        """Returns the byte behind the first newline that is not between quotes."""
        newlines = np.flatnonzero(np.frombuffer(chunk, np.uint8) == _NEWLINE)
        outside = newlines[(np.searchsorted(quotes, newlines) + self._inside) % 2 == 0]
        return int(outside[0]) + 1 if len(outside) else None

    def _pass(self, chunk: bytes, quotes: Places, opened: Any) -> None:
        """Counts the quotes of the next chunk."""
        following = b""
        if chunk[-1] == self._quote:
            opened.seek(self._passed + len(chunk))
            following = bytes(opened.read(1))
        self._unclear = self._unclear or self._is_unclear(chunk, quotes, following)
        self._inside = (len(quotes) + self._inside) % 2
        self._passed, self._before = self._passed + len(chunk), chunk[-1]

    def _is_unclear(self, chunk: bytes, quotes: Places, following: bytes) -> bool:
        """Returns True if a quote neither opens a value nor closes one nor stands beside another quote. following: the bytes
        after the chunk."""
        if not len(quotes):
            return False
        padded = np.frombuffer(bytes([self._before]) + chunk + (following or b"\n"), np.uint8)
        before, after = padded[quotes[self._inside :: 2]], padded[quotes[1 - self._inside :: 2] + 2]
        return not (self._beside[before].all() and self._beside[after].all())


def _chunks(opened: Any, start: int, stop: int | None = None) -> Iterator[bytes]:
    """Yields the bytes from `start` on, up to `stop`. The caller may move the file's position."""
    while stop is None or start < stop:
        opened.seek(start)
        chunk = bytes(opened.read(_CHUNK if stop is None else min(_CHUNK, stop - start)))
        if not chunk:
            return
        yield chunk
        start += len(chunk)
