"""Ray's collectives among actors, which rtrain does not have. A call raises an error with the reason."""

from __future__ import annotations

from rtrain.train._refused import refused_function

__all__ = [
    "allgather",
    "allreduce",
    "barrier",
    "broadcast",
    "create_collective_group",
    "destroy_collective_group",
    "get_collective_group_size",
    "get_rank",
    "init_collective_group",
    "is_group_initialized",
    "recv",
    "reduce",
    "reducescatter",
    "send",
]

_GROUPS = "torch.distributed in the workers of a TorchTrainer has these operations; train.collective has barrier and broadcast"


def _function(name: str) -> object:
    return refused_function(name, _GROUPS, "rtrain.util.collective")


allgather = _function("allgather")
allreduce = _function("allreduce")
barrier = _function("barrier")
broadcast = _function("broadcast")
create_collective_group = _function("create_collective_group")
destroy_collective_group = _function("destroy_collective_group")
get_collective_group_size = _function("get_collective_group_size")
get_rank = _function("get_rank")
init_collective_group = _function("init_collective_group")
is_group_initialized = _function("is_group_initialized")
recv = _function("recv")
reduce = _function("reduce")
reducescatter = _function("reducescatter")
send = _function("send")
