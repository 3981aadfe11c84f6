"""The report that is under way behind this rank's loop: its checkpoint_upload_fn runs in a thread, which then makes the report.

There is one at most: the next report, and every other call that depends on the order of this rank's calls, waits for it first. So the
reports of a rank keep their order and their number, and a loop that outruns its storage is slowed down by it.
"""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from rtrain import _own_folders
from rtrain.train._session._library import CheckpointUploadError
from rtrain.train._session._records import LoopEnded

T = TypeVar("T")


class _UnderWay:
    def __init__(self) -> None:
        self.thread: threading.Thread | None = None
        self.fault: BaseException | None = None
        self.abandoned = False
        self.process = os.getpid()


before_failed_exit: dict[str, Callable[[], None]] = {}  # by what it ends; called before a report that failed behind the loop ends the process
_report_under_way: _UnderWay | None = None
_waits_at_exit = False
_left_in_a_call = False


def start(what: str, bring: Callable[[], T], then: Callable[[T], None]) -> None:
    """Calls `bring`, which runs the user's function, and `then` with what it gave, in a thread with the caller's context variables, device
    and stream. `what`: for errors, "report 3, checkpoint_000003"."""
    global _report_under_way
    report = _UnderWay()
    context, stream = contextvars.copy_context(), _stream()

    def work() -> None:
        brought = _brought(what, bring)
        if not report.abandoned:
            then(brought)

    def run() -> None:
        try:
            with stream:
                context.run(work)
        except BaseException as fault:  # `join` raises it
            report.fault = fault

    report.thread = threading.Thread(target=run, daemon=True, name="rtrain report")
    _wait_at_exit()
    report.thread.start()
    _report_under_way = report


def _brought(what: str, bring: Callable[[], T]) -> T:
    try:
        return bring()
    except Exception as error:
        raise CheckpointUploadError(f"{what}: checkpoint_upload_fn failed behind the loop: {type(error).__name__}: {error}") from error


def join() -> None:
    """Waits until the report is made, and raises what became of it. Returns at once in its own thread and in a forked child."""
    global _report_under_way
    report = _report_under_way
    if report is None or report.process != os.getpid() or report.thread is None or report.thread is threading.current_thread():
        return
    report.thread.join()
    _report_under_way = None
    if report.fault is not None:
        raise report.fault


def under_way() -> bool:
    return _report_under_way is not None and _report_under_way.thread is not None and _report_under_way.thread.is_alive()


def abandon() -> None:
    """The loop has failed: what is not reported yet never is, and nobody waits for it."""
    global _report_under_way, _left_in_a_call
    if _report_under_way is not None:
        _report_under_way.abandoned = True
        _left_in_a_call = under_way()
        _report_under_way = None


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


# -- a script that ends without flush() -------------------------------------------------------------------------------------
def _wait_at_exit() -> None:
    global _waits_at_exit
    if not _waits_at_exit:
        import concurrent.futures.thread  # noqa: F401  # hooks run in reverse order, and after its own no pool takes work

        _waits_at_exit = True
        getattr(threading, "_register_atexit", atexit.register)(_at_the_end)


def _at_the_end() -> None:
    """While threads may still be started, as the user's function may want to. A fault here is the process's."""
    try:
        join()
        return
    except LoopEnded:
        return
    except SystemExit as fault:  # the run is being stopped
        code = fault.code if isinstance(fault.code, int) else 1
    except BaseException as fault:
        code = 1
        sys.excepthook(type(fault), fault, fault.__traceback__)
    for finish in before_failed_exit.values():
        finish()
    _own_folders.remove_all()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
