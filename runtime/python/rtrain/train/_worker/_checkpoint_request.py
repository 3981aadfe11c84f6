"""Why a checkpoint is wanted, and until when."""

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
    """A pending checkpoint request: why, until when, and what comes after it.

    reason: "drain", "preemption", "resize", "operator" or "stop"; "" when the head did not say.
    deadline: until when a commit still counts, in UTC; None: there is no limit.
    new_world_size: of a resize, how many workers there will be.
    stopping: the attempt is being ended already.
    """

    reason: str  # "drain", "preemption", "resize", "operator", "stop"; "" when the head did not say
    deadline: datetime.datetime | None  # a commit until then counts (UTC); None: no deadline
    new_world_size: int | None  # of a resize: how many workers there will be
    stopping: bool  # the attempt is being ended already


def checkpoint_wanted() -> CheckpointWanted | None:
    """Returns the pending checkpoint request; None when there is none. RuntimeError outside of a worker."""
    handle = _worker.handle("checkpoint_wanted")
    function = getattr(library(), "rtw_wanted_json", None)
    if function is None:  # a library of an older release: it knows only whether
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
