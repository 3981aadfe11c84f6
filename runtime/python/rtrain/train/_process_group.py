"""Joins the ranks' process group, and finds this process's devices.

A worker calls `join` during its first import of torch, when any module of this package may be partly imported. So
this module imports torch inside of its functions, and no function here imports a module of this package.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
import threading
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

SHUTDOWN_VARIABLES = ("RTRAIN_TORCH_PROCESS_GROUP_SHUTDOWN_TIMEOUT_S", "TORCH_PROCESS_GROUP_SHUTDOWN_TIMEOUT_S")
_SHUTDOWN_S = 30.0


class Settings(Protocol):
    """The fields of a TorchConfig."""

    backend: str | None
    init_method: str
    timeout_s: int


@dataclasses.dataclass
class Defaults:
    """The defaults of a TorchConfig."""

    backend: str | None = None
    init_method: str = "env"
    timeout_s: int = 1800


@dataclasses.dataclass(frozen=True)
class Place:
    """The place of a process among the ranks: its rank, local rank, and the numbers of ranks."""

    world_size: int
    world_rank: int
    local_rank: int
    local_world_size: int
    node_rank: int


def place() -> Place:
    """Returns the place of this process among the ranks. Reads it from the process group if there is one, otherwise
    from the environment that an agent or torchrun sets. Otherwise (local mode, a notebook) the world size is 1.
    """
    import torch.distributed as dist

    world_size, world_rank = _number("WORLD_SIZE", 1), _number("RANK", 0)
    if dist.is_available() and dist.is_initialized():
        world_size, world_rank = dist.get_world_size(), dist.get_rank()
    node_rank = _number("NODE_RANK", _number("GROUP_RANK", 0))
    return Place(world_size, world_rank, _number("LOCAL_RANK", 0), _number("LOCAL_WORLD_SIZE", 1), node_rank)


def own_devices() -> list[torch.device]:
    """Returns the devices of this worker: the CPU, or one or more GPUs, by their index among the visible ones."""
    import torch

    if not torch.cuda.is_available():
        return [torch.device("cpu")]
    named = os.environ.get("RTRAIN_DEVICES")
    if named:
        return [torch.device("cuda", int(index)) for index in named.split(",")]
    local_rank = place().local_rank
    return [torch.device("cuda", local_rank if local_rank < torch.cuda.device_count() else 0)]


def join(settings: Settings) -> None:
    """Joins the group, as `rtrain.train.torch.setup_process_group` describes."""
    import torch
    import torch.distributed as dist

    device = own_devices()[0]
    os.environ.setdefault("ACCELERATE_TORCH_DEVICE", str(device))
    if device.type == "cpu":
        # without this variable, Accelerate treats each rank as the only one
        os.environ.setdefault("ACCELERATE_USE_CPU", "true")
    if device.type == "cuda":
        torch.cuda.set_device(device)
        os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")
    if dist.is_initialized() or "RANK" not in os.environ:
        return
    _join(settings, chosen_backend(settings.backend))


def leave() -> None:
    """Ends the group, as `rtrain.train.torch.shutdown_process_group` describes."""
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return
    ending = threading.Thread(target=dist.destroy_process_group, daemon=True, name="rtrain-group-end")
    ending.start()
    ending.join(_shutdown_s())


def chosen_backend(configured: str | None) -> str:
    """Returns the name of the backend: the configured one, otherwise the job's `backend.name`. Without either, nccl
    if this worker has a GPU, otherwise gloo.
    """
    requested = configured or os.environ.get("RTRAIN_BACKEND") or "auto"
    if requested in ("nccl", "gloo") or (configured and requested != "auto"):
        return requested
    return "nccl" if own_devices()[0].type == "cuda" else "gloo"


def _join(settings: Settings, backend: str) -> None:
    import torch.distributed as dist

    here = place()
    address = f"{os.environ.get('MASTER_ADDR', '')}:{os.environ.get('MASTER_PORT', '')}"
    timeout = datetime.timedelta(seconds=settings.timeout_s)
    try:
        store = store_of_this_start(here.world_size, timeout)
        url = None if store else "env://" if settings.init_method == "env" else f"tcp://{address}"
        dist.init_process_group(
            backend, init_method=url, store=store, rank=here.world_rank, world_size=here.world_size, timeout=timeout
        )
    except (RuntimeError, ValueError) as error:
        raise RuntimeError(
            f"rank {here.world_rank} of {here.world_size} could not join the {backend} process group at {address} "
            f"(waited up to {settings.timeout_s:g} s): {error}"
        ) from error


def store_of_this_start(world_size: int, timeout: datetime.timedelta) -> Any:
    """Returns a store whose keys belong to this start alone. Returns None if PyTorch should choose the store.

    torchrun uses one store for all its starts. After a restart a rank may read the address of a dead peer there, and
    fail to connect. If all ranks are on one node, torchrun gives each rank the number of the start, so the keys can
    contain it. Agents of several nodes count their restarts separately. There, and outside of torchrun, PyTorch chooses
    the store.
    """
    environment = os.environ.get
    if environment("TORCHELASTIC_USE_AGENT_STORE") != "True" or environment("GROUP_WORLD_SIZE") != "1":
        return None
    import torch.distributed

    host, port = environment("MASTER_ADDR", "localhost"), int(environment("MASTER_PORT", "0"))
    c10d: Any = torch.distributed
    store = c10d.TCPStore(host, port, world_size, is_master=False, timeout=timeout)
    return c10d.PrefixStore(f"start-{environment('TORCHELASTIC_RESTART_COUNT', '0')}", store)


def _shutdown_s() -> float:
    given = next((os.environ[name] for name in SHUTDOWN_VARIABLES if os.environ.get(name)), None)
    return float(given) if given else _SHUTDOWN_S


def _number(name: str, otherwise: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text else otherwise
