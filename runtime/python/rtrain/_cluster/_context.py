"""`get_runtime_context`: the ids of this process, its call and its actor, and the resources that it holds."""

from __future__ import annotations

import os
import re
from typing import Any

from rtrain import _runtime_env, _where
from rtrain._cluster import _view
from rtrain._http import SESSION, Head, part
from rtrain._lazy import public_in
from rtrain._remote import _current
from rtrain._remote._actors._handle import ActorHandle, arrived


class RuntimeContext:
    """Identifies this process. All ids are texts; those of runs, nodes and attempts are the cluster's own."""

    def get_job_id(self) -> str:
        """Returns the id of the program that this process belongs to: its driver's run, or the driver's session."""
        return _current.job_id()

    def get_node_id(self) -> str:
        """Returns the name of this process's node; of a driver outside of the cluster's nodes, an empty text."""
        if node := os.environ.get("RTRAIN_NODE"):
            return node
        here = _view.get_node_ip_address()
        return next((str(node["node"]) for node in _view.head().items("/v1/nodes") if node["address"] == here), "")

    def get_worker_id(self) -> str:
        """Returns the id of this process: attempt and rank in a worker, else the session of the driver."""
        attempt = os.environ.get("RTRAIN_ATTEMPT")
        return f"{attempt}-{os.environ.get('RANK', '0')}" if attempt else SESSION

    def get_task_id(self) -> str | None:
        """Returns the id of the call that runs now; None outside of one."""
        number = _current.call_number.get()
        return f"{os.environ.get('RTRAIN_RUN_ID', '')}-{number}" if number else None

    def get_task_name(self) -> str | None:
        """Returns the name of the call that runs now, as `train` or `Model.predict`; None outside of one."""
        return _current.call.get().removesuffix("()") or None

    def get_task_function_name(self) -> str | None:
        """Returns the same as `get_task_name`."""
        return self.get_task_name()

    def get_actor_id(self) -> str | None:
        """Returns the id of this actor's run; None outside of an actor."""
        return None if _current.actor is None else os.environ["RTRAIN_RUN_ID"]

    def get_actor_name(self) -> str | None:
        """Returns the name of this actor's run; None outside of an actor."""
        return None if _current.actor is None else os.environ["RTRAIN_RUN_NAME"]

    def get_assigned_resources(self) -> dict[str, float]:
        """Returns what this worker holds, as `{"CPU": 1.0}`; nothing outside of a worker."""
        if not (run := os.environ.get("RTRAIN_RUN_ID")):
            return {}
        scaling = Head.current().get(f"/v1/runs/{part(run)}")["job"]["scaling"]
        return {name: float(amount) for name, amount in scaling["resources_per_worker"].items()}

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        """Returns the indices of the GPUs that this worker holds, as `{"GPU": ["0"]}`."""
        return {"GPU": [str(device) for device in _view.get_gpu_ids()]}

    def get_placement_group_id(self) -> None:
        """Returns None: there are no placement groups."""

    def get_runtime_env_string(self) -> str:
        """Returns the runtime_env of this process as JSON."""
        import json

        return json.dumps(self.runtime_env)

    @property
    def runtime_env(self) -> dict[str, Any]:
        """The runtime_env that runs of this process get: that of `init`, over that of this process's own run."""
        return _where.runtime_env() if _where.is_initialized() else _runtime_env.inherited()

    @property
    def gcs_address(self) -> str:
        """The address of the head, "host:port"."""
        return _view.head().place.address

    @property
    def was_current_actor_reconstructed(self) -> bool:
        """Whether this actor's worker is not its first."""
        attempt = re.search(r"-a(\d+)$", os.environ.get("RTRAIN_ATTEMPT", ""))
        return _current.actor is not None and attempt is not None and int(attempt[1]) > 1

    @property
    def current_actor(self) -> ActorHandle:
        """A handle of this actor. It keeps nothing alive: the actor ends with the handles of its maker. Raises RuntimeError outside
        of an actor.
        """
        actor = _current.actor
        if actor is None:
            raise RuntimeError("this process is no actor")
        listen = actor.description["listen"]
        return arrived({**actor.description, "address": listen()}, actor.methods, actor.limits)

    def get(self) -> dict[str, Any]:
        """Returns job_id, node_id, worker_id, and task_id and actor_id where there are some."""
        ids = {"task_id": self.get_task_id(), "actor_id": self.get_actor_id()}
        known = {"job_id": self.get_job_id(), "node_id": self.get_node_id(), "worker_id": self.get_worker_id()}
        return {**known, **{name: value for name, value in ids.items() if value is not None}}


def get_runtime_context() -> RuntimeContext:
    """Returns the ids of this process, its call and its actor, and the resources that it holds."""
    return RuntimeContext()


public_in("rtrain", get_runtime_context)
public_in("rtrain.runtime_context", RuntimeContext)
