"""Requests of a worker to the head about its own run: kept checkpoints, sizes of attempts, nodes that will be taken
away.
"""

from __future__ import annotations

import datetime
import sys
import time
from typing import Any

from rtrain._http import Head, HeadError, part
from rtrain.train import _worker
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._result import by_score
from rtrain.train._run_directory import _elsewhere
from rtrain.train._run_directory._reading import Bucket, full_metrics
from rtrain.train._session import _validations
from rtrain.train._session._protocol import ReportedCheckpoint
from rtrain.train._values import _metrics, _names
from rtrain.train._values._facts import CheckpointConsistencyMode, Facts, PreemptionInfo, ReportedCheckpointStatus, ResizeInfo
from rtrain.train._worker._checkpoint_request import CheckpointWanted

# seconds after which the head is assumed to have recorded `newest`; retention may have removed it since
_KNOWN_S = 10.0
_PAUSE_S = 0.25
_SAY_AFTER_S, _SAY_AGAIN_S = 30.0, 300.0
_LEAVING = ("DRAINING", "QUARANTINED")


def of_run(
    facts: Facts, consistency: CheckpointConsistencyMode, timeout_s: float | None, newest: str
) -> list[ReportedCheckpoint]:
    """Returns the kept checkpoints of the runs of this name, from the worst to the best. Waits until the head has
    recorded `newest`, and with VALIDATED until no validation is pending. At the time limit, returns the present
    list.
    """
    head = _worker.head(_names.HEAD_AWAY_S if timeout_s is None else min(timeout_s, _names.HEAD_AWAY_S))
    run = head.get(f"/v1/runs/{part(facts.run_id)}")
    earlier = _before(head, run)
    begun = time.monotonic()
    last_notice = begun + _SAY_AFTER_S - _SAY_AGAIN_S
    while True:
        checkpoints = _listed(head, run, earlier)
        listed = any(report.checkpoint.name == newest for report in checkpoints)
        known = not newest or listed or time.monotonic() - begun > _KNOWN_S
        pending = [report for report in checkpoints if report.status is ReportedCheckpointStatus.PENDING_VALIDATION]
        if consistency is not CheckpointConsistencyMode.VALIDATED:
            pending = []
        if (known and not pending) or (timeout_s is not None and time.monotonic() - begun > timeout_s):
            return checkpoints
        if pending and time.monotonic() - last_notice > _SAY_AGAIN_S:
            last_notice = time.monotonic()
            _say_pending(facts, pending)
        time.sleep(_PAUSE_S)


def _say_pending(facts: Facts, pending: list[ReportedCheckpoint]) -> None:
    """Prints that a validation is pending. It may wait for a driver that does not run: a rank cannot see that, since
    the head does not record drivers.
    """
    names = ", ".join(report.checkpoint.name for report in pending[:3]) + (" ..." if len(pending) > 3 else "")
    print(
        f"rtrain: get_all_reported_checkpoints waits for the validation of {names}. The driver validates: where none follows the "
        f"run (fit() has ended, or was detached from), rtrain.train.attach({facts.experiment_name!r}).result() does; timeout_s= "
        "limits the waiting, CheckpointConsistencyMode.COMMITTED does without",
        file=sys.stderr,
        flush=True,
    )


def _listed(head: Head, run: dict[str, Any], earlier: list[ReportedCheckpoint]) -> list[ReportedCheckpoint]:
    rules = run["job"].get("checkpoint") or {}
    # The reports of the earlier runs include the results of their validation.
    by_name = {report.checkpoint.name: report for report in earlier}
    for own_report in _kept(head, run):
        by_name.setdefault(own_report.checkpoint.name, own_report)
    in_order = by_score(
        [report.checkpoint for report in by_name.values()], rules.get("score_attribute"), rules.get("score_order") or "max"
    )
    return [by_name[checkpoint.name] for checkpoint, _ in in_order]


def sweep(sweeper: _elsewhere.Sweeper, facts: Facts, patience_s: float) -> int:
    """Removes files on the run's other file system that belong to checkpoints which no run of this name keeps."""
    head = _worker.head(patience_s)
    run = head.get(f"/v1/runs/{part(facts.run_id)}")
    same = [run, *_same(head, run)]
    kept = [
        checkpoint["directory"]
        for record in same
        for checkpoint in head.items(f"/v1/runs/{part(record['run_id'])}/checkpoints")
        if not checkpoint["deleting"]
    ]
    return sweeper.sweep(kept, lambda name: Checkpoint(f"{facts.run_path}/{name}")._pointers())


def _before(head: Head, run: dict[str, Any]) -> list[ReportedCheckpoint]:
    """Returns the checkpoints of the earlier runs of this name in this directory, oldest first. A resumed run shares
    their history.
    """
    return [checkpoint for earlier_run in reversed(_same(head, run)) for checkpoint in _kept(head, earlier_run)]


def _same(head: Head, run: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the other runs with the same name and directory, newest first."""
    runs = head.items("/v1/runs", {"name": run["name"], "all": True})
    return [other_run for other_run in runs if other_run["run_path"] == run["run_path"] and other_run["run_id"] != run["run_id"]]


def _kept(head: Head, run: dict[str, Any]) -> list[ReportedCheckpoint]:
    """Returns the checkpoints that the run keeps, oldest first."""
    route = f"/v1/runs/{part(run['run_id'])}"
    validations = _validations.answers(head, run["run_id"])
    checkpoints: list[ReportedCheckpoint] = []
    bucket = Bucket()
    for record in head.items(f"{route}/checkpoints"):
        if not record["deleting"]:
            answer = validations.get(record["directory"])
            validation_metrics: Any = _metrics.decode((answer or {}).get("metrics", {}))
            metrics = {**full_metrics(head, route, record, bucket), **validation_metrics}
            checkpoint = Checkpoint._kept(record["path"], metrics=metrics, name=record["directory"])
            checkpoints.append(ReportedCheckpoint(checkpoint, checkpoint.metrics, _status(answer)))
    return checkpoints


def _status(answer: dict[str, Any] | None) -> ReportedCheckpointStatus:
    return ReportedCheckpointStatus(answer["status"]) if answer else ReportedCheckpointStatus.COMMITTED


def resize_info(facts: Facts) -> ResizeInfo:
    workers = (
        _worker.head().get(f"/v1/runs/{part(facts.run_id)}").get("job", {}).get("scaling", {}).get("workers", facts.world_size)
    )
    least, most = limits(workers)
    return ResizeInfo(facts.world_size, facts.previous_world_size, least, most)


def resources(facts: Facts) -> dict[str, float]:
    """Returns the resources of all workers of this attempt together."""
    each = _worker.head().get(f"/v1/runs/{part(facts.run_id)}")["job"]["scaling"].get("resources_per_worker") or {}
    return {name: amount * facts.world_size for name, text in each.items() if (amount := _amount(str(text))) > 0}


def _amount(text: str) -> float:
    """Converts an amount such as `4`, `0.5`, or `8GiB` (to bytes)."""
    number = text.rstrip("KMGTPEiB")
    unit = text[len(number) :]
    power = " KMGTPE".index(unit[0]) if unit not in ("", "B") else 0
    return float(number) * float(1024 if "i" in unit else 1000) ** power


def limits(workers: object) -> tuple[int, int]:
    """Converts a job's `scaling.workers`, such as `4` or `2..8`, to its bounds."""
    least, _, most = str(workers).partition("..")
    return int(least), int(most or least)


def preemption_info(facts: Facts, request: CheckpointWanted | None) -> PreemptionInfo | None:
    """Returns the nodes of this attempt that will be taken away: those that drain, or all of them if another run
    preempts this one (`wanted`). Returns None if there are none, or if the head does not answer.
    """
    try:
        head = Head.current()
        attempts = head.items(f"/v1/runs/{part(facts.run_id)}/attempts")
        own_attempt = next((attempt for attempt in attempts if attempt["number"] == facts.attempt), None)
        if own_attempt is None:
            return None
        nodes = {node["node"]: node for node in head.items("/v1/nodes")}
    except HeadError:
        return None
    ranks: dict[str, list[int]] = {}
    for worker in own_attempt["workers"]:
        ranks.setdefault(worker["node"], []).append(worker["rank"])
    taken = request is not None and request.reason == "preemption"
    going = {node: sorted(them) for node, them in ranks.items() if taken or nodes.get(node, {}).get("state") in _LEAVING}
    if not going:
        return None
    until = [_unix_ms(nodes[node]["drain_deadline"]) for node in going if nodes.get(node, {}).get("drain_deadline")]
    if request is not None and request.deadline is not None and request.reason in ("drain", "preemption"):
        until.append(int(request.deadline.timestamp() * 1000))
    return PreemptionInfo(min(until, default=None), going)


def _unix_ms(text: str) -> int:
    return int(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)
