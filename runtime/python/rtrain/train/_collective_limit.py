"""RTRAIN_TRAIN_COLLECTIVE_TIMEOUT_S: a collective call that takes longer names the ranks that have not come.

A rank that waits for a while leaves a word with the head, so that one whose time is over can tell who has come and who has not.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from rtrain._http import Head, HeadError, NotFound, part
from rtrain.train._errors import BroadcastCollectiveTimeoutError
from rtrain.train._session import Facts

_QUIET_S = 1.0  # what ends sooner leaves no word
_HEAD_S = 5.0  # who does not answer by then does not hold the error up


def within(limit_s: float, call: Callable[[], bytes], facts: Facts, number: int) -> bytes:
    """What `call` gives. BroadcastCollectiveTimeoutError when it takes longer than the limit; the rank then leaves its loop, so
    nobody waits for the call's end. `number`: which collective call of this rank it is, counted from 1."""
    found: list[bytes | BaseException] = []

    def run() -> None:
        try:
            found.append(call())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True, name="rtrain collective")
    thread.start()
    quiet = min(_QUIET_S, limit_s / 4)
    thread.join(quiet)
    if not found:
        _leave_word(facts, number)
        thread.join(limit_s - quiet)
    if not found:
        raise BroadcastCollectiveTimeoutError(
            f"{_who_is_missing(facts, number)} a collective call (number {number} of this attempt) within {limit_s:g} s "
            "(RTRAIN_TRAIN_COLLECTIVE_TIMEOUT_S); every rank must make the same calls of report, get_preemption_info and "
            "rtrain.train.collective in the same order"
        )
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


def _words(facts: Facts) -> str:
    return f"collective-{facts.attempt}-"


def _head() -> Head:
    head = Head.current()
    head.patience_s = _HEAD_S
    return head


def _leave_word(facts: Facts, number: int) -> None:
    with contextlib.suppress(HeadError, OSError):
        route = f"/v1/runs/{part(facts.run_id)}/values/{_words(facts)}{facts.world_rank}"
        _head().put(route, str(number).encode())


def _who_is_missing(facts: Facts, number: int) -> str:
    """The subject of the error's sentence."""
    route = f"/v1/runs/{part(facts.run_id)}/values"
    came = {facts.world_rank}
    try:
        head = _head()
        for rank in range(facts.world_size):
            if rank != facts.world_rank and _came(head, f"{route}/{_words(facts)}{rank}", number):
                came.add(rank)
    except (HeadError, OSError):
        return "not all ranks came to"
    missing = [rank for rank in range(facts.world_size) if rank not in came]
    return f"{_listed(missing)} did not come to" if missing else "not all ranks came in time to"


def _came(head: Head, path: str, number: int) -> bool:
    try:
        return int(head.content(path)) >= number
    except NotFound:
        return False


def _listed(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:20])) + (f" and {len(ranks) - 20} more" if len(ranks) > 20 else "")
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}"
