"""What a worker asks the head about its own run: kept checkpoints, sizes of attempts, nodes that are about to go."""

from __future__ import annotations

from typing import Any

from rtrain._http import Head, HeadError, part
from rtrain.train import _metrics
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._session import CheckpointConsistencyMode, Facts, PreemptionInfo, ReportedCheckpoint, ResizeInfo

_LEAVING = ("DRAINING", "QUARANTINED")


def of_run(facts: Facts, consistency: CheckpointConsistencyMode, timeout_s: float | None) -> list[ReportedCheckpoint]:
    """The run's kept checkpoints, the oldest first."""
    head = Head.current()
    found: list[ReportedCheckpoint] = []
    for one in head.items(f"/v1/runs/{part(facts.run_id)}/checkpoints"):
        if one.get("deleting"):
            continue
        metrics: Any = _metrics.decode(one["metrics"])
        found.append(ReportedCheckpoint(Checkpoint(one["path"], metrics=metrics, name=one["directory"]), metrics))
    return found


def resize_info(facts: Facts) -> ResizeInfo:
    head = Head.current()
    before = None
    for attempt in head.items(f"/v1/runs/{part(facts.run_id)}/attempts"):
        if attempt["number"] < facts.attempt:
            before = int(attempt["world_size"])
    workers = head.get(f"/v1/runs/{part(facts.run_id)}").get("job", {}).get("scaling", {}).get("workers", facts.world_size)
    least, most = limits(workers)
    return ResizeInfo(facts.world_size, before, least, most)


def limits(workers: object) -> tuple[int, int]:
    """`4`, or `2..8`, of a job's `scaling.workers`."""
    least, _, most = str(workers).partition("..")
    return int(least), int(most or least)


def preemption_info(facts: Facts) -> PreemptionInfo | None:
    """The nodes of this attempt that are draining; None when there is none or the head is away."""
    try:
        head = Head.current()
        attempts = head.items(f"/v1/runs/{part(facts.run_id)}/attempts")
        mine = next((one for one in attempts if one["number"] == facts.attempt), None)
        if mine is None:
            return None
        ranks: dict[str, list[int]] = {}
        for worker in mine["workers"]:
            ranks.setdefault(worker["node"], []).append(worker["rank"])
        leaving = {one["node"] for one in head.items("/v1/nodes") if one["state"] in _LEAVING}
    except HeadError:
        return None
    found = {node: sorted(them) for node, them in ranks.items() if node in leaving}
    return PreemptionInfo(None, found) if found else None
