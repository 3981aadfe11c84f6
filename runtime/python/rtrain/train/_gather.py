"""One small object of every rank to rank 0, by the values that the head keeps of the run."""

from __future__ import annotations

import pickle
import time
from typing import Any

from rtrain._http import Head, NotFound, part
from rtrain.train._package import dumps
from rtrain.train._session import Facts

_PATIENCE_S = 120.0
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.005, 0.25


def to_rank_zero(facts: Facts, number: int, mine: Any) -> list[Any]:
    """`number`: which gathering of this attempt, the same on every rank. TimeoutError names the ranks that did not come."""
    head = Head.current()
    head.patience_s = _PATIENCE_S
    route = f"/v1/runs/{part(facts.run_id)}/values/gather-{facts.attempt}-{number}"
    if facts.world_rank != 0:
        head.put(f"{route}-{facts.world_rank}", dumps(mine, "what a rank gives to rank 0"))
        return []
    found: dict[int, Any] = {0: mine}
    deadline, pause = time.monotonic() + _PATIENCE_S, _FIRST_PAUSE_S
    while len(found) < facts.world_size:
        for rank in range(facts.world_size):
            if rank not in found:
                try:
                    found[rank] = pickle.loads(head.content(f"{route}-{rank}"))
                except NotFound:
                    break
        if len(found) == facts.world_size:
            break
        if time.monotonic() > deadline:
            missing = sorted(set(range(facts.world_size)) - set(found))
            raise TimeoutError(f"ranks {missing} gave rank 0 nothing within {_PATIENCE_S:.0f} s")
        time.sleep(pause)
        pause = min(pause * 2, _LAST_PAUSE_S)
    return [found[rank] for rank in range(facts.world_size)]
