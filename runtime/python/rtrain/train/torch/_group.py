"""Makes the ranks' process group before the training function runs, and ends it afterwards."""

from __future__ import annotations

import os

import torch.distributed as dist

from rtrain._lazy import public_in
from rtrain.train import _process_group
from rtrain.train._process_group import place
from rtrain.train.torch._config import TorchConfig


def setup_process_group(config: TorchConfig | None = None) -> None:
    """Joins the ranks of RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in `torch.distributed`'s default group.

    First sets the CUDA device of this worker, and the variables of other libraries (ACCELERATE_TORCH_DEVICE,
    ACCELERATE_USE_CPU, TORCH_NCCL_ASYNC_ERROR_HANDLING) if they are unset. Does nothing without RANK (local mode),
    or if there is a group already. Raises a RuntimeError with the address if the ranks do not find each other in
    time.
    """
    _process_group.join(config or TorchConfig())


def ensure_process_group() -> None:
    """Makes the group if there is more than one rank and the script has not made it."""
    if place().world_size > 1 and not dist.is_initialized():
        setup_process_group(TorchConfig(timeout_s=_job_timeout_s()))


def shutdown_process_group() -> None:
    """Ends the process group. Waits at most 30 s for a rank that is stuck in a collective; the agent ends its
    process.

    RTRAIN_TORCH_PROCESS_GROUP_SHUTDOWN_TIMEOUT_S sets another limit, in seconds.
    """
    _process_group.leave()


shutdown = shutdown_process_group


def _job_timeout_s() -> int:
    return int(os.environ.get("RTRAIN_BACKEND_TIMEOUT_S") or 1800)


public_in("rtrain.train.torch", setup_process_group, shutdown_process_group)
