"""Sends one small object of every rank to rank 0, by way of the head, which stores it as a value of the run.

A run has at most 1,000 values. So the key of a value contains only the rank and the gathering. Its content contains the
attempt and the round, and later rounds overwrite earlier ones.
"""

from __future__ import annotations

import pickle
import time
from typing import Any

from rtrain._http import NotFound, part
from rtrain.train import _worker
from rtrain.train._archive._package import dumps
from rtrain.train._values._facts import Facts

_PATIENCE_S = 120.0
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.005, 0.25


def to_rank_zero(facts: Facts, which: str, value: Any, turn: int = 0) -> list[Any]:
    """Gathers the values of all ranks on rank 0. `which`: name of the gathering, which must be the same on every rank
    and differ from other gatherings of the attempt. A round begins when rank 0 has read all values of the round before.
    TimeoutError names the missing ranks.
    """
    head = _worker.head()
    route = f"/v1/runs/{part(facts.run_id)}/values/gather-{which}"
    if facts.world_rank != 0:
        head.put(f"{route}-{facts.world_rank}", dumps((facts.attempt, turn, value), "what a rank gives to rank 0"))
        return []
    by_rank: dict[int, Any] = {0: value}
    deadline, pause = time.monotonic() + _PATIENCE_S, _FIRST_PAUSE_S
    while len(by_rank) < facts.world_size:
        for rank in range(facts.world_size):
            if rank not in by_rank:
                try:
                    attempt, at, given = pickle.loads(head.content(f"{route}-{rank}"))
                except NotFound:
                    break
                if (attempt, at) != (facts.attempt, turn):
                    break
                by_rank[rank] = given
        if len(by_rank) == facts.world_size:
            break
        if time.monotonic() > deadline:
            missing = sorted(set(range(facts.world_size)) - set(by_rank))
            raise TimeoutError(f"ranks {missing} gave rank 0 nothing within {_PATIENCE_S:.0f} s")
        time.sleep(pause)
        pause = min(pause * 2, _LAST_PAUSE_S)
    return [by_rank[rank] for rank in range(facts.world_size)]
