"""What a training loop calls: report, where to resume from, whether a checkpoint is wanted now."""

from __future__ import annotations

import contextlib
import ctypes
import enum
import json
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

from rtrain.train import _metrics, _worker
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._library import ReportArgs, check, library


class CheckpointUploadMode(enum.Enum):
    SYNC = 1  # report returns once the checkpoint is committed
    ASYNC = 2  # report returns once the files are staged
    NO_UPLOAD = 3  # the files are not kept by the run


_reported_directories: set[str] = set()


def report(
    metrics: Mapping[str, Any],
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
    checkpoint_dir_name: str | None = None,
    checkpoint_upload_mode: CheckpointUploadMode | None = None,
    delete_local_checkpoint_after_upload: bool | None = None,
) -> None:
    """Tells the run how this worker is doing. A barrier: every rank calls it the same number of times.

    metrics: names to numbers, strings, booleans, dates, None, lists and dicts of these; NumPy scalars and 0-dim
    tensors are converted. NaN and infinity are legal.
    checkpoint: a directory; any subset of ranks may bring one, the files are merged. Once `report` returns, the
    caller's directory may be deleted.
    checkpoint_upload_mode: None takes the run's `checkpoint.upload`.
    delete_local_checkpoint_after_upload: True gives the directory away: it is moved, not copied, where possible.

    RuntimeError outside of a worker; TypeError names the metric that cannot be stored; CheckpointUploadError when a
    checkpoint was lost for good; AgentGoneError when the agent stays away; Stopped when the run is being stopped.
    """
    encoded = _metrics.encode(metrics)
    path = checkpoint.path if isinstance(checkpoint, Checkpoint) else checkpoint
    directory = None if path is None else str(pathlib.Path(path).absolute())
    arguments = ReportArgs(
        metrics_json=encoded.encode(),
        checkpoint_path=None if directory is None else os.fsencode(directory),
        directory_name=None if checkpoint_dir_name is None else checkpoint_dir_name.encode(),
        owned=1 if delete_local_checkpoint_after_upload else 0,
        upload=0 if checkpoint_upload_mode is None else checkpoint_upload_mode.value,
    )
    handle = _worker.handle("report")
    if directory is not None:
        _reported_directories.add(directory)
    check(library().rtw_report(handle, ctypes.byref(arguments)), "report")


def get_checkpoint() -> Checkpoint | None:
    """Where to resume from: the newest committed checkpoint, or None. RuntimeError outside of a worker."""
    text = library().rtw_checkpoint_json(_worker.handle("get_checkpoint"))
    if text is None:
        return None
    found = json.loads(text)
    metrics = _metrics.decode(found["metrics"])
    return Checkpoint(found["path"], metrics=metrics if isinstance(metrics, dict) else None, name=found["directory"])


@contextlib.contextmanager
def checkpoint_dir() -> Iterator[str]:
    """A fresh directory on the storage's file system, which `report` takes over without a copy; else it is removed."""
    path = ctypes.c_char_p()
    check(library().rtw_checkpoint_dir(_worker.handle("checkpoint_dir"), ctypes.byref(path)), "checkpoint_dir")
    directory = os.fsdecode(path.value or b"")
    try:
        yield directory
    finally:
        if directory in _reported_directories:
            _reported_directories.discard(directory)
        else:
            shutil.rmtree(directory, ignore_errors=True)


def should_checkpoint() -> bool:
    """Whether somebody wants a checkpoint now (drain, preemption, resize, operator, stop). Cheap: ask each step.

    Ranks may hear of it at different steps, so let one rank decide, or bring a checkpoint with the next common report.
    """
    return int(library().rtw_wanted(_worker.handle("should_checkpoint"))) != 0


def flush(timeout_s: float | None = None) -> None:
    """Waits until every checkpoint that was reported is committed."""
    milliseconds = -1 if timeout_s is None else int(timeout_s * 1000)
    check(library().rtw_flush(_worker.handle("flush"), milliseconds), "flush")


def scratch_dir() -> str:
    """A directory on the node's fast local disk, emptied with the attempt."""
    if not _worker.started_by_agent():
        _worker.handle("scratch_dir")  # raises the usual error
    return os.environ.get("RTRAIN_SCRATCH_DIR") or tempfile.gettempdir()
