"""How many threads make the pieces of a node. Their number doubles while that pays, and is taken back where it did not:
functions that hold Python's interpreter gain nothing, and only disturb the loop.

The throughput of n threads is n divided by the time that one thread takes for a row. It does not depend on how fast the loop
takes the rows.
"""

from __future__ import annotations

import math
import threading
import time

from rtrain.data._making._cpus import Idle, most_threads

GAIN = 0.3  # of each further thread, as a part of what one thread does; with less the number is taken back
_AGAIN_S = 30.0  # a number that was found is looked at again, as other work on the node ends
_LOOK_S = 0.05  # of idle CPUs, which the kernel counts in steps of 10 ms
_CHUNK_S = 0.02  # what a thread takes at once of a piece's rows


class Gain:
    """asked: the greatest number of threads by the user's word; None: as many as the CPUs allow."""

    def __init__(self, asked: int | None = None) -> None:
        self.most = most_threads() if asked is None else asked
        self.threads = 1 if asked is None else asked
        self.largest = 0  # bytes of the largest piece that was made
        self._lock = threading.Lock()
        self._before: tuple[int, float] | None = None  # a smaller number of threads, and its throughput
        self._samples: list[tuple[int, float]] = []
        self._row_s = 0.0
        self._settled_until = 0.0 if asked is None else math.inf
        self._idle: Idle | None = None

    def chunk(self, rows: int) -> int:
        """Returns how many of a piece's rows a thread takes at once."""
        if not self._row_s:
            return min(rows, 8)
        return max(1, min(rows, int(_CHUNK_S / self._row_s)))

    def made(self, rows: int, seconds: float, threads: int, busy: int) -> None:
        """Takes what a thread did. threads: the number that was in force when it began. busy: threads that worked meanwhile."""
        with self._lock:
            if rows:
                self._row_s = seconds / rows
            if threads != self.threads or busy < threads or not rows:
                return
            self._samples.append((rows, seconds))
            now = time.monotonic()
            if now >= self._settled_until and len(self._samples) >= max(2, threads):
                self._decide(now)

    def took(self, nbytes: int) -> None:
        self.largest = max(self.largest, nbytes)

    def _decide(self, now: float) -> None:
        throughput = (
            self.threads * sum(rows for rows, _ in self._samples) / max(1e-9, sum(seconds for _, seconds in self._samples))
        )
        if self.threads == 1:  # the first calls also import modules
            throughput = max(rows / max(1e-9, seconds) for rows, seconds in self._samples)
        if self._before is not None and not pays(self._before, (self.threads, throughput)):
            self._set(self._before[0])
            self._before, self._settled_until = None, now + _AGAIN_S
            return
        more = self._next()
        if more is None:
            return
        if more > self.threads:
            self._before = self.threads, throughput
            self._set(more)
        else:
            self._before, self._settled_until = None, now + _AGAIN_S
            self._samples.clear()

    def _next(self) -> int | None:
        """Returns the next number of threads: two, then as many more as CPUs are idle. None: the CPUs are looked at again."""
        if self.threads < 2:
            return min(2, self.most)
        idle = Idle.now()
        if self._idle is None or idle.at - self._idle.at < _LOOK_S:
            self._idle = self._idle or idle
            return None
        free, self._idle = idle.cpus_since(self._idle), None
        return min(2 * self.threads, self.most, self.threads + int(free))

    def _set(self, threads: int) -> None:
        self.threads = threads
        self._samples.clear()
        self._idle = Idle.now() if threads > 1 else None


def pays(before: tuple[int, float], after: tuple[int, float]) -> bool:
    """Returns True if the threads that were added brought enough. Each pair is a number of threads and its throughput."""
    return after[1] >= before[1] * (1 + GAIN * (after[0] / before[0] - 1))
