"""Lightning's strategies on this worker's device, with the ranks of the run."""

from __future__ import annotations

from typing import Any

import torch

from rtrain._lazy import public_in
from rtrain.train.lightning._lightning import DDPStrategy, DeepSpeedStrategy, FSDPStrategy
from rtrain.train.torch._place import get_device, place


class _OfTheRun:
    """What the strategies share: one device a process, and loaders divided by the run's size. Lightning by itself
    counts the devices that it sees."""

    @property
    def root_device(self) -> torch.device:
        return get_device()

    @property
    def distributed_sampler_kwargs(self) -> dict[str, Any]:
        here = place()
        return {"num_replicas": here.world_size, "rank": here.world_rank}


class RayDDPStrategy(_OfTheRun, DDPStrategy):
    """DistributedDataParallel; takes what Lightning's DDPStrategy takes."""


class RayFSDPStrategy(_OfTheRun, FSDPStrategy):
    """FullyShardedDataParallel (GPUs only); takes what Lightning's FSDPStrategy takes."""


class RayDeepSpeedStrategy(_OfTheRun, DeepSpeedStrategy):
    """DeepSpeed, where the package is installed (Lightning names it when it is not); takes what DeepSpeedStrategy
    takes."""


public_in("rtrain.train.lightning", RayDDPStrategy, RayDeepSpeedStrategy, RayFSDPStrategy)
