"""The processes of one rank. For each process, a thread of the rank sends jobs and receives the results.

A job is given to one process. If a process ends, the job that it worked on is repeated alone in a new process. Jobs that were
sent ahead return to the front of the queue. A job during which two processes end fails.
"""

from __future__ import annotations

import atexit
import itertools
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol

from rtrain.data._block import Block
from rtrain.data._making._processes import _blocks, _memory, _wire
from rtrain.data._making._processes._process import Died, Process
from rtrain.data._making._processes._wire import Kind

IDLE_S = 300.0  # seconds after which a process without a job ends
_AHEAD = 2  # jobs that a process has: the current one and the next one
_STARTS = 3  # consecutive processes of a thread that end before they are ready, until the thread gives up
numbers = itertools.count(1)

Place = tuple[int, ...]  # seed, epoch, and further numbers that identify the position of a piece


class Refused(RuntimeError):
    """The process could not carry out a job. The text is the traceback of that process."""


class Lost(RuntimeError):
    """Two processes ended during the job. The text says how."""


class Cancelled(RuntimeError):
    """The rows are not needed any more."""


class NoProcesses(RuntimeError):
    """There are no processes any more."""


@dataclass(frozen=True, eq=False)
class Shipped:
    """Functions in sealed memory. They are sent to each process once."""

    number: int
    memory: int


@dataclass(eq=False)
class Job:
    """Rows of the piece at `place`, of which the first has number `first`. owner: the iteration that needs the rows."""

    shipped: Shipped
    block: Block
    place: Place
    first: int
    owner: int
    future: Future[Block] = field(default_factory=Future)
    number: int = field(default_factory=numbers.__next__)
    deaths: int = 0  # the number of processes that ended during the job


class Watcher(Protocol):
    """Receives the measurements of a pool's threads."""

    def on_ready(self, processes: int, wanted: int) -> None: ...
    def on_made(self, rows: int, seconds: float, rank_s: float) -> None: ...
    def on_broken(self, why: str) -> None: ...


class Pool:
    def __init__(self, watcher: Watcher) -> None:
        self._watcher = weakref.ref(watcher)  # The threads hold the pool, and must not keep a dataset alive.
        self._changed = threading.Condition()
        self._queue: deque[Job] = deque()
        self._jobs: dict[int, Job] = {}  # the jobs that a thread waits for
        self._threads: list[threading.Thread] = []  # the threads whose processes take jobs
        self._running: set[threading.Thread] = set()  # these threads, and those whose processes are ending
        self._busy: set[Process | None] = set()
        self._ready = self._idle = self._wanted = 0
        self._pid = os.getpid()
        _pools.add(self)

    # -- for the threads that need rows -------------------------------------------------------------------------------
    def resize(self, wanted: int) -> None:
        """Starts or ends processes until there are `wanted`, without waiting. A process ends when it is idle."""
        with self._changed:
            self._wanted = wanted
            self._fill()
            self._changed.notify_all()

    def submit(self, job: Job) -> None:
        with self._changed:
            if not self._wanted:
                job.future.set_exception(NoProcesses())
                return
            self._fill()
            self._jobs[job.number] = job
            self._queue.append(job)
            self._changed.notify()

    def cancel(self, jobs: Iterable[Job]) -> None:
        """Releases the threads that wait for these jobs. The results of these jobs are dropped."""
        with self._changed:
            self._drop([job for job in jobs if job.number in self._jobs], Cancelled())

    def cancel_owner(self, owner: int) -> None:
        with self._changed:
            self._drop([job for job in self._jobs.values() if job.owner == owner], Cancelled())

    def close(self) -> None:
        """Ends the processes, also during a job, and waits for them."""
        if os.getpid() != self._pid:
            return
        with self._changed:
            self._wanted = 0
            self._drop(list(self._jobs.values()), Cancelled())
            threads = list(self._running)
            for process in self._busy:
                if process is not None:
                    process.kill()
            self._changed.notify_all()
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    def _fill(self) -> None:
        for _ in range(len(self._threads), self._wanted):
            thread = threading.Thread(target=self._run, name="rtrain-data-process", daemon=True)
            self._threads.append(thread)
            self._running.add(thread)
            thread.start()

    def _drop(self, jobs: list[Job], why: Exception) -> None:
        for job in jobs:
            del self._jobs[job.number]
            if job in self._queue:
                self._queue.remove(job)
            job.future.set_exception(why)

    # -- the thread of a process --------------------------------------------------------------------------------------
    def _run(self) -> None:
        try:
            self._serve()
        finally:
            with self._changed:
                self._running.discard(threading.current_thread())

    def _serve(self) -> None:
        """Starts a process, and a new one if it ends, until there are too many or there is no work."""
        alone: Job | None = None  # the job during which a process ended
        starts = 0
        while not self._leaves(alone):
            process: Process | None = None
            flight: deque[Job] = deque()
            is_ready = False
            try:
                process = Process()
                process.wait_until_ready()
                is_ready, starts = True, 0
                self._count_ready(1)
                if alone is not None:
                    job, alone = alone, None
                    self._send(process, job, flight)
                    self._take_answers(process, flight)
                self._work(process, flight)
                self._count_ready(-1)
                process.end(is_idle=True)
                return
            except Exception as error:  # After any error, the jobs are made elsewhere.
                if process is not None:
                    process.end()
                if is_ready:
                    self._count_ready(-1)
                alone = self._after_death(process, flight, str(error)) or alone
                starts += not is_ready
                if starts >= _STARTS or process is None:
                    self._give_up(alone, str(error))
                    return

    def _leaves(self, alone: Job | None) -> bool:
        with self._changed:
            has_work = bool(self._queue) or (alone is not None and alone.number in self._jobs)
            if len(self._threads) <= self._wanted or has_work:
                return False
            self._threads.remove(threading.current_thread())
            return True

    def _work(self, process: Process, flight: deque[Job]) -> None:
        """Sends jobs to the process until it is to end."""
        while True:
            while len(flight) < _AHEAD and (job := self._next(is_idle=not flight)) is not None:
                self._send(process, job, flight)
            if not flight:
                return
            self._take_answers(process, flight)

    def _next(self, *, is_idle: bool) -> Job | None:
        """Returns the next job. None: an idle process is to end, a busy one gets no job ahead."""
        with self._changed:
            while True:
                if len(self._queue) > (0 if is_idle else self._idle):
                    return self._queue.popleft()
                if not is_idle:
                    return None
                if len(self._threads) > self._wanted:
                    break
                self._idle += 1
                is_notified = self._changed.wait(IDLE_S)
                self._idle -= 1
                if not is_notified and not self._queue:
                    break
            self._threads.remove(threading.current_thread())
            return None

    def _send(self, process: Process, job: Job, flight: deque[Job]) -> None:
        begun = time.thread_time()
        try:
            memory = _blocks.sealed(job.block, (job.shipped.number, job.place, job.first))
        except Exception as error:  # Pickling a value may raise any error.
            self._resolve(job, Refused(f"its rows cannot be sent: {type(error).__name__}: {error}"))
            return
        try:
            if job.shipped.number not in process.loaded:
                process.send(Kind.LOAD, job.shipped.number, job.shipped.memory)
                process.loaded.add(job.shipped.number)
            process.send(Kind.MAKE, job.number, memory)
        except Died:
            if job.deaths:
                flight.append(job)  # the second process of the job
            else:
                self._put_back([job])  # The process did not receive the job.
            raise
        finally:
            os.close(memory)
        process.rank_s += time.thread_time() - begun
        flight.append(job)
        with self._changed:
            self._busy.add(process)

    def _take_answers(self, process: Process, flight: deque[Job]) -> None:
        """Receives the answer to the oldest job, if there is one."""
        if flight:
            self._take_answer(process, flight)
        if not flight:
            with self._changed:
                self._busy.discard(process)

    def _take_answer(self, process: Process, flight: deque[Job]) -> None:
        kind, number, memory = process.receive()
        if memory is None:
            raise _wire.Stranger(f"process {process.pid} sent {kind.name} without memory")
        begun = time.thread_time()
        try:
            if kind not in (Kind.MADE, Kind.FAILED) or number != flight[0].number:
                raise _wire.Stranger(f"process {process.pid} sent {kind.name} {number}")
            if kind == Kind.FAILED:
                text = bytes(_memory.opened(memory)[0]).decode(errors="replace")
                self._resolve(flight.popleft(), Refused(text))
                return
            block, seconds = _blocks.opened(memory)
        finally:
            os.close(memory)
        job = flight.popleft()
        rank_s, process.rank_s = process.rank_s + time.thread_time() - begun, 0.0
        watcher = self._watcher()
        if watcher is not None and process.answered:  # The first job also imports modules.
            watcher.on_made(job.block.rows, seconds, rank_s)
        process.answered += 1
        self._resolve(job, block)

    def _resolve(self, job: Job, result: Block | Exception) -> None:
        with self._changed:
            is_wanted = self._jobs.pop(job.number, None) is not None
        if not is_wanted:
            return
        if isinstance(result, Block):
            job.future.set_result(result)
        else:
            job.future.set_exception(result)

    def _put_back(self, jobs: list[Job]) -> None:
        with self._changed:
            self._queue.extendleft(job for job in reversed(jobs) if job.number in self._jobs)
            self._changed.notify_all()

    def _after_death(self, process: Process | None, flight: deque[Job], how: str) -> Job | None:
        """Returns the job during which the process ended. It is repeated alone."""
        with self._changed:
            self._busy.discard(process)
        if not flight:
            return None
        first, *others = flight
        self._put_back(others)
        first.deaths += 1
        if first.deaths < 2:
            return first
        self._resolve(first, Lost(how))
        return None

    def _count_ready(self, change: int) -> None:
        with self._changed:
            self._ready += change
            ready, wanted = self._ready, self._wanted
        watcher = self._watcher()
        if watcher is not None and change > 0:
            watcher.on_ready(ready, wanted)

    def _give_up(self, alone: Job | None, why: str) -> None:
        """Ends the thread because no process can be started."""
        if alone is not None:
            self._resolve(alone, Lost(f"its process ended, and no other one could be started: {why}"))
        with self._changed:
            self._threads.remove(threading.current_thread())
            self._wanted = min(self._wanted, len(self._threads))
            ready, wanted = self._ready, self._wanted
            if not self._threads:
                self._drop(list(self._jobs.values()), NoProcesses())
        watcher = self._watcher()
        if watcher is not None and ready:
            watcher.on_ready(ready, wanted)
        elif watcher is not None and not wanted:
            watcher.on_broken(why)


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def close_all() -> None:
    """Ends all child processes of this module, and waits for them."""
    for pool in list(_pools):
        pool.close()


atexit.register(close_all)
