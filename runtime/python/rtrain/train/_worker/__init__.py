"""Connects this process as a worker: its connection to the agent, its client of the head, and the hook that reports the
cause of a failure.
"""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import json
import os
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rtrain.train._values import _names
from rtrain.train._values._facts import Facts
from rtrain.train._worker import _behind, _errors_text
from rtrain.train._worker._library import check, library

if TYPE_CHECKING:
    from rtrain._http import Head

_handle: ctypes.c_void_p | None = None


def handle(caller: str) -> ctypes.c_void_p:
    """Returns the open connection; connects at the first call. The RuntimeError outside of a worker names `caller`."""
    global _handle
    if _handle is None:
        if not _names.started_by_agent():
            raise RuntimeError(
                f"`rtrain.train.{caller}` cannot be used outside of a worker: this process was not started by an agent "
                "(RTRAIN_WORKER_SOCKET is not set); start the script with `rtrain submit`"
            )
        opened = ctypes.c_void_p()
        open_ = library().rtw_open_to_read if is_a_child_of_multiprocessing() else library().rtw_open
        check(open_(ctypes.byref(opened)), caller)
        _handle = opened
        atexit.register(close)
    return _handle


def handle_in_order(caller: str) -> ctypes.c_void_p:
    """Waits until all reports behind the loop are made, and returns the open connection. Raises the errors of these
    reports.
    """
    _behind.join()
    return handle(caller)


def is_a_child_of_multiprocessing() -> bool:
    """Returns whether this process is a child of multiprocessing, most likely of a data loader. Such a process takes
    the rank's place only by a report of its own, not by reading.
    """
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and processes.parent_process() is not None


def data_wait(microseconds: int) -> None:
    """Adds a time to the sum for which this worker has waited for its input. Does nothing without an open connection,
    because a loop without one makes no reports.
    """
    if _handle is not None:
        library().rtw_data_wait(_handle, microseconds)


def barrier_wait(microseconds: int) -> None:
    """Adds a time to the sum for which this worker has waited for other ranks, outside of reports."""
    if _handle is not None:
        library().rtw_barrier_wait(_handle, microseconds)


def facts() -> Facts:
    """Returns the facts about this worker, from the agent."""
    text = library().rtw_context_json(handle("get_context"))
    if text is None:
        check(6, "get_context")
    record: dict[str, Any] = json.loads(text)
    return Facts(
        world_size=int(record["world_size"]),
        world_rank=int(record["world_rank"]),
        local_rank=int(record["local_rank"]),
        local_world_size=int(record["local_world_size"]),
        node_rank=int(record["node_rank"]),
        node=str(record.get("node") or ""),
        experiment_name=str(record.get("run_name") or ""),
        run_id=str(record.get("run_id") or ""),
        attempt=int(record["attempt"]),
        previous_world_size=record.get("previous_world_size"),
        reports_before=int(record.get("reports_before") or 0),
        storage_path=str(record.get("storage_path") or ""),
        run_path=str(record.get("run_path") or ""),
        user=str(record.get("user") or ""),
    )


def fresh_directory() -> str:
    """Returns an empty directory on the file system of the run's storage, from which the agent takes a report's files."""
    path = ctypes.c_char_p()
    check(library().rtw_checkpoint_dir(handle("checkpoint_dir"), ctypes.byref(path)), "checkpoint_dir")
    return os.fsdecode(path.value or b"")


def head(patience_s: float = _names.HEAD_AWAY_S) -> Head:
    """Returns a client of the head for requests of a rank. It repeats a request while the head restarts, so that a
    restart ends no training.
    """
    from rtrain._http import Head

    return Head(Head.current().place, patience_s=patience_s)


def close() -> None:
    """Closes the connection, which frees the rank's place. The next call opens a new one."""
    global _handle
    # if a thread is still in a call, the end of the process closes the connection
    if _handle is not None and not _behind.left_in_a_call():
        library().rtw_close(_handle)
        _handle = None


def install_stack_handler() -> None:
    """Makes the agent's signal print the stacks of all threads on standard error, whatever the process is doing."""
    number = os.environ.get("RTRAIN_STACK_SIGNAL", "")
    if _names.started_by_agent() and number.isdigit():
        faulthandler.register(int(number), file=2, all_threads=True)


def install_failure_hook() -> None:
    """Sends the text of an uncaught exception to the agent as the cause, with the user's own frames first. `rtrain
    describe` shows it.
    """
    if not _names.started_by_agent():
        return
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        before(kind, error, trace)
        _behind.abandon()
        if issubclass(kind, KeyboardInterrupt):
            return
        try:
            text = _errors_text.describe(error)
            check(library().rtw_fail(handle("report"), text.encode("utf-8", "replace")), "report")
        except ValueError:  # another process has the rank's place, so the cause is not sent
            return
        # Stderr has the traceback already, and the exit status is reported in any case.
        except (Exception, SystemExit) as fault:
            print(f"rtrain: the agent could not be told the cause: {fault}", file=sys.stderr)

    sys.excepthook = hook
