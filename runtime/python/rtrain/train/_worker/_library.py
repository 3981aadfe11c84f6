"""Loads librtrain_worker through ctypes, declares its functions, and converts its codes to exceptions."""

from __future__ import annotations

import ctypes
import os
import pathlib
from functools import cache

from rtrain._lazy import public_in

ABI_VERSION = 1
_OK, _NOT_A_WORKER, _INVALID, _AGENT_GONE, _STORAGE, _STOPPED = range(6)


class AgentGoneError(RuntimeError):
    """The agent did not answer in time. Reporting continues when the agent is back."""


class CheckpointUploadError(RuntimeError):
    """A checkpoint could not be stored and is lost. The text names it and the reason."""


class Stopped(SystemExit):
    """Raised in a loop whose run is being stopped. A loop that does not catch it ends its process quietly."""

    def __init__(self, message: str) -> None:
        super().__init__(143)
        self.message = message

    def __str__(self) -> str:
        return self.message


class ReportArgs(ctypes.Structure):
    _fields_ = (
        ("metrics_json", ctypes.c_char_p),
        ("checkpoint_path", ctypes.c_char_p),
        ("directory_name", ctypes.c_char_p),
        ("owned", ctypes.c_int32),
        ("upload", ctypes.c_int32),
    )


_SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "rtw_abi_version": (ctypes.c_int32, []),
    "rtw_last_error": (ctypes.c_char_p, []),
    "rtw_open": (ctypes.c_int, [ctypes.POINTER(ctypes.c_void_p)]),
    "rtw_open_to_read": (ctypes.c_int, [ctypes.POINTER(ctypes.c_void_p)]),
    "rtw_close": (None, [ctypes.c_void_p]),
    "rtw_context_json": (ctypes.c_char_p, [ctypes.c_void_p]),
    "rtw_checkpoint_json": (ctypes.c_char_p, [ctypes.c_void_p]),
    "rtw_checkpoint_dir": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(ctypes.c_char_p)]),
    "rtw_report": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(ReportArgs)]),
    "rtw_report_metrics": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p]),
    "rtw_next_report": (ctypes.c_uint64, [ctypes.c_void_p]),
    "rtw_flush": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int64]),
    "rtw_wanted": (ctypes.c_int32, [ctypes.c_void_p]),
    "rtw_broadcast": (
        ctypes.c_int,
        [
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_uint64,
            ctypes.POINTER(ctypes.c_void_p),
            ctypes.POINTER(ctypes.c_uint64),
        ],
    ),
    "rtw_fail": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p]),
    "rtw_data_wait": (None, [ctypes.c_void_p, ctypes.c_int64]),
    "rtw_barrier_wait": (None, [ctypes.c_void_p, ctypes.c_int64]),
}


def library_path() -> pathlib.Path:
    """Returns the path of the library. In a worker it is the agent's own copy, otherwise the copy in this package."""
    given = os.environ.get("RTRAIN_WORKER_LIB")
    return pathlib.Path(given) if given else pathlib.Path(__file__).parents[2] / "_lib" / "librtrain_worker.so"


@cache
def library() -> ctypes.CDLL:
    path = library_path()
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise RuntimeError(
            f"the worker library cannot be loaded from {path}: {error}; run scripts/build, or set RTRAIN_WORKER_LIB "
            "to librtrain_worker.so"
        ) from error
    if not hasattr(loaded, "rtw_report_metrics"):  # the library is of an older release, and lacks this function
        loaded.rtw_report_metrics = lambda handle, text: loaded.rtw_report(handle, ctypes.byref(ReportArgs(text)))  # type: ignore[attr-defined]
    if not hasattr(loaded, "rtw_open_to_read"):
        loaded.rtw_open_to_read = loaded.rtw_open  # type: ignore[attr-defined]
    if not hasattr(loaded, "rtw_next_report"):
        loaded.rtw_next_report = lambda handle: 0  # type: ignore[attr-defined]
    if not hasattr(loaded, "rtw_barrier_wait"):
        loaded.rtw_barrier_wait = lambda handle, microseconds: None  # type: ignore[attr-defined]
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype = result
        function.argtypes = arguments
    if loaded.rtw_abi_version() != ABI_VERSION:
        raise RuntimeError(
            f"{path} speaks version {loaded.rtw_abi_version()} of the worker interface and this package version "
            f"{ABI_VERSION}; install the rtrain package of the cluster's release"
        )
    return loaded


def check(code: int, caller: str) -> None:
    """Raises the exception of an RTW_ code. `caller` is the public function's name."""
    if code == _OK:
        return
    text = (library().rtw_last_error() or b"").decode("utf-8", "replace")
    if code == _NOT_A_WORKER:
        raise RuntimeError(f"`rtrain.train.{caller}` cannot be used outside of a worker: {text}")
    if code == _INVALID:
        raise ValueError(text)
    if code == _AGENT_GONE:
        raise AgentGoneError(text)
    if code == _STORAGE:
        raise CheckpointUploadError(text)
    if code == _STOPPED:
        raise Stopped(text)
    raise OSError(text)


public_in("rtrain.train", AgentGoneError, CheckpointUploadError, Stopped)
