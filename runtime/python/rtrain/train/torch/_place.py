"""Where this process stands among the ranks, and which devices are its own."""

from __future__ import annotations

import dataclasses
import os

import torch
import torch.distributed as dist

from rtrain._lazy import public_in


@dataclasses.dataclass(frozen=True)
class Place:
    world_size: int
    world_rank: int
    local_rank: int
    local_world_size: int
    node_rank: int


def place() -> Place:
    """Returns the place of this process among the ranks: the process group's word where there is one, else the environment that
    an agent or torchrun sets, else a world of one (local mode, a notebook)."""
    world_size, world_rank = _number("WORLD_SIZE", 1), _number("RANK", 0)
    if dist.is_available() and dist.is_initialized():
        world_size, world_rank = dist.get_world_size(), dist.get_rank()
    node_rank = _number("NODE_RANK", _number("GROUP_RANK", 0))
    return Place(world_size, world_rank, _number("LOCAL_RANK", 0), _number("LOCAL_WORLD_SIZE", 1), node_rank)


def get_devices() -> list[torch.device]:
    """Returns the devices that are this worker's own: the CPU, or one or more GPUs, by their index among the visible ones."""
    if not torch.cuda.is_available():
        return [torch.device("cpu")]
    named = os.environ.get("RTRAIN_DEVICES")
    if named:
        return [torch.device("cuda", int(index)) for index in named.split(",")]
    local_rank = place().local_rank
    return [torch.device("cuda", local_rank if local_rank < torch.cuda.device_count() else 0)]


def get_device() -> torch.device:
    """Returns the device to train on: the first of `get_devices()`."""
    return get_devices()[0]


def _number(name: str, otherwise: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text else otherwise


public_in("rtrain.train.torch", get_device, get_devices)
