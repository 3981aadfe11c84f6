"""What a worker asks the head about its own run: kept checkpoints, sizes of attempts, nodes that are about to go."""

from __future__ import annotations

import datetime
import time
from typing import Any

from rtrain._http import Head, HeadError, part
from rtrain.train import _metrics, _validation
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._result import by_score
from rtrain.train._run_directory import Bucket, full_metrics
from rtrain.train._session import (
    CheckpointConsistencyMode,
    Facts,
    PreemptionInfo,
    ReportedCheckpoint,
    ReportedCheckpointStatus,
    ResizeInfo,
)
from rtrain.train._wanted import CheckpointWanted

_KNOWN_S = 10.0  # the newest one may be removed by retention before the head is asked
_PAUSE_S = 0.25
_LEAVING = ("DRAINING", "QUARANTINED")


def of_run(
    facts: Facts, consistency: CheckpointConsistencyMode, timeout_s: float | None, newest: str
) -> list[ReportedCheckpoint]:
    """The run's kept checkpoints, from the worst to the best; waits until the head knows `newest`, and VALIDATED until no
    validation is pending. What is there when the time is over is given back."""
    head = Head.current()
    begun = time.monotonic()
    while True:
        found = _listed(head, facts)
        known = not newest or any(one.checkpoint.name == newest for one in found) or time.monotonic() - begun > _KNOWN_S
        pending = consistency is CheckpointConsistencyMode.VALIDATED and any(
            one.status is ReportedCheckpointStatus.PENDING_VALIDATION for one in found
        )
        if (known and not pending) or (timeout_s is not None and time.monotonic() - begun > timeout_s):
            return found
        time.sleep(_PAUSE_S)


def _listed(head: Head, facts: Facts) -> list[ReportedCheckpoint]:
    route = f"/v1/runs/{part(facts.run_id)}"
    wanted = head.get(route)["job"].get("checkpoint") or {}
    said = _validation.answers(head, facts.run_id)
    found: list[Checkpoint] = []
    bucket = Bucket()
    for one in head.items(f"{route}/checkpoints"):
        if not one["deleting"]:
            joined: Any = _metrics.decode(said.get(one["directory"], {}).get("metrics", {}))
            metrics = {**full_metrics(head, route, one, bucket), **joined}
            found.append(Checkpoint(one["path"], metrics=metrics, name=one["directory"]))
    in_order = by_score(found, wanted.get("score_attribute"), wanted.get("score_order") or "max")
    return [ReportedCheckpoint(one, metrics, _status(said.get(one.name))) for one, metrics in in_order]


def _status(answer: dict[str, Any] | None) -> ReportedCheckpointStatus:
    return ReportedCheckpointStatus(answer["status"]) if answer else ReportedCheckpointStatus.COMMITTED


def resize_info(facts: Facts) -> ResizeInfo:
    workers = Head.current().get(f"/v1/runs/{part(facts.run_id)}").get("job", {}).get("scaling", {}).get("workers", facts.world_size)
    least, most = limits(workers)
    return ResizeInfo(facts.world_size, facts.previous_world_size, least, most)


def limits(workers: object) -> tuple[int, int]:
    """`4`, or `2..8`, of a job's `scaling.workers`."""
    least, _, most = str(workers).partition("..")
    return int(least), int(most or least)


def preemption_info(facts: Facts, wanted: CheckpointWanted | None) -> PreemptionInfo | None:
    """What of this attempt is about to go: the nodes that drain, or all of them when another run takes their place
    (`wanted` says so). None when nothing goes or the head is away."""
    try:
        head = Head.current()
        attempts = head.items(f"/v1/runs/{part(facts.run_id)}/attempts")
        mine = next((one for one in attempts if one["number"] == facts.attempt), None)
        if mine is None:
            return None
        nodes = {one["node"]: one for one in head.items("/v1/nodes")}
    except HeadError:
        return None
    ranks: dict[str, list[int]] = {}
    for worker in mine["workers"]:
        ranks.setdefault(worker["node"], []).append(worker["rank"])
    taken = wanted is not None and wanted.reason == "preemption"
    going = {node: sorted(them) for node, them in ranks.items() if taken or nodes.get(node, {}).get("state") in _LEAVING}
    if not going:
        return None
    until = [_unix_ms(nodes[node]["drain_deadline"]) for node in going if nodes.get(node, {}).get("drain_deadline")]
    if wanted is not None and wanted.deadline is not None and wanted.reason in ("drain", "preemption"):
        until.append(int(wanted.deadline.timestamp() * 1000))
    return PreemptionInfo(min(until, default=None), going)


def _unix_ms(text: str) -> int:
    return int(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)
