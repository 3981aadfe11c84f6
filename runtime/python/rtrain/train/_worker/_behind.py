"""Reports that are made behind this rank's loop: a thread runs their checkpoint_upload_fn one after the other, and makes each report when
its function has returned.

So the reports of a rank keep their order and their number. Every other call that depends on the order of this rank's calls waits until all
of them are made. At most WAIT_MOST reports wait for the one that is being brought. With more of them `report` waits, so a loop that
outruns its storage is slowed down by it.
"""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import ctypes
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from rtrain import _own_folders
from rtrain.train._values._facts import LoopEnded
from rtrain.train._worker._library import CheckpointUploadError

T = TypeVar("T")
WAIT_MOST = 16  # reports, beside the one that is being brought: each keeps its directory
_SAYS_AFTER_S = 1.0  # a `report` that waits for room for less says nothing


class Bring(Protocol):
    """Runs what brings a report's files, the user's function among it, and returns what that returned."""

    def __call__(self, call: Callable[[], T], /) -> T: ...


@dataclass
class _Report:
    what: str  # for people: "report 3, checkpoint_000003"
    make: Callable[[Bring], None]
    failed: Callable[[BaseException], None]
    stream: contextlib.AbstractContextManager[Any]
    context: contextvars.Context = field(default_factory=contextvars.copy_context)


class _Abandoned(Exception):
    """The loop has failed, so the report is not made."""


class LoopInterrupted(BaseException):
    """Raised in a loop of local mode, at its next Python statement, once a report behind it has failed. `join` raises the fault."""


class _Reports:
    """Those of one process. Invariant: a thread runs while a report waits or is being made, unless they were abandoned."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.changed = threading.Condition()  # guards what follows
        self.waiting: deque[_Report] = deque()
        self.running: tuple[_Report, float] | None = None  # and since when
        self.thread: threading.Thread | None = None
        self.fault: BaseException | None = None  # ends the reports that wait behind it, and is raised by the next call
        self.abandoned = False

    def add(self, report: _Report) -> None:
        with self.changed:
            self._wait_for_room(report)
            self.raise_fault()
            self.waiting.append(report)
            if self.thread is None:
                self.thread = threading.Thread(target=self._run, daemon=True, name="rtrain report")
                self.thread.start()

    def _wait_for_room(self, report: _Report) -> None:
        if self.is_own_thread() or self.changed.wait_for(self._has_room, _SAYS_AFTER_S):
            return
        runs = ""
        if self.running is not None:
            runs = f"; that of {self.running[0].what} has run for {time.monotonic() - self.running[1]:.0f} s"
        print(
            f"rtrain: {report.what} waits in report(): {WAIT_MOST} reports, which is the most, wait for their checkpoint_upload_fn{runs}; "
            "report fewer checkpoints, or bring them faster",
            file=sys.stderr,
            flush=True,
        )
        self.changed.wait_for(self._has_room)

    def _has_room(self) -> bool:
        return len(self.waiting) < WAIT_MOST or self.fault is not None

    def is_own_thread(self) -> bool:
        return threading.current_thread() is self.thread

    def raise_fault(self) -> None:
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault

    def _run(self) -> None:
        while (report := self._next()) is not None:
            try:
                with report.stream:
                    report.context.run(report.make, lambda call, what=report.what: self._bring(what, call))
            except _Abandoned:
                return
            except BaseException as fault:
                with self.changed:
                    if self.abandoned:
                        return
                    if not isinstance(fault, LoopEnded | SystemExit):
                        report.failed(fault)
                    self.waiting.clear()
                    self.fault = fault

    def _next(self) -> _Report | None:
        with self.changed:
            self.running = (self.waiting.popleft(), time.monotonic()) if self.waiting and not self.abandoned else None
            if self.running is None:
                self.thread = None
            self.changed.notify_all()
            return None if self.running is None else self.running[0]

    def _bring(self, what: str, call: Callable[[], T]) -> T:
        try:
            brought = call()
        except Exception as error:
            raise CheckpointUploadError(
                f"{what}: checkpoint_upload_fn failed behind the loop: {type(error).__name__}: {error}"
            ) from error
        if self.abandoned:
            raise _Abandoned
        return brought


# By what it ends; called before a report that failed behind the loop ends the process.
before_failed_exit: dict[str, Callable[[], None]] = {}
_reports = _Reports()
_waits_at_exit = False
_left_in_a_call = False


def start(what: str, make: Callable[[Bring], None], failed: Callable[[BaseException], None]) -> None:
    """Has `make` called by the thread of reports, after all reports before it, with the caller's context variables, device and stream.

    Waits while WAIT_MOST reports wait already. Raises what became of an earlier report. what: the report's name for errors and messages.
    make: brings the report's files by the function that it is given, then makes the report. failed: called in the thread with an exception of
    `make`, at once. The next call that depends on the order of calls raises it, too, as it does the end of the run."""
    global _reports
    if _reports.process != os.getpid():
        _reports = _Reports()
    _wait_at_exit()
    _reports.add(_Report(what, make, failed, _stream()))


def join() -> None:
    """Waits until every report is made, and raises what became of them. Returns at once in their thread and in a forked child."""
    reports = _reports
    if reports.process != os.getpid() or reports.is_own_thread():
        return
    with reports.changed:
        reports.changed.wait_for(lambda: reports.thread is None)
        reports.raise_fault()


def under_way() -> bool:
    return _reports.process == os.getpid() and _reports.thread is not None


def abandon() -> None:
    """The loop has failed: what is not reported yet never is, and nobody waits for it."""
    global _reports, _left_in_a_call
    if _reports.process == os.getpid():
        with _reports.changed:
            _reports.abandoned = True
            _left_in_a_call = under_way()
    _reports = _Reports()
    _raise_in(threading.get_ident(), None)  # an interruption that is under way comes too late


def interrupting_this_thread() -> Callable[[BaseException], None]:
    """Returns what `start` calls in local mode: a loop that is in this thread is left with LoopInterrupted."""
    loop = threading.get_ident()
    return lambda fault: _raise_in(loop, LoopInterrupted)


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    """None: takes back what is not raised yet."""
    raised = ctypes.py_object() if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)


def left_in_a_call() -> bool:
    """Whether a thread that nobody waits for may still use the worker's connection."""
    return _left_in_a_call


def _stream() -> contextlib.AbstractContextManager[Any]:
    """A thread begins on device 0 and its default stream: what the loop has queued on its own must be done before it is read."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return contextlib.nullcontext()
    stream: contextlib.AbstractContextManager[Any] = torch.cuda.stream(torch.cuda.current_stream())
    return stream


# -- the end of the process -------------------------------------------------------------------------------------------------
def fail_script(fault: BaseException) -> None:
    """Ends the process as an exception that its main module does not catch, whatever its other threads are doing."""
    sys.excepthook(type(fault), fault, fault.__traceback__)
    _leave(1)


fail = fail_script  # replaced where the loop of `fit()` runs


def _leave(code: int) -> None:
    for finish in before_failed_exit.values():
        finish()
    _own_folders.remove_all()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _wait_at_exit() -> None:
    """A script that ends without flush() waits for its reports."""
    global _waits_at_exit
    if not _waits_at_exit:
        import concurrent.futures.thread  # noqa: F401  # hooks run in reverse order, and after its own no pool takes work

        _waits_at_exit = True
        getattr(threading, "_register_atexit", atexit.register)(wait_at_the_end)


def wait_at_the_end() -> None:
    """Waits for the reports while threads may still be started, as the user's function may want to. A fault here is the process's."""
    try:
        join()
    except LoopEnded:
        return
    except SystemExit as fault:  # the run is being stopped
        _leave(fault.code if isinstance(fault.code, int) else 1)
    except BaseException as fault:
        fail_script(fault)
