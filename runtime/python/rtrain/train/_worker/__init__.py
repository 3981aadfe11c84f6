"""This process as a worker: the open handle, the head that it asks, and the hook that tells the agent why it dies."""

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
    """The open worker; connects at the first call. `caller` is named when this process is no worker."""
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
    """The open worker, once the reports behind the loop are made. Raises what became of them."""
    _behind.join()
    return handle(caller)


def is_a_child_of_multiprocessing() -> bool:
    """A data loader's process, most likely: it must not take the rank's place by reading, only by a report of its own."""
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and processes.parent_process() is not None


def data_wait(microseconds: int) -> None:
    """Adds to the time that this worker has waited for its input. It opens no connection: a loop that has none does not report."""
    if _handle is not None:
        library().rtw_data_wait(_handle, microseconds)


def barrier_wait(microseconds: int) -> None:
    """Adds a wait for other ranks, outside of a report."""
    if _handle is not None:
        library().rtw_barrier_wait(_handle, microseconds)


def facts() -> Facts:
    """Returns who this worker is, as the agent says."""
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
    """Returns the head, for what a rank asks of it: one that restarts is asked again until it is back, so its restart ends no
    training."""
    from rtrain._http import Head

    return Head(Head.current().place, patience_s=patience_s)


def close() -> None:
    """Ends the connection and gives the rank's place up; the next call opens a new one."""
    global _handle
    if _handle is not None and not _behind.left_in_a_call():  # else the process's end closes it
        library().rtw_close(_handle)
        _handle = None


def install_stack_handler() -> None:
    """On the agent's signal the stacks of all threads go to standard error, whatever this process is doing."""
    number = os.environ.get("RTRAIN_STACK_SIGNAL", "")
    if _names.started_by_agent() and number.isdigit():
        faulthandler.register(int(number), file=2, all_threads=True)


def install_failure_hook() -> None:
    """An uncaught exception becomes the cause that `rtrain describe` shows, the user's own frames first."""
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
        except ValueError:  # another process speaks for the rank
            return
        except (Exception, SystemExit) as fault:  # the traceback is on stderr already; the exit status tells the rest
            print(f"rtrain: the agent could not be told the cause: {fault}", file=sys.stderr)

    sys.excepthook = hook
