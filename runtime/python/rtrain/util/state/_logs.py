"""`get_log`: the lines of a run's workers."""

from __future__ import annotations

import json
from collections.abc import Iterator

from rtrain._cluster._view import head
from rtrain._http import part
from rtrain._lazy import public_in

_STREAMS = {"out": "out", "err": "err"}


def get_log(
    *,
    actor_id: str | None = None,
    task_id: str | None = None,
    submission_id: str | None = None,
    follow: bool = False,
    tail: int = -1,
    suffix: str = "out",
) -> Iterator[str]:
    """Yields the lines that an actor, a task or a job has written.

    follow: goes on with new lines until the run has ended. tail: only that many last lines, -1: all. suffix: "out" or "err".
    """
    given = [name for name in (actor_id, task_id, submission_id) if name is not None]
    if len(given) != 1:
        raise ValueError("get_log takes one of actor_id, task_id and submission_id")
    if suffix not in _STREAMS:
        raise ValueError(f'suffix is {suffix!r}; it is "out" or "err"')
    route = f"/v1/runs/{part(given[0])}/logs"
    query = {"stream": suffix, **({"tail": tail} if tail >= 0 else {})}
    if follow:
        for event in head().follow(route, query):
            if not event.name:
                yield str(event.data["line"]) + "\n"
        return
    for line in head().content(route, query).splitlines():
        yield str(json.loads(line)["line"]) + "\n"


public_in("rtrain.util.state", get_log)
