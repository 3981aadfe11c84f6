"""Connects the ranks: rank 0's process has JAX's coordinator, and each rank joins it before the loop."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from rtrain import train
from rtrain._lazy import public_in
from rtrain.train.backend import Backend, BackendConfig, WorkerGroup


@dataclass
class JaxConfig(BackendConfig):
    """How the ranks meet. use_tpu: refused, as rtrain places no TPUs. use_gpu: None: JAX takes the GPUs that the worker has."""

    use_tpu: bool = False
    use_gpu: bool | None = None

    def __post_init__(self) -> None:
        if self.use_tpu:
            raise ValueError(
                "JaxConfig: use_tpu is True, and rtrain places no TPUs; it places CPUs and NVIDIA GPUs (use_gpu=True)"
            )

    @property
    def backend_cls(self) -> type[Backend]:
        """The hooks that call `jax.distributed.initialize` and `shutdown`."""
        return _Distributed


class _Distributed(Backend):
    def on_training_start(self, worker_group: WorkerGroup, backend_config: BackendConfig) -> None:
        if len(worker_group) > 1:
            worker_group.execute(_join, _free_address(), backend_config)

    def on_shutdown(self, worker_group: WorkerGroup, backend_config: BackendConfig) -> None:
        if len(worker_group) > 1:
            worker_group.execute(_leave)


def _free_address() -> str:
    """Returns the address of rank 0 and a free port. JAX's coordinator listens there a moment later."""
    host = os.environ["MASTER_ADDR"]
    family = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]
    with socket.create_server((host, 0), family=family) as server:
        port = server.getsockname()[1]
    return f"[{host}]:{port}" if family == socket.AF_INET6 else f"{host}:{port}"


def _join(address: str, config: JaxConfig) -> None:
    import jax

    context = train.get_context()
    has_gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "") not in ("", "-1")
    if config.use_gpu is False or not has_gpus:
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, num_processes=context.get_world_size(), process_id=context.get_world_rank())


def _leave() -> None:
    import jax

    jax.distributed.shutdown()


public_in("rtrain.train.jax", JaxConfig)
