"""Passes the exception that a loop has raised from the worker to the driver of the same user. It is stored as a value
of the run at the head.

The value's key is error-<rank>. Its content is the attempt's number, a line feed, and the pickle.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from typing import Any

from rtrain import _exception_pickle, _on_cpu
from rtrain._http import Head, HeadError, part
from rtrain.train._values._errors import UserExceptionWithTraceback, worker_exception
from rtrain.train._values._facts import Facts

_BYTES_MOST = 1 << 20
_RANKS_MOST = 900  # most ranks that store their exception; the head stores at most 1,000 values of a run
_WITHIN_S = 3.0  # seconds; the longest delay of a failure by this


def leave(facts: Facts, error: BaseException) -> None:
    """Stores the exception at the head. Stores nothing for an exception that cannot be unpickled; the driver then
    shows its text.
    """
    if not isinstance(error, Exception) or facts.world_rank >= _RANKS_MOST:
        return
    try:
        content = _exception_pickle.dumped(error, _on_cpu.dumps)
    except _exception_pickle.NotCarried:
        return
    if len(content) > _BYTES_MOST:
        return
    thread = threading.Thread(target=_put, args=(facts, content), daemon=True)
    thread.start()
    thread.join(_WITHIN_S)


def _put(facts: Facts, content: bytes) -> None:
    with contextlib.suppress(HeadError, OSError):
        head = Head.current()
        head.patience_s = _WITHIN_S
        head.put(f"/v1/runs/{part(facts.run_id)}/values/error-{facts.world_rank}", f"{facts.attempt}\n".encode() + content)


def is_own(head: Head, run: Mapping[str, Any]) -> bool:
    """Returns whether this process's user made the run. Values of other users are not unpickled, since that would
    run their code as this user.
    """
    token = head.get("/v1/status").get("token") or {}
    return bool(run.get("user")) and token.get("user") == run["user"]


def exceptions(head: Head, run: dict[str, Any], attempt: int, failures: dict[int, str]) -> dict[int, Exception]:
    """Returns the exceptions of an attempt's failed ranks, by rank. It is the exception that the loop raised, with the
    worker's traceback as its cause. If that was not stored, it is made from the failure's text.
    """
    by_rank = {rank: worker_exception(text) for rank, text in failures.items()}
    route = f"/v1/runs/{part(run['run_id'])}/values"
    try:
        kept = {str(value["key"]) for value in head.items(route)}
        if not any(f"error-{rank}" in kept for rank in by_rank) or not is_own(head, run):
            return by_rank
        contents = {rank: head.content(f"{route}/error-{rank}") for rank in by_rank if f"error-{rank}" in kept}
    except HeadError:
        return by_rank
    for rank, content in contents.items():
        number, _, text = content.partition(b"\n")
        # the exception's class is missing in this process
        with contextlib.suppress(ValueError, _exception_pickle.NotCarried):
            if int(number) == attempt and isinstance(error := _exception_pickle.loaded(text), Exception):
                error.__cause__ = UserExceptionWithTraceback(failures[rank])
                by_rank[rank] = error
    return by_rank
