"""`prepare_model` moves a model to its device, and wraps it for data-parallel or sharded training."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from rtrain._lazy import public_in
from rtrain.train.torch import _gradient_waits, _v1
from rtrain.train.torch._group import ensure_process_group
from rtrain.train.torch._place import get_device, place

STRATEGIES = ("ddp", "fsdp", "fsdp2")


def prepare_model(
    model: nn.Module,
    move_to_device: bool | torch.device = True,
    parallel_strategy: str | None = "ddp",
    parallel_strategy_kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """Returns the model on this worker's device, wrapped for the ranks if there is more than one.

    move_to_device: True moves it to `get_device()`, a device to that one, False does not move it.
    parallel_strategy: "ddp" (DistributedDataParallel), "fsdp" (FullyShardedDataParallel), "fsdp2" (`fully_shard`, in
    place), in any case of letters, or None for no wrap.
    parallel_strategy_kwargs: arguments of the wrapper. "fsdp2" has two more. `modules`: a class or classes of
    submodules that are sharded separately, before the whole model. `mesh`: the axis of a `device_mesh` to shard over;
    default: all ranks.

    The result has `.module` for any number of workers. With one worker it is the model itself, and `state_dict()`
    has the plain keys. Raises ValueError for an unknown strategy, and RuntimeError for a strategy that this torch or
    device does not support.
    """
    strategy = _strategy(parallel_strategy)
    device = move_to_device if isinstance(move_to_device, torch.device) else get_device()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if move_to_device is not False:
        model = model.to(device)
    model = _v1.with_autocast(model, device)
    if strategy is None or place().world_size == 1:
        return with_module(model)
    ensure_process_group()
    return _WRAPS[strategy](model, device, dict(parallel_strategy_kwargs or {}))


def with_module(model: nn.Module) -> nn.Module:
    """Gives a bare model the `.module` that a wrapped one has. It is a plain attribute and not a submodule, so neither
    `state_dict()` nor `parameters()` sees it."""
    if not hasattr(model, "module"):
        model.__dict__["module"] = model
    return model


def _strategy(asked: str | None) -> str | None:
    if asked is None:
        return None
    name = asked.lower() if isinstance(asked, str) else asked
    if name not in STRATEGIES:
        raise ValueError(f"prepare_model(parallel_strategy={asked!r}): use one of {', '.join(STRATEGIES)}, or None for no wrap")
    return str(name)


def _ddp(model: nn.Module, device: torch.device, given: dict[str, Any]) -> nn.Module:
    if not any(parameter.requires_grad for parameter in model.parameters()):
        return with_module(model)  # DistributedDataParallel refuses a model that has no gradients to synchronise
    if device.type == "cuda":
        given = {"device_ids": [device], "output_device": device, **given}
    return _gradient_waits.measured(nn.parallel.DistributedDataParallel(model, **given))


def _fsdp(model: nn.Module, device: torch.device, given: dict[str, Any]) -> nn.Module:
    if device.type == "cpu":
        raise RuntimeError(
            "prepare_model(parallel_strategy='fsdp') needs GPUs: torch's FullyShardedDataParallel does not train on "
            "the CPU; use parallel_strategy='fsdp2' or 'ddp', or give the workers GPUs (ScalingConfig(use_gpu=True))"
        )
    from torch.distributed.fsdp import FullyShardedDataParallel  # noqa: PLC0415 - costs half a second

    return FullyShardedDataParallel(model, **{"device_id": device, **given})


def _fsdp2(model: nn.Module, device: torch.device, given: dict[str, Any]) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh  # noqa: PLC0415

    shard = _fully_shard(device)
    mesh = given.pop("mesh", None) or init_device_mesh(device.type, (dist.get_world_size(),))
    inner = given.pop("modules", ())
    classes = inner if isinstance(inner, tuple) else tuple(inner) if isinstance(inner, list) else (inner,)
    for child in list(model.modules()):
        if child is not model and classes and isinstance(child, classes):
            shard(child, mesh=mesh, **given)
    shard(model, mesh=mesh, **given)
    return with_module(model)


def _fully_shard(device: torch.device) -> Any:
    """Returns `fully_shard` of the installed torch. From 2.6 on it is public, before that it is in another module.
    Raises RuntimeError on the CPU if CPU streams lack methods of GPU streams, as in 2.6.
    """
    if device.type == "cpu" and not hasattr(torch.cpu.Stream, "record_event"):
        raise RuntimeError(
            f"prepare_model(parallel_strategy='fsdp2') trains on GPUs only with torch {torch.__version__}; use 'ddp', a later torch (2.13 does), "
            "or give the workers GPUs (ScalingConfig(use_gpu=True))"
        )
    try:
        from torch.distributed import fsdp  # noqa: PLC0415

        if hasattr(fsdp, "fully_shard"):
            return fsdp.fully_shard
        return importlib.import_module("torch.distributed._composable.fsdp").fully_shard
    except ImportError as error:
        raise RuntimeError(
            f"prepare_model(parallel_strategy='fsdp2') needs torch 2.4 or later, this is {torch.__version__}; use 'fsdp'"
        ) from error


_WRAPS = {"ddp": _ddp, "fsdp": _fsdp, "fsdp2": _fsdp2}


public_in("rtrain.train.torch", prepare_model)
