"""Connects the ranks of a LightGBM training. Each rank gets the list of all ranks' addresses, which LightGBM calls
machines, and listens on a port of its own.
"""

from __future__ import annotations

import os
import socket
import warnings
from dataclasses import dataclass
from typing import Any

from rtrain import train
from rtrain._lazy import public_in
from rtrain.train.backend import Backend, BackendConfig, WorkerGroup

_network: dict[str, Any] = {}  # LightGBM's network parameters for this process


@dataclass
class LightGBMConfig(BackendConfig):
    """Lets the ranks of a run find each other. The loop passes `get_network_params()` to LightGBM."""

    @property
    def backend_cls(self) -> type[Backend]:
        """The hooks that make the list of machines."""
        return _Machines


class _Machines(Backend):
    def on_training_start(self, worker_group: WorkerGroup, backend_config: BackendConfig) -> None:
        worker_group.execute(_join, worker_group.execute(_free_address))


def _free_address() -> tuple[str, int]:
    """Returns an address of this machine that the other ranks can reach, and a free port. LightGBM listens on them a
    moment later.
    """
    host, port = os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", "1"))
    family = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0][0]
    with socket.socket(family, socket.SOCK_DGRAM) as towards:
        towards.connect((host, port))  # connecting a UDP socket sends nothing; it only chooses the own address
        own = str(towards.getsockname()[0])
    with socket.create_server((own, 0), family=family) as server:
        return own, int(server.getsockname()[1])


def _join(addresses: list[tuple[str, int]]) -> None:
    own = addresses[train.get_context().get_world_rank()]
    machines = ",".join(f"{host}:{port}" for host, port in addresses)
    _network.update(num_machines=len(addresses), local_listen_port=own[1], machines=machines)


def get_network_params() -> dict[str, Any]:
    """Returns the parameters by which this rank's LightGBM finds the others: `num_machines`, `machines` and `local_listen_port`.

    It is empty, with a warning, outside of a loop of LightGBMTrainer.
    """
    if not _network:
        warnings.warn("get_network_params() was called outside of a loop of LightGBMTrainer: it is empty", stacklevel=2)
    return dict(_network)


public_in("rtrain.train.lightgbm", LightGBMConfig, get_network_params)
