"""Lightning's strategies on this worker's device, with the ranks of the run."""

from __future__ import annotations

from typing import Any

import torch

from rtrain._lazy import public_in
from rtrain.train.lightning._lightning import DDPStrategy, DeepSpeedStrategy, FSDPStrategy
from rtrain.train.torch._place import get_device, place


class _OfTheRun:
    """The common part of the strategies: one device per process, and loaders that are split by the run's number of
    workers. Lightning itself would count the visible devices.
    """

    @property
    def root_device(self) -> torch.device:
        """The device of this worker."""
        return get_device()

    @property
    def distributed_sampler_kwargs(self) -> dict[str, Any]:
        """Lightning's arguments for splitting loaders among the run's workers."""
        here = place()
        return {"num_replicas": here.world_size, "rank": here.world_rank}


class RayDDPStrategy(_OfTheRun, DDPStrategy):
    """Lightning's DDPStrategy (DistributedDataParallel) on this run's workers. The arguments are the same."""


class RayFSDPStrategy(_OfTheRun, FSDPStrategy):
    """Lightning's FSDPStrategy (FullyShardedDataParallel, GPUs only) on this run's workers. The arguments are the same."""


class RayDeepSpeedStrategy(_OfTheRun, DeepSpeedStrategy):
    """Lightning's DeepSpeedStrategy on this run's workers, if DeepSpeed is installed. The arguments are the same."""


public_in("rtrain.train.lightning", RayDDPStrategy, RayDeepSpeedStrategy, RayFSDPStrategy)
