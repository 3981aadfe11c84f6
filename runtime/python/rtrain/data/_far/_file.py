"""Remote files as file objects of Python, which read fetched parts."""

from __future__ import annotations

import bisect
import io
from collections import deque
from collections.abc import Sequence
from typing import Any

from rtrain.data._far._parts import PART_BYTES, Part, Parts, in_parts

_STREAM_AHEAD = 4  # the number of parts that a stream fetches ahead


class RandomFile(io.RawIOBase):
    """A file with random access. Its `ranges` (start and stop, sorted, without overlaps) are fetched at once, and each part is
    held until the file is closed. Other bytes are fetched when they are read, and not held."""

    def __init__(self, parts: Parts, path: str, size: int, ranges: Sequence[tuple[int, int]] = ()) -> None:
        self._parts, self._path, self._size, self._at = parts, path, size, 0
        cuts = [cut for start, stop in ranges for cut in in_parts(start, min(stop, size))]
        self._starts = [offset for offset, _ in cuts]
        self._fetched: list[Part] = [parts.fetch(path, offset, length) for offset, length in cuts]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        from_where = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, from_where + offset)
        return self._at

    def read(self, size: int = -1) -> bytes:
        stop = self._size if size is None or size < 0 else min(self._at + size, self._size)
        pieces: list[bytes] = []
        while self._at < stop:
            piece = self._some(self._at, stop)
            if not piece:
                break  # The file was truncated after it was opened.
            pieces.append(piece)
            self._at += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def readinto(self, buffer: Any) -> int:
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def _some(self, at: int, stop: int) -> bytes:
        """Returns at least one byte from `at` on, before `stop`."""
        number = bisect.bisect_right(self._starts, at) - 1
        if number >= 0:
            part = self._fetched[number]
            if at < part.offset + part.length:
                return self._parts.content(part)[at - part.offset : stop - part.offset]
        following = self._starts[number + 1] if number + 1 < len(self._starts) else self._size
        return self._parts.content(self._parts.fetch(self._path, at, min(stop, following, at + PART_BYTES) - at))

    def close(self) -> None:
        self._fetched, self._starts = [], []
        super().close()


class SequentialFile(io.RawIOBase):
    """A file that is read in order, from byte `start` to byte `stop`."""

    def __init__(self, parts: Parts, path: str, stop: int, start: int = 0) -> None:
        self._parts, self._path = parts, path
        self._to_fetch = deque(in_parts(start, stop))
        self._fetched: deque[Part] = deque()
        self._content, self._at = b"", 0  # the bytes and the position of the current part

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if size is None or size < 0:
            return b"".join(iter(lambda: self.read(PART_BYTES), b""))
        while self._at == len(self._content):
            while self._to_fetch and len(self._fetched) < _STREAM_AHEAD:
                self._fetched.append(self._parts.fetch(self._path, *self._to_fetch.popleft()))
            if not self._fetched:
                return b""
            self._content, self._at = self._parts.content(self._fetched.popleft()), 0
            if not self._content:
                return b""  # The file was truncated after it was opened.
        content = self._content[self._at : self._at + size]
        self._at += len(content)
        return content

    def readinto(self, buffer: Any) -> int:
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)
