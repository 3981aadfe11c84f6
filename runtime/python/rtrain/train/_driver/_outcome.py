"""Makes the Result, or the error, of an ended run from the head's records and the run's directory."""

from __future__ import annotations

import json
import pickle
import sys
from typing import Any

from rtrain import _exception_pickle
from rtrain._http import Head, HeadError, NotFound, part
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._driver import _raised
from rtrain.train._driver._follower import TERMINAL, worker_failures
from rtrain.train._result import Result, best, rows_of
from rtrain.train._run_directory import _views
from rtrain.train._run_directory._reading import Bucket, full_metrics, manifests, open_directory
from rtrain.train._session._validations import answers
from rtrain.train._values import _metrics
from rtrain.train._values._errors import (
    ControllerError,
    NCCLHangError,
    TrainingStoppedError,
    WorkerGroupError,
    WorkerHealthCheckTimeoutError,
    controller_exception,
    group_message,
)


def result_of(head: Head, run: dict[str, Any]) -> Result:
    """Returns the Result of an ended run. It includes the reports and checkpoints of earlier runs in the same
    directory.
    """
    same = [
        candidate
        for candidate in head.items("/v1/runs", {"name": run["name"], "all": True})
        if candidate["run_path"] == run["run_path"] and candidate["state"] in TERMINAL
    ]
    rows, kept = _before_this_cluster(head, same)
    bucket = Bucket()
    for record in reversed(same):
        route = f"/v1/runs/{part(record['run_id'])}"
        rows += [_plain(row["metrics"]) for row in head.items(f"{route}/metrics", {"limit": 1000})]
        validations = answers(head, record["run_id"])
        for checkpoint in head.items(f"{route}/checkpoints"):
            # The results of the validations of earlier runs' checkpoints are not in the list, so they are read
            # separately.
            name = checkpoint["directory"]
            if not checkpoint["deleting"] and name not in kept:
                metrics = {**full_metrics(head, route, checkpoint, bucket), **_plain(validations.get(name, {}).get("metrics"))}
                kept[name] = Checkpoint._kept(checkpoint["path"], metrics=metrics, name=name)
    rules = (run.get("job") or {}).get("checkpoint") or {}
    checkpoints = list(kept.values())
    path, filesystem = _views.shown_run(run["run_path"])
    return Result(
        metrics=rows[-1] if rows else None,
        checkpoint=checkpoints[-1] if checkpoints else None,
        error=_error(head, run),
        path=path,
        best_checkpoints=best(checkpoints, rules),
        return_value=_return_value(head, run),
        all_metrics=rows,
        _filesystem=filesystem,
        _run_path=run["run_path"],
    )


def _before_this_cluster(head: Head, runs: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Checkpoint]]:
    """Returns the reports and checkpoints of attempts that ran on another cluster. Only the run's directory contains
    them.
    """
    attempts = [attempt["number"] for run in runs for attempt in head.items(f"/v1/runs/{part(run['run_id'])}/attempts")]
    first = min(attempts, default=1)
    if first == 1:
        return [], {}
    try:
        directory = open_directory(runs[0]["run_path"], head)
        rows = rows_of(directory, lambda name: int(name.split("/")[1]) < first)
        earlier = {name: manifest for name, manifest in manifests(directory).items() if int(manifest["attempt"]) < first}
    except (OSError, ValueError):
        return [], {}
    in_order = sorted(earlier, key=lambda name: (earlier[name]["attempt"], earlier[name]["report"]))
    path = directory.path
    return rows, {
        name: Checkpoint._kept(f"{path}/{name}", metrics=_plain(earlier[name]["metrics"]), name=name) for name in in_order
    }


def _plain(metrics: Any) -> dict[str, Any]:
    plain = _metrics.decode(metrics)
    return plain if isinstance(plain, dict) else {}


def _return_value(head: Head, run: dict[str, Any]) -> Any:
    if run["state"] != "SUCCEEDED":
        return None
    try:
        content = head.content(f"/v1/runs/{part(run['run_id'])}/values/return-{run['attempt']}")
    except NotFound:
        return None
    if not _raised.is_own(head, run):
        print(
            f"rtrain: the return value of {run['name']} is a pickle of user {run['user']}, and is not read",
            file=sys.stderr,
            flush=True,
        )
        return None
    try:
        value = pickle.loads(content)
        if isinstance(value, dict) and set(value) == {"blob"}:
            value = pickle.loads(head.content(f"/v1/blobs/{value['blob']}"))
    except HeadError:
        raise
    # The value's class is missing in this process, or raises an error. The run's metrics and checkpoints are still
    # returned.
    except Exception as error:
        why = _exception_pickle.in_one_line(error)
        print(f"rtrain: the return value of {run['name']} cannot be read here, and is None: {why}", file=sys.stderr, flush=True)
        return None
    return value


def _error(head: Head, run: dict[str, Any]) -> Exception | None:
    if run["state"] == "SUCCEEDED":
        return None
    where = f"run {run['name']} ({run['run_path']}); `rtrain describe {run['name']}` tells more"
    if run["state"] == "STOPPED":
        return TrainingStoppedError(f"the run was stopped: {run['reason'] or 'by its user'}; {where}")
    attempts = head.items(f"/v1/runs/{part(run['run_id'])}/attempts")
    failures = worker_failures(attempts[-1]) if attempts else {}
    if not failures:
        started = any(attempt["started"] for attempt in attempts)
        why = controller_exception(str(run["reason"]), run.get("reason_kind"), started=started)
        return ControllerError(why, f"Training failed: {run['reason']}; {where}")
    nodes = {int(worker["rank"]): worker["node"] for worker in attempts[-1]["workers"]}
    first = attempts[-1].get("first_failure")
    more = f"First to fail: rank {first['rank']} on {first['node']}.\n" if first else ""
    lines = _last_lines(head, run, min(failures))
    if lines:
        more += f"Last lines of rank {min(failures)} on {nodes.get(min(failures), '?')}:\n{lines}\n"
    exceptions = _raised.exceptions(head, run, int(attempts[-1]["number"]), failures)
    ended_of = exceptions.get(int(first["rank"])) if first else None
    kind = NCCLHangError if isinstance(ended_of, WorkerHealthCheckTimeoutError) else WorkerGroupError
    return kind(group_message(failures, f"{more}{where}"), exceptions)


def _last_lines(head: Head, run: dict[str, Any], rank: int) -> str:
    try:
        text = head.content(f"/v1/runs/{part(run['run_id'])}/logs", {"rank": rank, "tail": 8})
    except HeadError:
        return ""
    return "\n".join("  " + json.loads(line)["line"] for line in text.decode().splitlines() if line)
