"""Lists of what the head's API has, under the names and with the fields of Ray's state API.

A task is a run of a remote function, an actor a run of an object; ids of both are ids of runs. `detail=True` asks the head for the
pid of each, by one more request for each row.
"""

from __future__ import annotations

import calendar
import dataclasses
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rtrain import _arguments, _where
from rtrain._cluster._view import head, nodes
from rtrain._http import NotFound, part
from rtrain._lazy import public_in

Filter = tuple[str, str, Any]
LIMIT = 100  # rows, unless `limit` is given


@dataclass
class State:
    """One row. Its fields are attributes and keys."""

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except AttributeError:
            raise KeyError(name) from None

    def get(self, name: str, default: Any = None) -> Any:
        """Returns a field; `default` if there is none of that name."""
        return getattr(self, name, default)

    def asdict(self) -> dict[str, Any]:
        """Returns the fields as a dict."""
        return dataclasses.asdict(self)


@dataclass
class ActorState(State):
    """An actor. state: PENDING_CREATION, ALIVE, RESTARTING or DEAD."""

    actor_id: str
    class_name: str
    state: str
    name: str
    job_id: str | None
    node_id: str | None
    pid: int | None
    num_restarts: int
    death_cause: str | None
    required_resources: str
    start_time_ms: int | None
    end_time_ms: int | None


@dataclass
class TaskState(State):
    """A call of a remote function. state: PENDING_NODE_ASSIGNMENT, SUBMITTED_TO_WORKER, RUNNING, FINISHED or FAILED."""

    task_id: str
    name: str
    func_or_class_name: str
    type: str
    state: str
    job_id: str | None
    node_id: str | None
    worker_pid: int | None
    attempt_number: int
    error_message: str | None
    required_resources: str
    creation_time_ms: int | None
    start_time_ms: int | None
    end_time_ms: int | None


@dataclass
class NodeState(State):
    """A node. state: ALIVE or DEAD."""

    node_id: str
    node_name: str
    node_ip: str
    state: str
    state_message: str
    resources_total: dict[str, float]
    labels: dict[str, str]


@dataclass
class JobState(State):
    """A run that is no remote call and that no other run has submitted."""

    job_id: str
    submission_id: str
    type: str
    status: str
    entrypoint: str
    message: str
    start_time: int | None
    end_time: int | None
    metadata: dict[str, str]


S = TypeVar("S", bound=State)


def list_actors(
    address: str | None = None, filters: Iterable[Filter] = (), limit: int = LIMIT, timeout: int = 30, detail: bool = False
) -> list[ActorState]:
    """Returns the newest actors of all users. filters: `("state", "=", "ALIVE")`, also with `!=`."""
    return _listed(address, timeout, lambda: (_actor(run, detail) for run in _runs("actor")), filters, limit)


def list_tasks(
    address: str | None = None, filters: Iterable[Filter] = (), limit: int = LIMIT, timeout: int = 30, detail: bool = False
) -> list[TaskState]:
    """Returns the newest calls of remote functions of all users. filters: as of `list_actors`."""
    return _listed(address, timeout, lambda: (_task(run, detail) for run in _runs("task")), filters, limit)


def list_nodes(
    address: str | None = None, filters: Iterable[Filter] = (), limit: int = LIMIT, timeout: int = 30, detail: bool = False
) -> list[NodeState]:
    """Returns the nodes. filters: as of `list_actors`. detail: changes nothing, all fields are there."""
    _arguments.check_named("list_nodes", detail=detail)
    return _listed(address, timeout, lambda: map(_node, nodes()), filters, limit)


def list_jobs(
    address: str | None = None, filters: Iterable[Filter] = (), limit: int = LIMIT, timeout: int = 30, detail: bool = False
) -> list[JobState]:
    """Returns the newest jobs. filters: as of `list_actors`. detail: asks the head for each job's entrypoint."""
    return _listed(address, timeout, lambda: (job_of(run, detail) for run in _runs(None)), filters, limit)


def get_actor(id: str, address: str | None = None, timeout: int = 30) -> ActorState | None:
    """Returns the actor with the id; None if there is none."""
    run = _run(id, address, timeout)
    return _actor(run, detail=True) if run is not None and _kind(run) == "actor" else None


def get_task(id: str, address: str | None = None, timeout: int = 30) -> TaskState | None:
    """Returns the call with the id; None if there is none."""
    run = _run(id, address, timeout)
    return _task(run, detail=True) if run is not None and _kind(run) == "task" else None


def get_node(id: str, address: str | None = None, timeout: int = 30) -> NodeState | None:
    """Returns the node of that name; None if there is none."""
    return next(iter(list_nodes(address, [("node_id", "=", id)], timeout=timeout)), None)


def get_job(id: str, address: str | None = None, timeout: int = 30) -> JobState | None:
    """Returns the job with the id or name; None if there is none."""
    run = _run(id, address, timeout)
    return job_of(run, detail=True) if run is not None else None


def summarize_tasks(address: str | None = None, timeout: int = 30) -> dict[str, Any]:
    """Returns how many calls of each function are in each state: `{"cluster": {"summary": {NAME: {"state_counts": {}}}}}`."""
    rows = _listed(address, timeout, lambda: (_task(run, detail=False) for run in _runs("task")), (), None)
    return _summary("tasks", [(row.func_or_class_name, row.state, {"type": row.type}) for row in rows])


def summarize_actors(address: str | None = None, timeout: int = 30) -> dict[str, Any]:
    """Returns how many actors of each class are in each state, in the shape of `summarize_tasks`."""
    rows = _listed(address, timeout, lambda: (_actor(run, detail=False) for run in _runs("actor")), (), None)
    return _summary("actors", [(row.class_name, row.state, {"class_name": row.class_name}) for row in rows])


def job_of(run: dict[str, Any], detail: bool) -> JobState:
    """Returns a run as a job."""
    job = run.get("job") or (head().get(f"/v1/runs/{part(run['run_id'])}").get("job") if detail else None) or {}
    entrypoint = job.get("entrypoint", "")
    if isinstance(entrypoint, list):
        entrypoint = entrypoint[2] if entrypoint[:2] == ["sh", "-c"] else shlex.join(entrypoint)
    labels = {name: value for name, value in run["labels"].items() if not name.startswith("rtrain.")}
    status = {"SUCCEEDED": "SUCCEEDED", "FAILED": "FAILED", "STOPPED": "STOPPED"}.get(run["state"])
    return JobState(
        job_id=run["run_id"],
        submission_id=run["name"],
        type="SUBMISSION",
        status=status or ("PENDING" if run["state"] in ("QUEUED", "STARTING") else "RUNNING"),
        entrypoint=str(entrypoint),
        message=run["reason"],
        start_time=_ms(run["started"] or run["submitted"]),
        end_time=_ms(run["ended"]),
        metadata=labels,
    )


def is_job(run: dict[str, Any]) -> bool:
    """Returns true for a run that is no remote call and that no other run has submitted."""
    return _kind(run) is None and "rtrain.parent" not in run["labels"]


def _listed(
    address: str | None, timeout: int, rows: Callable[[], Iterable[S]], filters: Iterable[Filter], limit: int | None
) -> list[S]:
    _connect(address, timeout)
    checked = [_checked(given) for given in filters]
    fitting = [row for row in rows() if all((str(row.get(name)) == str(value)) == equal for name, equal, value in checked)]
    return fitting if limit is None else fitting[:limit]


def _checked(given: Sequence[Any]) -> tuple[str, bool, Any]:
    if len(given) != 3 or given[1] not in ("=", "!="):
        raise ValueError(f'a filter is a tuple (FIELD, "=" or "!=", VALUE), not {given!r}')
    return given[0], given[1] == "=", given[2]


def _connect(address: str | None, timeout: int) -> None:
    """Connects this process to the cluster at `address`, as `rtrain.init` does, unless it is connected already. Raises
    ValueError if it is connected to another cluster.
    """
    if timeout <= 0:
        raise ValueError(f"timeout is {timeout!r}; it is a number of seconds above 0")
    if not _where.is_initialized():
        _where.init(address)
    elif address not in (None, "auto", head().place.address):
        raise ValueError(
            f"this process is connected to {head().place.address}: call rtrain.shutdown() and rtrain.init({address!r}) before"
        )


def _runs(kind: str | None) -> list[dict[str, Any]]:
    runs = head().items("/v1/runs", {"all": "true", "limit": 1000})
    return [run for run in runs if (is_job(run) if kind is None else _kind(run) == kind)]


def _run(name: str, address: str | None, timeout: int) -> dict[str, Any] | None:
    _connect(address, timeout)
    try:
        run: dict[str, Any] = head().get(f"/v1/runs/{part(name)}")
    except NotFound:
        return None
    return run


def _kind(run: dict[str, Any]) -> str | None:
    kind = run["labels"].get("rtrain.remote")
    return None if kind is None else str(kind)


def _actor(run: dict[str, Any], detail: bool) -> ActorState:
    ended = run["state"] in ("SUCCEEDED", "FAILED", "STOPPED")
    waits = "PENDING_CREATION" if run["attempt"] <= 1 else "RESTARTING"
    alive = run["state"] not in ("QUEUED", "STARTING", "RECOVERING")
    return ActorState(
        actor_id=run["run_id"],
        class_name=_function_of(run),
        state="DEAD" if ended else "ALIVE" if alive else waits,
        name=run["name"],
        job_id=run["labels"].get("rtrain.parent"),
        node_id=next(iter(run["nodes"]), None),
        pid=_pid(run) if detail else None,
        num_restarts=run["failures"],
        death_cause=run["reason"] if ended else None,
        required_resources=run["needs"],
        start_time_ms=_ms(run["started"]),
        end_time_ms=_ms(run["ended"]),
    )


def _task(run: dict[str, Any], detail: bool) -> TaskState:
    state = {"SUCCEEDED": "FINISHED", "FAILED": "FAILED", "STOPPED": "FAILED"}.get(run["state"])
    waits = "PENDING_NODE_ASSIGNMENT" if run["state"] in ("QUEUED", "RECOVERING") else None
    starts = "SUBMITTED_TO_WORKER" if run["state"] == "STARTING" else "RUNNING"
    return TaskState(
        task_id=run["run_id"],
        name=run["name"],
        func_or_class_name=_function_of(run),
        type="NORMAL_TASK",
        state=state or waits or starts,
        job_id=run["labels"].get("rtrain.parent"),
        node_id=next(iter(run["nodes"]), None),
        worker_pid=_pid(run) if detail else None,
        attempt_number=max(run["attempt"] - 1, 0),
        error_message=run["reason"] if state == "FAILED" else None,
        required_resources=run["needs"],
        creation_time_ms=_ms(run["submitted"]),
        start_time_ms=_ms(run["started"]),
        end_time_ms=_ms(run["ended"]),
    )


def _function_of(run: dict[str, Any]) -> str:
    """Returns the function or class, which the run is named after unless it has a name of its own."""
    return str(run["labels"].get("rtrain.function") or run["name"].rpartition("-")[0] or run["name"])


def _node(node: dict[str, Any]) -> NodeState:
    return NodeState(
        node_id=node["NodeID"],
        node_name=node["NodeName"],
        node_ip=node["NodeManagerAddress"],
        state="ALIVE" if node["Alive"] else "DEAD",
        state_message=node["DeathReasonMessage"],
        resources_total=node["Resources"],
        labels=node["Labels"],
    )


def _pid(run: dict[str, Any]) -> int | None:
    attempts = head().items(f"/v1/runs/{part(run['run_id'])}/attempts")
    workers = attempts[-1]["workers"] if attempts else []
    return next((int(worker["pid"]) for worker in workers if worker.get("pid")), None)


def _ms(text: str | None) -> int | None:
    """Converts a time of the API ("2026-01-31T12:00:00.000Z") to milliseconds since 1970."""
    if text is None:
        return None
    seconds, _, rest = text.removesuffix("Z").partition(".")
    return calendar.timegm(time.strptime(seconds, "%Y-%m-%dT%H:%M:%S")) * 1000 + int((rest or "0").ljust(3, "0")[:3])


def _summary(plural: str, rows: list[tuple[str, str, dict[str, str]]]) -> dict[str, Any]:
    summary: dict[str, dict[str, Any]] = {}
    for name, state, more in rows:
        entry = summary.setdefault(name, {"func_or_class_name": name, **more, "state_counts": Counter()})
        entry["state_counts"][state] += 1
    counted = {name: {**entry, "state_counts": dict(entry["state_counts"])} for name, entry in summary.items()}
    return {"cluster": {"summary": counted, f"total_{plural}": len(rows)}}


public_in("rtrain.util.state", ActorState, JobState, NodeState, State, TaskState)
public_in("rtrain.util.state", get_actor, get_job, get_node, get_task, list_actors, list_jobs, list_nodes, list_tasks)
public_in("rtrain.util.state", summarize_actors, summarize_tasks)
