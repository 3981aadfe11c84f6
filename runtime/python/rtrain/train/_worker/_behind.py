"""Makes reports behind this rank's loop, which means in a thread while the loop continues. The thread runs the
checkpoint_upload_fn of one report after the other. It makes each report when its function has returned.

So the reports of a rank keep their order and their numbers. Every other call that depends on the order of this rank's
calls waits until these reports are made. At most WAIT_MOST reports wait for the current one. With more of them `report`
waits, which slows down a loop that is faster than its storage.
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
WAIT_MOST = 16  # most reports that wait while another one is made; each of them keeps its directory
_SAYS_AFTER_S = 1.0  # seconds; a `report` that waits for less time prints nothing


class Bring(Protocol):
    """The type of a function that stages a report's files. It runs the user's upload function, and returns its result."""

    def __call__(self, call: Callable[[], T], /) -> T: ...


@dataclass
class _Report:
    what: str  # name for messages: "report 3, checkpoint_000003"
    make: Callable[[Bring], None]
    failed: Callable[[BaseException], None]
    stream: contextlib.AbstractContextManager[Any]
    context: contextvars.Context = field(default_factory=contextvars.copy_context)


class _Abandoned(Exception):
    """Raised in the thread: the report is not made, since the loop has failed."""


class LoopInterrupted(BaseException):
    """Raised in a loop of local mode, at its next Python statement, after a report behind it has failed. `join`
    raises the error itself.
    """


class _Reports:
    """All reports behind the loop of this process. Invariant: a thread runs while a report waits or is being made,
    unless the reports were abandoned.
    """

    def __init__(self) -> None:
        self.process = os.getpid()
        self.changed = threading.Condition()  # guards the attributes below
        self.waiting: deque[_Report] = deque()
        # the report that is being made, and its start time; None: none is
        self.running: tuple[_Report, float] | None = None
        self.thread: threading.Thread | None = None
        # an error of a report; no waiting report is made after it, and the next call raises it
        self.fault: BaseException | None = None
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


# key: a name; value: a function that is called before a failed report behind the loop ends the process
before_failed_exit: dict[str, Callable[[], None]] = {}
_reports = _Reports()
_waits_at_exit = False
_left_in_a_call = False


def start(what: str, make: Callable[[Bring], None], failed: Callable[[BaseException], None]) -> None:
    """Queues `make` for the thread of reports, after all earlier reports. It runs with the caller's context
    variables, device and stream.

    Waits while WAIT_MOST reports wait already. Raises the error of an earlier report. what: the report's name in
    messages. make: stages the report's files through the function that it is given, then makes the report. failed:
    called at once, in the thread, with an exception of `make`. The next call that depends on the order of calls, and
    the end of the run, raise that exception too.
    """
    global _reports
    if _reports.process != os.getpid():
        _reports = _Reports()
    _wait_at_exit()
    _reports.add(_Report(what, make, failed, _stream()))


def join() -> None:
    """Waits until every report behind the loop is made, and raises their errors. Does nothing in the thread that makes
    them, and in a forked child.
    """
    reports = _reports
    if reports.process != os.getpid() or reports.is_own_thread():
        return
    with reports.changed:
        reports.changed.wait_for(lambda: reports.thread is None)
        reports.raise_fault()


def under_way() -> bool:
    return _reports.process == os.getpid() and _reports.thread is not None


def abandon() -> None:
    """Drops the reports that are not made yet, since the loop has failed. Nothing waits for them."""
    global _reports, _left_in_a_call
    if _reports.process == os.getpid():
        with _reports.changed:
            _reports.abandoned = True
            _left_in_a_call = under_way()
    _reports = _Reports()
    _raise_in(threading.get_ident(), None)  # cancels an interruption that is not raised yet


def interrupting_this_thread() -> Callable[[BaseException], None]:
    """Returns the `failed` function for local mode. It raises LoopInterrupted in the loop of the present thread."""
    loop = threading.get_ident()
    return lambda fault: _raise_in(loop, LoopInterrupted)


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    """Raises an exception in another thread. None cancels one that is not raised yet."""
    raised = ctypes.py_object() if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)


def left_in_a_call() -> bool:
    """Returns whether an abandoned thread may still use the worker's connection."""
    return _left_in_a_call


def _stream() -> contextlib.AbstractContextManager[Any]:
    """Returns a context with the caller's CUDA stream. A new thread would use device 0 and its default stream, and
    could read data before the loop's stream has written them.
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return contextlib.nullcontext()
    stream: contextlib.AbstractContextManager[Any] = torch.cuda.stream(torch.cuda.current_stream())
    return stream


# -- the end of the process -------------------------------------------------------------------------------------------------
def fail_script(fault: BaseException) -> None:
    """Ends the process as an uncaught exception of its main module does, whatever its other threads are doing."""
    sys.excepthook(type(fault), fault, fault.__traceback__)
    _leave(1)


fail = fail_script  # `fit()` replaces this function in the process that runs its loop


def _leave(code: int) -> None:
    for finish in before_failed_exit.values():
        finish()
    _own_folders.remove_all()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _wait_at_exit() -> None:
    """Makes a script that ends without flush() wait for its reports."""
    global _waits_at_exit
    if not _waits_at_exit:
        import concurrent.futures.thread  # noqa: F401  # hooks run in reverse order, and after its own no pool takes work

        _waits_at_exit = True
        getattr(threading, "_register_atexit", atexit.register)(wait_at_the_end)


def wait_at_the_end() -> None:
    """Waits for the reports while threads may still be started, since the user's function may start some. An error here
    ends the process as an error of its own.
    """
    try:
        join()
    except LoopEnded:
        return
    except SystemExit as fault:  # a SystemExit means that the run is being stopped
        _leave(fault.code if isinstance(fault.code, int) else 1)
    except BaseException as fault:
        fail_script(fault)
