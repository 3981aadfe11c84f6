"""Makes several pieces at the same time and delivers them in their order.

One thread reads: it takes *tasks* from a plan in order. The threads of a pool carry the tasks out. Idle threads also share the
rows of one piece (`spread`), so that the first piece is ready early and few pieces are in memory at once.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from rtrain import _chance
from rtrain.data._block import Block
from rtrain.data._context import DataContext
from rtrain.data._making._gain import Gain
from rtrain.data._making._processes._crew import Work
from rtrain.data._making._processes._pool import Place


@dataclass(frozen=True)
class Task:
    """A piece whose rows were read. `make` carries out its functions, in any thread. gain: None if the reading thread must do
    it."""

    make: Callable[[], Block]
    gain: Gain | None


class _Here(threading.local):
    alone: bool = False  # Pieces are made in this thread.
    pool: _Pool | None = None  # the pool that this thread works for


_here = _Here()
_held_lock = threading.Lock()
_held_bytes = 0  # the bytes of pieces that are made ahead, by their expected sizes
_END: Any = object()


@contextlib.contextmanager
def in_this_thread() -> Iterator[None]:
    """Makes pieces in this thread alone, within the block."""
    before, _here.alone = _here.alone, True
    try:
        yield
    finally:
        _here.alone = before


def made(items: Iterator[Any]) -> Iterator[Any]:
    """Yields the items in order, with each Task replaced by its block. Other items are yielded before the next one is
    requested. A task's error is raised at its position."""
    pool = _Pool()
    pending: deque[_Pending] = deque()
    ended = False
    try:
        while True:
            while not ended and _has_room(pending):
                item = _next_of(items)
                if item is _END:
                    ended = True
                elif isinstance(item, Task) and item.gain is not None and not _is_alone() and (pending or item.gain.threads > 1):
                    pending.append(pool.submit(item, item.gain))
                    continue
                elif pending:
                    pending.append(_Pending(_passed_on(item), 0, None))
                elif isinstance(item, Task):
                    yield pool.carry_out(item)
                    continue
                else:
                    yield _result(item)
                    continue
                break
            if not pending:
                return
            yield pending.popleft().take()
    finally:
        pool.close()
        for left in pending:
            left.drop()


@dataclass(frozen=True)
class _Failed:
    error: BaseException


def _next_of(items: Iterator[Any]) -> Any:
    try:
        return next(items, _END)
    except BaseException as error:
        return _Failed(error)


def _result(item: Any) -> Any:
    if isinstance(item, _Failed):
        raise item.error
    return item.make() if isinstance(item, Task) else item


def _passed_on(item: Any) -> Callable[[], Any]:
    return lambda: _result(item)


def _is_alone() -> bool:
    return _here.alone or _chance.is_loader_process()


def _has_room(pending: deque[_Pending]) -> bool:
    if not pending:
        return True
    last = pending[-1]
    if last.gain is None:
        return False
    threads = last.gain.threads
    if threads == 1:  # The reading thread makes the next piece itself.
        return False
    return len(pending) < 2 * threads and _held_bytes + last.gain.largest <= DataContext.get_current().prefetch_bytes


class _Pending:
    """A piece that is made ahead."""

    def __init__(self, result: Callable[[], Any], nbytes: int, gain: Gain | None) -> None:
        self._result, self._nbytes, self.gain = result, nbytes, gain
        _hold(nbytes)

    def take(self) -> Any:
        try:
            return self._result()
        finally:
            self.drop()

    def drop(self) -> None:
        _hold(-self._nbytes)
        self._nbytes = 0


def _hold(nbytes: int) -> None:
    global _held_bytes
    if nbytes:
        with _held_lock:
            _held_bytes += nbytes


class _Pool:
    """The threads of one iteration. They are started when there is work."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._work: deque[Callable[[], None]] = deque()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._closed = False
        self.busy = 0  # the threads that carry out functions now, including the reading one
        self.gain: Gain | None = None

    def submit(self, task: Task, gain: Gain) -> _Pending:
        future: Future[Block] = Future()

        def carry_out() -> None:
            try:
                future.set_result(self.carry_out(task))
            except BaseException as error:  # The reader raises it.
                future.set_exception(error)

        self._add(carry_out, gain)
        return _Pending(future.result, gain.largest, gain)

    def carry_out(self, task: Task) -> Block:
        """Makes a piece in the calling thread."""
        gain = task.gain
        if gain is None or _is_alone():
            return task.make()
        self.gain = gain
        before, _here.pool = _here.pool, self
        try:
            with self.timed(gain) as took:
                block = task.make()
                took.rows = block.rows
        finally:
            _here.pool = before
        gain.took(block.nbytes)
        return block

    @contextlib.contextmanager
    def timed(self, gain: Gain) -> Iterator[_Took]:
        """Passes the duration of the block to `gain`. The duration of a nested block counts for the nested one only."""
        outer, threads = _clock.took, gain.threads
        took = _clock.took = _Took()
        with self._changed:
            self.busy += outer is None
            busy = self.busy
        begun = time.monotonic()
        try:
            yield took
            if not took.divided:
                gain.made(took.rows, time.monotonic() - begun, threads, max(busy, self.busy))
        finally:
            _clock.took = outer
            if outer is not None:
                outer.divided = True
            with self._changed:
                self.busy -= outer is None

    def help_with(self, call: Callable[[], None], gain: Gain) -> None:
        """Lets a thread make `call` before it begins other pieces."""
        self._add(call, gain, first=True)

    def _add(self, call: Callable[[], None], gain: Gain, *, first: bool = False) -> None:
        with self._changed:
            (self._work.appendleft if first else self._work.append)(call)
            if self._idle < len(self._work) and len(self._threads) < gain.threads and not self._closed:
                thread = threading.Thread(target=self._run, name="rtrain-data", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                while not self._work and not self._closed:
                    self._changed.wait()
                self._idle -= 1
                if self._closed:
                    return
                call = self._work.popleft()
            call()
            del call

    def close(self) -> None:
        """Ends the threads and waits for them. Pieces that no thread has begun are not made."""
        with self._changed:
            self._closed = True
            self._work.clear()
            self._changed.notify_all()
        if self.gain is not None and self._threads:
            self.gain.cancel(id(self))
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()


def carried_out(work: Work, block: Block, place: Place, first: int) -> Block:
    """Applies functions to rows of a piece, of which the first has number `first`. Processes do it if that gains, else this
    thread."""
    pool = _here.pool
    if pool is None or pool.gain is None or _is_alone():
        return work.apply(block, place, first)
    return pool.gain.crew(work).carry_out(block, place, first, id(pool))


class _Took:
    rows = 0
    divided = False  # The parts were timed.


class _Clock(threading.local):
    took: _Took | None = None


_clock = _Clock()

Call = Callable[[Sequence[Any]], "list[Any]"]


def spread(call: Call, rows: Sequence[Any]) -> list[Any]:
    """Calls `call` for parts of the rows, and returns the results in order. Idle threads of the pool take some of the parts.

    The calls of user functions keep their positions. If several parts fail, the error of the earliest part is raised.
    """
    pool = _here.pool
    if pool is None or pool.gain is None or _is_alone():
        return call(rows)
    if pool.gain.chunk(len(rows)) >= len(rows):
        return call(rows)
    return _Spread(pool, pool.gain, call, rows).made()


class _Spread:
    def __init__(self, pool: _Pool, gain: Gain, call: Call, rows: Sequence[Any]) -> None:
        self._pool, self._gain, self._call, self._rows = pool, gain, call, rows
        self._changed = threading.Condition()
        self._next = self._active = self._helpers = 0
        self._results: list[list[Any]] = []
        self._errors: list[tuple[int, BaseException]] = []
        self._position = _chance.here.prefix, _chance.here.place, _chance.here.seeds

    def made(self) -> list[Any]:
        while self._next < len(self._rows) and not self._errors:
            for _ in range(self._helpers, self._gain.threads - 1):
                self._helpers += 1
                self._pool.help_with(self._help, self._gain)
            self._do_part()
        with self._changed:
            while self._active:
                self._changed.wait()
        if self._errors:
            raise min(self._errors, key=lambda failed: failed[0])[1]
        _chance.here.place = self._position[1] + len(self._rows)
        return list(itertools.chain.from_iterable(self._results))

    def _help(self) -> None:
        before, _here.pool = _here.pool, self._pool
        try:
            while self._do_part():
                pass
        finally:
            _here.pool = before

    def _do_part(self) -> bool:
        """Makes the next part. Returns False if there is none."""
        with self._changed:
            start = self._next
            if start >= len(self._rows) or self._errors:
                return False
            stop = min(len(self._rows), start + self._gain.chunk(len(self._rows) - start))
            number, self._next = len(self._results), stop
            self._results.append([])
            self._active += 1
        prefix, place, seeds = self._position
        here = _chance.here
        before = here.prefix, here.place, here.seeds
        here.prefix, here.place, here.seeds = prefix, place + start, seeds
        try:
            with self._pool.timed(self._gain) as took:
                self._results[number] = self._call(self._rows[start:stop])
                took.rows = stop - start
        except BaseException as error:  # The thread that owns the piece raises it.
            self._errors.append((number, error))
        finally:
            here.prefix, here.place, here.seeds = before
            with self._changed:
                self._active -= 1
                self._changed.notify_all()
        return True
