"""The ranks of local mode: this process alone, or the ranks that torchrun started, joined by a separate process
group.
"""

from __future__ import annotations

import os
import socket
from typing import Any, Protocol

from rtrain.train import _process_group


class Ranks(Protocol):
    world_size: int
    world_rank: int
    local_rank: int
    local_world_size: int
    node_rank: int

    def gather(self, value: Any, doing: str) -> list[Any]:
        """Returns every rank's value on every rank, in the order of ranks. All ranks must call it. `doing` describes
        the call. All ranks raise RuntimeError if their `doing` differ.
        """
        ...

    def broadcast(self, value: Any, doing: str) -> Any:
        """Returns rank 0's value on every rank. Otherwise like `gather`."""
        ...

    def close(self) -> None: ...


class Alone:
    world_size, world_rank, local_rank, local_world_size, node_rank = 1, 0, 0, 1, 0

    def gather(self, value: Any, doing: str) -> list[Any]:
        return [value]

    def broadcast(self, value: Any, doing: str) -> Any:
        return value

    def close(self) -> None:
        return None


class UnderTorchrun:
    """The ranks under torchrun. The loop's process group is made as on a cluster. Reports use a second one, on the
    CPU.
    """

    def __init__(self, torch_config: Any) -> None:
        import torch.distributed as dist

        self.world_size, self.world_rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self.local_world_size = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        self.node_rank = int(os.environ.get("GROUP_RANK", "0"))
        _process_group.join(torch_config or _process_group.Defaults())
        self._dist: Any = dist
        self._group = dist.new_group(backend="gloo") if dist.is_initialized() else None

    def gather(self, value: Any, doing: str) -> list[Any]:
        if self._group is None:
            return [value]
        objects: list[Any] = [None] * self.world_size
        self._dist.all_gather_object(objects, (doing, value), group=self._group)
        _check_together([activity for activity, _ in objects])
        return [gathered for _, gathered in objects]

    def broadcast(self, value: Any, doing: str) -> Any:
        if self._group is None:
            return value
        self.gather(None, doing)
        holder = [value]
        self._dist.broadcast_object_list(holder, src=0, group=self._group)
        return holder[0]

    def close(self) -> None:
        _process_group.leave()


def _check_together(doing: list[str]) -> None:
    """Raises RuntimeError unless all ranks make the same call. `doing` holds the call of each rank."""
    if len(set(doing)) == 1:
        return
    ranks: dict[str, list[int]] = {}
    for rank, what in enumerate(doing):
        ranks.setdefault(what, []).append(rank)
    ranks_and_calls = "; ".join(
        f"rank{'s' * (len(them) > 1)} {', '.join(map(str, them))}: {what}" for what, them in ranks.items()
    )
    raise RuntimeError(
        f"the ranks have parted ({ranks_and_calls}): every rank must call report() the same number of times, and the collectives of rtrain.train in "
        "the same order"
    )


def under_torchrun() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ and "RANK" in os.environ and "RTRAIN_WORKER_SOCKET" not in os.environ


def node_name() -> str:
    return socket.gethostname().split(".")[0]


def torchruns_own_name() -> str:
    """Returns a name that is the same in every start of one torchrun. It is made from the id and the start time of the
    parent process, which is torchrun.
    """
    parent = os.getppid()
    try:
        with open(f"/proc/{parent}/stat") as file:  # noqa: PTH123
            started = file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        started = "0"
    return f"rtrain_run-torchrun-{parent}-{started}"
