"""Fetches parts of remote files, each by its own request, several requests at the same time.

A connection to an object store has a latency of tens of milliseconds and a limited rate; several connections together are
faster. A failed request is repeated. A request that is slow compared with the others is sent a second time, and the first
answer counts. If no answer is received within the deadline, the reader gets an error, so that a dead connection does not block
a training run.
"""

from __future__ import annotations

import os
import queue
import statistics
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from pyarrow import fs

PART_BYTES = 4 << 20
CONNECTIONS = 8  # simultaneous requests of one reader, without second requests
DEADLINE_S = 120.0  # seconds from the first request for a part until its bytes are received
_TRIES = 4
_PAUSE_S = 0.25  # seconds before the first repetition; doubles with each one
_SECOND_AFTER_S = 5.0  # seconds until a second request is sent, while few answers are known
_SLOW = 3.0  # A request is slow if it takes so many times the median of the answers.
_SECOND_AT_LEAST_S = 0.5
_ANSWERS_KNOWN = 4
_IDLE_S = 2.0  # seconds after which a thread without work ends
_HANDLES = 16


@dataclass(eq=False)
class Part:
    """Bytes `offset` to `offset + length` of a file, or fewer at the end of the file."""

    path: str
    offset: int
    length: int
    _there: threading.Event = field(default_factory=threading.Event, repr=False)
    _content: bytes | None = field(default=None, repr=False)
    _error: Exception | None = field(default=None, repr=False)
    _begun: float | None = field(default=None, repr=False)

    def finish(self, content: bytes | None, error: Exception | None = None) -> None:
        """Sets the bytes or the error. Later calls have no effect."""
        if not self._there.is_set():
            self._content, self._error = content, error
            self._there.set()

    @property
    def finished(self) -> bool:
        return self._there.is_set()


class Parts:
    """Fetches parts of the files of one file system. It is thread-safe."""

    def __init__(self, system: Any, connections: int = CONNECTIONS, deadline_s: float = DEADLINE_S) -> None:
        self.system, self.connections, self.deadline_s = system, connections, deadline_s
        self._begin_in_this_process()

    def _begin_in_this_process(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._requests: queue.SimpleQueue[Part] = queue.SimpleQueue()
        self._threads = self._idle = 0
        self._handles: dict[str, Any] = {}
        self._answers: deque[float] = deque(maxlen=32)  # the seconds of the last requests for whole parts

    def fetch(self, path: str, offset: int, length: int) -> Part:
        """Begins to fetch a part; `content` waits for it."""
        if self._process != os.getpid():  # A forked child has none of the threads.
            self._begin_in_this_process()
        part = Part(path, offset, length)
        self._requests.put(part)
        with self._lock:
            if self._idle < self._requests.qsize() and self._threads < self.connections:
                self._threads += 1
                threading.Thread(target=self._serve, name="rtrain-fetch", daemon=True).start()
        return part

    def content(self, part: Part) -> bytes:
        """Waits for the bytes of a part.

        Raises:
            TimeoutError: the bytes were not received within `deadline_s`.
            Exception: the file system's own error; for an OSError, after several tries.
        """
        waits_since, second_sent = time.monotonic(), False
        while not part.finished:
            since = waits_since if part._begun is None else part._begun
            passed = time.monotonic() - since
            if passed >= self.deadline_s:
                part.finish(None, self._too_late(part))
            elif not second_sent and passed >= self._second_after():
                second_sent = True  # Also counts for a part that waits behind requests without an answer.
                threading.Thread(target=self._get, args=(part,), name="rtrain-fetch-again", daemon=True).start()
            else:
                limit = self.deadline_s if second_sent else min(self._second_after(), self.deadline_s)
                part._there.wait(max(limit - passed, 0.001))
        if part._error is not None:
            raise part._error
        assert part._content is not None
        return part._content

    def _too_late(self, part: Part) -> OSError:
        return TimeoutError(
            f"{part.path}: the file system has not sent bytes {part.offset} to {part.offset + part.length} within "
            f"{self.deadline_s:.0f} s; is it reachable from this node?"
        )

    def _second_after(self) -> float:
        answers = list(self._answers)
        if len(answers) < _ANSWERS_KNOWN:
            return _SECOND_AFTER_S
        return max(_SLOW * statistics.median(answers), _SECOND_AT_LEAST_S)

    def _serve(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            try:
                part = self._requests.get(timeout=_IDLE_S)
            except queue.Empty:
                with self._lock:
                    if self._requests.empty():
                        self._idle -= 1
                        self._threads -= 1
                        return
                    self._idle -= 1
                continue
            with self._lock:
                self._idle -= 1
            self._get(part)

    def _get(self, part: Part) -> None:
        if part._begun is None:
            part._begun = time.monotonic()
        for number in range(_TRIES):
            if part.finished:
                return
            begun = time.monotonic()
            try:
                content = self._read(part)
            except Exception as error:  # noqa: BLE001: raised where the bytes are waited for
                is_final = isinstance(error, FileNotFoundError | PermissionError) or not isinstance(error, OSError)
                if is_final or number == _TRIES - 1:
                    part.finish(None, error)
                else:
                    part._there.wait(_PAUSE_S * 2**number)
                continue
            if len(content) == PART_BYTES:
                self._answers.append(time.monotonic() - begun)
            part.finish(content)

    def _read(self, part: Part) -> bytes:
        if isinstance(self.system, fs.PyFileSystem):  # Each file object has a position, so each request opens its own.
            with self.system.open_input_file(part.path) as opened:
                opened.seek(part.offset)
                return bytes(opened.read(part.length))
        with self._lock:
            opened = self._handles.get(part.path)
        if opened is None:
            opened = self.system.open_input_file(part.path)
            with self._lock:
                self._handles[part.path] = opened
                while len(self._handles) > _HANDLES:
                    self._handles.pop(next(iter(self._handles)))
        return bytes(opened.read_at(part.length, part.offset))


def in_parts(start: int, stop: int) -> list[tuple[int, int]]:
    """Returns the offset and the length of each part of a range."""
    return [(at, min(PART_BYTES, stop - at)) for at in range(start, stop, PART_BYTES)]
