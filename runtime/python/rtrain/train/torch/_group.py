"""The process group of the ranks: made before the training function runs, ended after it."""

from __future__ import annotations

import datetime
import os
import threading
from typing import Any

import torch
import torch.distributed as dist

from rtrain._lazy import public_in
from rtrain.train.torch._config import TorchConfig
from rtrain.train.torch._place import get_device, place

SHUTDOWN_VARIABLES = ("RTRAIN_TORCH_PROCESS_GROUP_SHUTDOWN_TIMEOUT_S", "TORCH_PROCESS_GROUP_SHUTDOWN_TIMEOUT_S")
_SHUTDOWN_S = 30.0


def chosen_backend(config: TorchConfig) -> str:
    """The backend's name: the config's, else the job's `backend.name`, else nccl where this worker has a GPU, else
    gloo."""
    requested = config.backend or os.environ.get("RTRAIN_BACKEND") or "auto"
    if requested in ("nccl", "gloo") or (config.backend and requested != "auto"):
        return requested
    return "nccl" if get_device().type == "cuda" else "gloo"


def setup_process_group(config: TorchConfig | None = None) -> None:
    """Joins the ranks named by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in `torch.distributed`'s default group.

    Sets the CUDA device of this worker first, and what other libraries look for (ACCELERATE_TORCH_DEVICE,
    ACCELERATE_USE_CPU, TORCH_NCCL_ASYNC_ERROR_HANDLING) where it is unset. Without RANK (local mode) or with a group
    that is there already, nothing is done. RuntimeError names the address when the ranks do not find each other in
    time.
    """
    config = config or TorchConfig()
    device = get_device()
    os.environ.setdefault("ACCELERATE_TORCH_DEVICE", str(device))
    if device.type == "cpu":
        os.environ.setdefault("ACCELERATE_USE_CPU", "true")  # else Accelerate takes each rank for the only one
    if device.type == "cuda":
        torch.cuda.set_device(device)
        os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")
    if dist.is_initialized() or "RANK" not in os.environ:
        return
    _join(config, chosen_backend(config))


def _join(config: TorchConfig, backend: str) -> None:
    here = place()
    address = f"{os.environ.get('MASTER_ADDR', '')}:{os.environ.get('MASTER_PORT', '')}"
    timeout = datetime.timedelta(seconds=config.timeout_s)
    try:
        store = _store_of_this_start(here.world_size, timeout)
        url = None if store else "env://" if config.init_method == "env" else f"tcp://{address}"
        dist.init_process_group(
            backend, init_method=url, store=store, rank=here.world_rank, world_size=here.world_size, timeout=timeout
        )
    except (RuntimeError, ValueError) as error:
        raise RuntimeError(
            f"rank {here.world_rank} of {here.world_size} could not join the {backend} process group at {address} "
            f"(waited up to {config.timeout_s:g} s): {error}"
        ) from error


def _store_of_this_start(world_size: int, timeout: datetime.timedelta) -> Any:
    """torchrun keeps one store for all its starts: after a restart a rank may find there the address of a peer that is dead,
    and dial it in vain. On one node every rank knows the number of the start, so each start gets keys of its own. Agents of
    several nodes count their restarts apart; there, and outside of torchrun, PyTorch's own choice stands (None)."""
    environment = os.environ.get
    if environment("TORCHELASTIC_USE_AGENT_STORE") != "True" or environment("GROUP_WORLD_SIZE") != "1":
        return None
    host, port = environment("MASTER_ADDR", "localhost"), int(environment("MASTER_PORT", "0"))
    c10d: Any = dist
    store = c10d.TCPStore(host, port, world_size, is_master=False, timeout=timeout)
    return c10d.PrefixStore(f"start-{environment('TORCHELASTIC_RESTART_COUNT', '0')}", store)


def ensure_process_group() -> None:
    """Makes the group, for scripts that did not make it themselves, when there is more than one rank."""
    if place().world_size > 1 and not dist.is_initialized():
        setup_process_group(TorchConfig(timeout_s=_job_timeout_s()))


def shutdown_process_group() -> None:
    """Ends the process group. A rank that is stuck in a collective costs at most 30 s; the agent ends its process anyway.

    RTRAIN_TORCH_PROCESS_GROUP_SHUTDOWN_TIMEOUT_S sets another limit, in seconds.
    """
    if not (dist.is_available() and dist.is_initialized()):
        return
    ending = threading.Thread(target=dist.destroy_process_group, daemon=True, name="rtrain-group-end")
    ending.start()
    ending.join(_shutdown_s())


shutdown = shutdown_process_group


def _job_timeout_s() -> int:
    return int(os.environ.get("RTRAIN_BACKEND_TIMEOUT_S") or 1800)


def _shutdown_s() -> float:
    given = next((os.environ[name] for name in SHUTDOWN_VARIABLES if os.environ.get(name)), None)
    return float(given) if given else _SHUTDOWN_S


public_in("rtrain.train.torch", setup_process_group, shutdown_process_group)
