"""Ends a worker's process once its loop has returned.

The process does what Python does at exit: it waits for threads and calls functions registered with atexit. A thread
or a function that hangs would keep the rank, and with it the run, for ever. So after NAMED_S the process prints what
it waits for. After the job's `limits.stop_grace` more it ends. Destructors of modules, of CUDA and of gloo, which
may hang as well, do not run.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import io
import os
import sys
import threading
import time
import traceback
from types import FrameType
from typing import NoReturn

from rtrain import _own_folders
from rtrain.train._worker import _errors_text

NAMED_S = 10.0
_GRACE_MS = "RTRAIN_STOP_GRACE_MS"  # name of a variable; older agents do not set it
_FLUSH_S = 2.0  # seconds; a thread that hangs may hold the lock of a file
_FILES = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)


def leave(code: int) -> NoReturn:
    """Ends this process with the exit status `code`. Must be called in the main thread, after all other work."""
    threading.Thread(target=_watch, args=(code,), daemon=True, name="rtrain end").start()
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    _exit(code)


def _watch(code: int) -> None:
    grace_s = int(os.environ.get(_GRACE_MS) or 10_000) / 1000
    time.sleep(NAMED_S)
    _say(
        f"the loop has returned, and for {NAMED_S:g} s the process has been held by {_holders()}; it ends in {grace_s:g} s all the same"
    )
    time.sleep(grace_s)
    _say(
        f"the process ends now, though it is still held by {_holders()}; end threads and atexit functions before the loop returns"
    )
    _exit(code)


def _say(text: str) -> None:
    """Writes without `sys.stderr`, since a thread that hangs may hold its lock."""
    with contextlib.suppress(OSError):
        os.write(2, f"rtrain: rank {os.environ.get('RANK', '0')}: {text}\n".encode(errors="replace"))


def _holders() -> str:
    """Returns the threads and functions that the end of the process waits for, with their places in the code."""
    frames = sys._current_frames()
    main = threading.main_thread()
    threads = [thread for thread in threading.enumerate() if not thread.daemon and thread is not main]
    held_by = [f"thread {thread.name!r} {_place(frames.get(thread.ident or 0))}" for thread in threads] or _child_processes()
    return "; ".join(held_by) if held_by else f"what is called at exit, {_place(frames.get(main.ident or 0))}"


def _place(frame: FrameType | None) -> str:
    """Returns the deepest frame in the user's files. If there is none, returns the deepest frame."""
    stack = list(reversed(traceback.extract_stack(frame))) if frame is not None else []
    shown = next((entry for entry in stack if _errors_text.is_users(entry)), stack[0] if stack else None)
    if shown is None:
        return "outside of Python"
    code = f": {shown.line}" if shown.line else ""
    return f"at {_errors_text.short(shown.filename)}:{shown.lineno}, in {shown.name}{code}"


def _child_processes() -> list[str]:
    """Returns the child processes of multiprocessing, whose exit function ends its daemons and waits for the others."""
    module = sys.modules.get("multiprocessing.process")
    children = [child for child in getattr(module, "_children", ()) if getattr(child._popen, "returncode", None) is None]
    return [f"child process {child.name!r} (pid {child.pid})" for child in children]


def _exit(code: int) -> NoReturn:
    leaving = threading.Thread(target=_leave_nothing, daemon=True)
    leaving.start()
    leaving.join(_FLUSH_S)
    os._exit(code)


def _leave_nothing() -> None:
    """Flushes open files, as their destructors would, and removes the process's temporary directories."""
    for value in gc.get_objects():
        if issubclass(type(value), _FILES):
            with contextlib.suppress(Exception):
                value.flush()
    ctypes.CDLL(None).fflush(None)
    _own_folders.remove_all()
