"""Decides how many threads make the pieces of a node. The number doubles while that pays, and is reduced if it did not.
Functions that hold Python's interpreter lock gain nothing from threads, and slow down the loop.

The throughput of n threads is n divided by the time that one thread takes for a row. It does not depend on how fast the loop
takes the rows.
"""

from __future__ import annotations

import math
import threading
import time

from rtrain.data._making._cpus import Idle, cpus_of_rank, free_memory, most_threads
from rtrain.data._making._processes._crew import Crew, Work
from rtrain.data._making._processes._rule import Limits

GAIN = 0.3  # the gain of each further thread, as a fraction of one thread's throughput; the number is reduced if the gain is less
_AGAIN_S = 30.0  # seconds until a decision is repeated, because other work on the node may have ended
_LOOK_S = 0.05  # seconds for a measurement of idle CPUs; the kernel counts in steps of 10 ms
_NO_LIMITS = Limits()
_CHUNK_S = 0.02  # seconds of work that a thread takes at once from a piece


class Gain:
    """The number of threads that make the pieces of a node, and by its crews the number of processes.

    speedup: the throughput of the current threads as a multiple of one thread's; None while it is being measured.
    """

    def __init__(self, limits: Limits = _NO_LIMITS) -> None:
        self._limits = limits
        self.most = _most_threads(limits)
        self.speedup: float | None = None
        self.largest = 0  # bytes of the largest piece that was made
        self._threads = 1
        self._one = 0.0  # throughput of one thread
        self._crews: dict[tuple[int, int], Crew] = {}
        self._lock = threading.Lock()
        self._before: tuple[int, float] | None = None  # a smaller number of threads, and its throughput
        self._samples: list[tuple[int, float]] = []
        self._row_s = 0.0
        self._settled_until = 0.0
        self._idle: Idle | None = None

    @property
    def threads(self) -> int:
        """Returns the number of threads of the rank. Threads that wait for processes have the next pieces ready for them."""
        processes = sum(crew.processes for crew in self._crews.values())
        return max(processes + 1, self._limits.asked or 1) if processes else self._threads

    def crew(self, work: Work) -> Crew:
        """Returns the crew that decides where these functions are carried out."""
        with self._lock:
            if work.key not in self._crews:
                self._crews = {
                    **self._crews,
                    work.key: Crew(work, self._limits, self),
                }  # One assignment, because other threads read it.
            return self._crews[work.key]

    def cancel(self, owner: int) -> None:
        """Releases threads of an iteration that wait for processes."""
        for crew in self._crews.values():
            crew.cancel(owner)

    def chunk(self, rows: int) -> int:
        """Returns how many rows of a piece a thread takes at once."""
        if not self._row_s:
            return min(rows, 1 if self._limits.asked else 8)
        return max(1, min(rows, int(_CHUNK_S / self._row_s)))

    def made(self, rows: int, seconds: float, threads: int, busy: int) -> None:
        """Records the work of a thread. threads: the number of threads at its beginning. busy: threads that worked at the same
        time."""
        with self._lock:
            if rows:
                self._row_s = seconds / rows
            if threads != self.threads or busy < threads or not rows or any(crew.processes for crew in self._crews.values()):
                return
            self._samples.append((rows, seconds))
            now = time.monotonic()
            if now >= self._settled_until and len(self._samples) >= max(2, threads):
                self._decide(now)

    def took(self, nbytes: int) -> None:
        self.largest = max(self.largest, nbytes)

    def _decide(self, now: float) -> None:
        throughput = (
            self._threads * sum(rows for rows, _ in self._samples) / max(1e-9, sum(seconds for _, seconds in self._samples))
        )
        if self._threads == 1:  # The first calls also import modules.
            throughput = self._one = max(rows / max(1e-9, seconds) for rows, seconds in self._samples)
            if not all(crew.is_measured for crew in self._crews.values()):
                return
        if self._limits.asked is not None:
            self._decide_asked(self._limits.asked, throughput)
            return
        if self._before is not None and not pays(self._before, (self._threads, throughput)):
            threads, throughput = self._before
            self._settle(now, throughput)
            self._set(threads)
            return
        more = self._next()
        if more is None:
            return
        if more > self._threads:
            self._before, self.speedup = (self._threads, throughput), None
            self._set(more)
        else:
            self._settle(now, throughput)
            self._samples.clear()

    def _decide_asked(self, asked: int, throughput: float) -> None:
        """Applies the user's number of threads once the throughput of one thread is known."""
        if self._threads < asked:
            self._set(asked)
            return
        self._settle(math.inf, throughput)

    def _settle(self, now: float, throughput: float) -> None:
        self.speedup = throughput / self._one if self._one else 1.0
        self._before, self._settled_until = None, now + _AGAIN_S

    def _next(self) -> int | None:
        """Returns the next number of threads: two, later as many more as CPUs are idle. None: the CPUs are measured again."""
        if self._threads < 2:
            return min(2, self.most)
        idle = Idle.now()
        if self._idle is None or idle.at - self._idle.at < _LOOK_S:
            self._idle = self._idle or idle
            return None
        free, self._idle = idle.cpus_since(self._idle), None
        return min(2 * self._threads, self.most, self._threads + int(free))

    def _set(self, threads: int) -> None:
        self._threads = threads
        self._samples.clear()
        self._idle = Idle.now() if threads > 1 else None


def _most_threads(limits: Limits) -> int:
    if limits.asked is not None:
        return limits.asked
    most = most_threads()
    if limits.num_cpus > 1:
        most = min(most, int(cpus_of_rank() / limits.num_cpus))
    if limits.memory:
        most = min(most, free_memory() // limits.memory)
    return max(1, most)


def pays(before: tuple[int, float], after: tuple[int, float]) -> bool:
    """Returns True if the added threads gained enough. Each pair is a number of threads and its throughput."""
    return after[1] >= before[1] * (1 + GAIN * (after[0] / before[0] - 1))
