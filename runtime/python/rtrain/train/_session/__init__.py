"""Behind every call of `rtrain.train` stands a session: who this worker is, and what its reports do.

A process that an agent started has a `ClusterSession`; local mode and torchrun set one of their own with `use`. Calls that
find none are a RuntimeError.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rtrain.train._report._call import ReportCall  # saved files of earlier versions name these classes here
from rtrain.train._session._protocol import ReportedCheckpoint, Session  # saved files of earlier versions name these classes here
from rtrain.train._values import _names
from rtrain.train._values._facts import (  # saved files of earlier versions name these classes here
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
    """The session of this process, or None; the one of an agent is opened at the first call."""
    global _session
    if _session is None and _names.started_by_agent():
        from rtrain.train._session._cluster import ClusterSession

        _session = ClusterSession()
    return _session


def current(caller: str) -> Session:
    """The session of this process. RuntimeError that names `caller` where there is none."""
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
    """Makes `session` the one of this process for the time of the block."""
    global _session
    before, _session = _session, session
    try:
        yield session
    finally:
        _session = before
