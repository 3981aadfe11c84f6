"""Resources and nodes of the cluster, in the shapes that Ray's functions of these names return."""

from __future__ import annotations

import os
import re
import socket
from collections import defaultdict
from typing import Any

from rtrain import _where
from rtrain._http import Head
from rtrain._lazy import public_in

_NOT_ALIVE = ("LOST", "LEFT")
_ROUTE_PROBE = ("192.0.2.1", 9)  # an address for documentation (RFC 5737); no packet is sent to it


def head() -> Head:
    """Returns the head of this process's cluster. Connects to the cluster if needed."""
    _where.ensure()
    return Head.current()


def cluster_resources() -> dict[str, float]:
    """Returns the amounts of all nodes that are alive: `{"CPU": 8.0, "GPU": 2.0, "memory": bytes, "node:10.0.0.1": 1.0}`, and
    `accelerator_type:NAME` for GPUs.
    """
    return _summed("resources")


def available_resources() -> dict[str, float]:
    """Returns what is free of `cluster_resources`. A resource that is all in use is left out."""
    return {name: amount for name, amount in _summed("free").items() if amount > 0}


def nodes() -> list[dict[str, Any]]:
    """Returns a dict for each node: NodeID, Alive, NodeManagerAddress, NodeManagerHostname, NodeManagerPort, NodeName, Resources,
    Labels, State and DeathReasonMessage. NodeID is the node's name.
    """
    return [_described(node) for node in head().items("/v1/nodes")]


def get_node_ip_address() -> str:
    """Returns this machine's address, by which the head is reached; without a cluster, that of its default route."""
    if address := os.environ.get("RTRAIN_ADDRESS") or (_where.is_initialized() and Head.current().place.address):
        host, _, port = str(address).rpartition(":")
        return _local_address((host.strip("[]"), int(port)))
    try:
        return _local_address(_ROUTE_PROBE)
    except OSError:
        return "127.0.0.1"  # a machine without a network


def get_gpu_ids() -> list[int | str]:
    """Returns the indices of the GPUs that this worker holds; none outside of a worker. Parts of a GPU (MIG) are named by UUID."""
    devices = [device for device in os.environ.get("RTRAIN_DEVICES", "").split(",") if device]
    return [int(device) if device.isdecimal() else device for device in devices]


def is_alive(node: dict[str, Any]) -> bool:
    return bool(node["connected"]) and node["state"] not in _NOT_ALIVE


def _summed(kind: str) -> dict[str, float]:
    amounts: defaultdict[str, float] = defaultdict(float)
    for node in head().items("/v1/nodes"):
        if not is_alive(node):
            continue
        for name, amount in _amounts(node, kind).items():
            amounts[name] += amount
        amounts[f"node:{node['address']}"] = 1.0
    return dict(amounts)


def _amounts(node: dict[str, Any], kind: str) -> dict[str, float]:
    amounts = {name: float(amount) for name, amount in node[kind].items()}
    if node["gpus"]:
        amounts["GPU"] = float(node["gpus"] if kind == "resources" else node["gpus_free"])
        if node["gpu_model"]:
            amounts[f"accelerator_type:{re.sub(r'[^A-Za-z0-9.-]+', '-', node['gpu_model'])}"] = 1.0
    return amounts


def _described(node: dict[str, Any]) -> dict[str, Any]:
    alive = is_alive(node)
    return {
        "NodeID": node["node"],
        "NodeName": node["node"],
        "Alive": alive,
        "alive": alive,
        "State": node["state"],
        "NodeManagerAddress": node["address"],
        "NodeManagerHostname": node["facts"].get("hostname", ""),
        "NodeManagerPort": node["port"],
        "DeathReasonMessage": "" if alive else node["reason"],
        "Resources": _amounts(node, "resources") if alive else {},
        "Labels": dict(node["labels"]),
    }


def _local_address(towards: tuple[str, int]) -> str:
    kind, *_, where = socket.getaddrinfo(*towards, type=socket.SOCK_DGRAM)[0]
    with socket.socket(kind, socket.SOCK_DGRAM) as probe:
        probe.connect(where)
        return str(probe.getsockname()[0])


public_in("rtrain", available_resources, cluster_resources, get_gpu_ids, nodes)
public_in("rtrain.util", get_node_ip_address)
