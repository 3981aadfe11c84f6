"""The session of this process, which every call of `rtrain.train` uses. It has the worker's facts and makes its
reports.

A process that an agent started has a `ClusterSession`. Local mode and torchrun set their own with `use`. Without a
session, calls raise RuntimeError.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rtrain.train._report._call import ReportCall  # pickles of earlier versions use these names
from rtrain.train._session._protocol import ReportedCheckpoint, Session  # pickles of earlier versions use these names
from rtrain.train._values import _names
from rtrain.train._values._facts import (  # pickles of earlier versions contain these names
    CheckpointConsistencyMode,
    CheckpointUploadMode,
    Facts,
    LoopEnded,
    PreemptionInfo,
    ReportedCheckpointStatus,
    ResizeInfo,
)

__all__ = [
    "CheckpointConsistencyMode",
    "CheckpointUploadMode",
    "Facts",
    "LoopEnded",
    "PreemptionInfo",
    "ReportCall",
    "ReportedCheckpoint",
    "ReportedCheckpointStatus",
    "ResizeInfo",
    "Session",
    "active",
    "current",
    "use",
]

_session: Session | None = None


def active() -> Session | None:
    """Returns the session of this process, or None. Opens a worker's session at the first call."""
    global _session
    if _session is None and _names.started_by_agent():
        from rtrain.train._session._cluster import ClusterSession

        _session = ClusterSession()
    return _session


def current(caller: str) -> Session:
    """Returns the session of this process. Raises a RuntimeError that names `caller` if there is none."""
    session = _session if _session is not None else active()
    if session is None:
        raise RuntimeError(
            f"`rtrain.train.{caller}` cannot be used outside of an rtrain training function: this process was not "
            "started by an agent (RTRAIN_WORKER_SOCKET is not set); call it in the function given to TorchTrainer, or "
            "start the script with `rtrain submit`"
        )
    return session


@contextlib.contextmanager
def use(session: Session) -> Iterator[Session]:
    """Makes `session` the session of this process for the duration of the block."""
    global _session
    before, _session = _session, session
    try:
        yield session
    finally:
        _session = before
