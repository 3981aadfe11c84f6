"""The reason and the deadline of a checkpoint request."""

from __future__ import annotations

import ctypes
import dataclasses
import datetime
import json

from rtrain._lazy import public_in
from rtrain.train import _worker
from rtrain.train._worker._library import library


@dataclasses.dataclass(frozen=True)
class CheckpointWanted:
    """A pending checkpoint request: its reason, its deadline, and what follows.

    reason: "drain", "preemption", "resize", "operator" or "stop"; "" if the head sent none.
    deadline: time, in UTC, until which a commit counts; None: no limit.
    new_world_size: for a resize, the new number of workers.
    stopping: the attempt is being ended already.
    """

    reason: str  # "drain", "preemption", "resize", "operator", "stop"; "" if the head sent none
    deadline: datetime.datetime | None  # a commit before this time (UTC) counts; None: no deadline
    new_world_size: int | None  # for a resize: the new number of workers
    stopping: bool  # True: the attempt is already being ended


def checkpoint_wanted() -> CheckpointWanted | None:
    """Returns the pending checkpoint request; None if there is none. Raises RuntimeError outside of a worker."""
    handle = _worker.handle("checkpoint_wanted")
    function = getattr(library(), "rtw_wanted_json", None)
    if function is None:  # a library of an older release reports only whether a request is pending
        what = int(library().rtw_wanted(handle))
        return CheckpointWanted("", None, None, what == 2) if what else None
    function.restype, function.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
    text = function(handle)
    if text is None:
        return None
    facts = json.loads(text)
    deadline = facts.get("deadline_wall_ms")
    return CheckpointWanted(
        reason=str(facts.get("reason", "")),
        deadline=None if deadline is None else datetime.datetime.fromtimestamp(deadline / 1000, datetime.timezone.utc),
        new_world_size=facts.get("workers"),
        stopping=facts["what"] == "stop",
    )


public_in("rtrain.train", CheckpointWanted, checkpoint_wanted)
