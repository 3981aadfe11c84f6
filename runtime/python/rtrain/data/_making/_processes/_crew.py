"""Decides where the functions of one node are carried out, and lets processes do it where that pays.

    in the rank ──foreseen to gain──► starting ──all ready──► on trial ──gains──► kept
         ▲                               │                        │
         └──────── no process, no gain ──┴────────────────────────┘

Pieces are made in the rank until processes are ready, so the first batch does not wait for them. A function that fails in a process
is carried out once more in the rank: it raises its error there, with its traceback. If the rank can carry it out, it stays there.
"""

from __future__ import annotations

import enum
import os
import threading
import time
import warnings
import weakref
from typing import Any, Protocol

from rtrain import _public_names
from rtrain.data import _block
from rtrain.data._block import Block
from rtrain.data._context import DataContext
from rtrain.data._making import _cpus
from rtrain.data._making._processes import _memory, _pool, _rule
from rtrain.data._making._processes._pool import Job, Place, Pool
from rtrain.data._making._processes._rule import Limits

_FIRST_ROWS = 8  # rows of the first part, whose duration is unknown
_RANK_PART_S = 0.5  # seconds of work in the rank until the processes are considered again
_AGAIN_S = 60.0  # seconds until processes that did not gain are tried again; doubles each time
_IDLE_LOOK_S = 0.1  # seconds for a measurement of idle CPUs, at least
_LOOK_S = 1.0  # seconds until the machine is measured again
_PLENTY = 1 << 62  # bytes of memory
_GROW_S = 30.0  # seconds until more processes are tried, because other work on the node may have ended


class Work(Protocol):
    """The functions of one node. unit: parts of a multiple of so many rows may be made separately; 0: the piece must stay
    whole. key: equal for the same functions at the same depth of a plan, also in a copy of the node."""

    unit: int
    may_leave: bool

    @property
    def key(self) -> tuple[int, int]: ...

    def apply(self, block: Block, place: Place, first: int) -> Block: ...

    @property
    def says(self) -> str: ...

    def lost(self, block: Block, place: Place, first: int, how: str) -> Exception:
        """Returns the error for rows during which two processes ended."""
        ...


class State(enum.Enum):
    IN_RANK = "in the rank"
    STARTING = "starting"
    ON_TRIAL = "on trial"
    KEPT = "kept"


class _Measured:
    """Sums of measurements."""

    def __init__(self) -> None:
        self.count = 0
        self.rows = 0
        self.seconds = self.cpu_s = 0.0

    def add(self, rows: int, seconds: float, cpu_s: float) -> None:
        self.count += 1
        self.rows, self.seconds, self.cpu_s = self.rows + rows, self.seconds + seconds, self.cpu_s + cpu_s


class Threads(Protocol):
    """threads: the rank's threads that make pieces. speedup: their throughput as a multiple of one; None while it is being
    measured."""

    @property
    def threads(self) -> int: ...

    speedup: float | None


class Crew:
    def __init__(self, work: Work, limits: Limits, threads: Threads) -> None:
        self.state = State.IN_RANK
        self._in_use = 0  # the processes that take jobs
        self._work, self._limits = work, limits
        self._cpus = _cpus.cpus_of_rank()
        self._of_threads = weakref.ref(threads)
        self._lock = threading.Lock()
        self._is_off = not work.may_leave
        self._spent_s = 0.0
        self._alone = _Measured()  # by one thread of the rank, without the first part, which also imports modules
        self._apart = _Measured()  # by processes on trial
        self._moved = 0.0, 0  # the bytes to send, and their rows
        self._first_row_s = 0.0
        self._again_at, self._again_s = 0.0, _AGAIN_S
        self._idle = _cpus.Idle.now()  # the last measurement
        self._before: tuple[int, float] | None = None  # a smaller number of processes, and its rows per second
        self._grow_at = 0.0
        self._pool: Pool | None = None
        self._shipped: _pool.Shipped | None = None
        self._pid = os.getpid()

    @property
    def _threads(self) -> Threads:
        threads = self._of_threads()
        assert threads is not None  # It holds this crew.
        return threads

    # -- making ---------------------------------------------------------------------------------------------------------
    @property
    def processes(self) -> int:
        """Processes that take jobs. A fork of the rank has none."""
        return self._in_use if os.getpid() == self._pid else 0

    @property
    def is_measured(self) -> bool:
        """Returns True if one thread of the rank has measured the time of a row, or if that time is not needed."""
        return bool(self._alone.rows) or not self._may_leave()

    def carry_out(self, block: Block, place: Place, first: int, owner: int) -> Block:
        """Applies the functions to rows of a piece, of which the first has number `first`. owner: the iteration that needs the
        rows."""
        if not self._may_leave():
            return self._work.apply(block, place, first)
        new_rows: list[Block] = []
        start = 0
        while not new_rows or start < block.rows:
            if self.processes and block.rows:
                new_rows += self._elsewhere(block.slice(start, block.rows), place, first + start, owner)
                break
            stop = min(block.rows, start + self._rows_of_part(block.rows - start))
            new_rows.append(self._in_rank(block.slice(start, stop), place, first + start))
            start = stop
        return new_rows[0] if len(new_rows) == 1 else _block.concat(new_rows)

    def _rows_of_part(self, rows: int) -> int:
        if self._threads.threads > 1:  # The threads divide the rows among them.
            return rows
        unit, row_s = self._work.unit, self._row_s()
        if not row_s and unit:
            return max(1, (1 if self._limits.asked else _FIRST_ROWS) // unit) * unit
        return _rule.rows_of_part(rows, unit, row_s, _RANK_PART_S if self._alone.rows else _rule.PART_S)

    def _row_s(self) -> float:
        return self._alone.seconds / self._alone.rows if self._alone.rows else self._first_row_s

    def _in_rank(self, block: Block, place: Place, first: int) -> Block:
        threads, begun, cpu_begun = self._threads.threads, time.monotonic(), time.thread_time()
        new_rows = self._work.apply(block, place, first)
        seconds, cpu_s = time.monotonic() - begun, time.thread_time() - cpu_begun
        with self._lock:
            self._spent_s += seconds
            if block.rows:
                self._moved = self._moved[0] + block.nbytes + new_rows.nbytes, self._moved[1] + block.rows
                if not self._first_row_s:
                    self._first_row_s = seconds / block.rows
                elif threads == 1 == self._threads.threads:
                    self._alone.add(block.rows, seconds, cpu_s)
            wanted = self._wanted()
            if not wanted:
                return new_rows
            self.state = State.STARTING
        self._start(wanted)
        return new_rows

    def _elsewhere(self, block: Block, place: Place, first: int, owner: int) -> list[Block]:
        """Lets processes make the rows, and returns them in parts."""
        assert self._pool is not None and self._shipped is not None
        each = _rule.rows_of_part(block.rows, self._work.unit, self._row_s(), _rule.PART_S)
        jobs: list[Job] = []
        for start in range(0, block.rows, each):
            jobs.append(Job(self._shipped, block.slice(start, start + each), place, first + start, owner))
            self._pool.submit(jobs[-1])
        try:
            return [self._result(job) for job in jobs]
        except BaseException:
            self._pool.cancel(jobs)
            raise

    def _result(self, job: Job) -> Block:
        try:
            return job.future.result()
        except _pool.NoProcesses:
            return self._work.apply(job.block, job.place, job.first)
        except _pool.Lost as error:
            raise self._work.lost(job.block, job.place, job.first, str(error)) from error
        except _pool.Refused as error:
            new_rows = self._work.apply(job.block, job.place, job.first)
            self._stay(f"it failed in a process, and not in the rank. In the process:\n{error}")
            return new_rows

    def cancel(self, owner: int) -> None:
        """Releases the threads of an iteration that has ended."""
        if self._pool is not None and os.getpid() == self._pid:
            self._pool.cancel_owner(owner)

    # -- deciding -------------------------------------------------------------------------------------------------------
    def _may_leave(self) -> bool:
        if self._is_off or os.getpid() != self._pid:
            return False
        return _rule.most_processes(self._all_limits(), _rule.Machine(self._cpus, 0.0, _PLENTY)) > 0

    def _all_limits(self) -> Limits:
        asked = self._limits
        return Limits(asked.asked, DataContext.get_current().processes, asked.num_cpus, asked.memory)

    def _wanted(self) -> int:
        """Returns how many processes to start now. The caller holds the lock."""
        now = time.monotonic()
        if self.state != State.IN_RANK or now < self._again_at or not self._may_leave():
            return 0
        limits, facts = self._all_limits(), self._facts()
        if not _rule.processes_for(limits, _rule.Machine(self._cpus, self._cpus, _PLENTY), facts):
            return 0  # This comes before the machine is measured, because a measurement takes longer than a short function.
        free = 0.0
        if limits.processes is None:
            idle = _cpus.Idle.now()
            free, since_s, self._idle = idle.cpus_since(self._idle), idle.at - self._idle.at, idle
            if since_s < _IDLE_LOOK_S:
                self._again_at = now + _IDLE_LOOK_S
                return 0
        wanted = _rule.processes_for(limits, _rule.Machine(self._cpus, free, _cpus.free_memory()), facts)
        if not wanted:
            self._again_at = now + _LOOK_S
        return wanted

    def _facts(self) -> _rule.Work:
        alone, (moved, rows) = self._alone, self._moved
        return _rule.Work(
            self._spent_s,
            self._row_s() if alone.rows else 0.0,
            alone.cpu_s / alone.rows if alone.rows else 0.0,
            moved / rows if rows else 0.0,
            self._threads.speedup,
        )

    def _start(self, wanted: int) -> None:
        if self._shipped is None:
            try:
                self._shipped = _shipped(self._work)
            except Exception as error:  # Pickling a function may raise any error.
                self._stay(f"it cannot be sent to a process: {type(error).__name__}: {error}")
                return
            self._pool = Pool(self)
            weakref.finalize(self, self._pool.resize, 0)
        assert self._pool is not None
        self._pool.resize(wanted)

    def on_ready(self, processes: int, wanted: int) -> None:
        with self._lock:
            if not wanted or processes < wanted or processes == self._in_use:
                return
            is_asked = DataContext.get_current().processes is not None
            self.state = State.KEPT if is_asked else State.ON_TRIAL
            self._apart, self._in_use = _Measured(), wanted
            self._grow_at = time.monotonic() + _GROW_S

    def on_made(self, rows: int, seconds: float, rank_s: float) -> None:
        with self._lock:
            self._apart.add(rows, seconds, rank_s)
            apart, now = self._apart, time.monotonic()
            if not self._in_use or apart.count < max(4, 2 * self._in_use):
                return
            rate = apart.rows / max(apart.seconds / self._in_use, apart.cpu_s, 1e-9)
            if self.state == State.ON_TRIAL:
                wanted = self._judge(rate, now)
            elif now >= self._grow_at:
                wanted = self._more(rate, now)
            else:
                return
        assert self._pool is not None
        self._pool.resize(wanted)

    def _judge(self, rate: float, now: float) -> int:
        """Returns how many of the processes on trial are kept."""
        before, self._before = self._before, None
        if before is not None and not _rule.more_pay(before, (self._in_use, rate)):
            self._in_use = before[0]
        elif before is None and not _rule.pays(rate, self._facts()):
            self._back()
            return 0
        self.state, self._again_s = State.KEPT, _AGAIN_S
        self._grow_at, self._apart = now + _GROW_S, _Measured()
        return self._in_use

    def _more(self, rate: float, now: float) -> int:
        """Returns how many processes to continue with."""
        idle, before = _cpus.Idle.now(), self._idle
        busy = self._apart.seconds / (self._in_use * _GROW_S)
        machine = _rule.Machine(self._cpus, idle.cpus_since(before), _cpus.free_memory())
        wanted = _rule.more_processes(self._all_limits(), machine, self._in_use, busy)
        if wanted > self._in_use:
            self._before = self._in_use, rate
        self._idle, self._grow_at, self._apart = idle, now + _GROW_S, _Measured()
        return wanted

    def on_broken(self, why: str) -> None:
        warnings.warn(f"{self._work.says} stays in the rank: no process can be started for it: {why}", stacklevel=2)
        with self._lock:
            self._back()

    def _back(self) -> None:
        self.state, self._in_use = State.IN_RANK, 0
        self._again_at, self._again_s = time.monotonic() + self._again_s, 2 * self._again_s

    def _stay(self, why: str) -> None:
        """Lets the rank carry the functions out from now on."""
        with self._lock:
            was_off, self._is_off = self._is_off, True
            self.state, self._in_use = State.IN_RANK, 0
        if not was_off:
            warnings.warn(f"{self._work.says} stays in the rank: {why}", stacklevel=2)
            if self._pool is not None:
                self._pool.resize(0)


def _shipped(work: Any) -> _pool.Shipped:
    memory = _memory.sealed(_public_names.dumps(work, protocol=5), [])
    shipped = _pool.Shipped(next(_pool.numbers), memory)
    weakref.finalize(shipped, os.close, memory)
    return shipped
