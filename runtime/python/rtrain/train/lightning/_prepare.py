"""Checks that a Lightning trainer uses all of the run's ranks, before it trains on one of them alone."""

from __future__ import annotations

from rtrain._lazy import public_in
from rtrain.train.lightning._lightning import Trainer
from rtrain.train.torch._place import place


def prepare_trainer(trainer: Trainer) -> Trainer:
    """Returns the same trainer. Raises RuntimeError if its strategy would not use the ranks of this run."""
    here = place()
    strategy = trainer.strategy
    process_count = getattr(strategy, "world_size", 1)
    if process_count != here.world_size:
        raise RuntimeError(
            f"the Trainer's {type(strategy).__name__} sees {process_count} process(es), but this run has {here.world_size} "
            "workers; make it with Trainer(strategy=RayDDPStrategy(), plugins=[RayLightningEnvironment()], "
            "devices='auto') from rtrain.train.lightning (or RayFSDPStrategy, RayDeepSpeedStrategy)"
        )
    environment = getattr(strategy, "cluster_environment", None)
    if here.world_size > 1 and environment is not None and not environment.creates_processes_externally:
        raise RuntimeError(
            f"the Trainer's {type(environment).__name__} starts processes of its own, but this run's workers are there "
            "already; give Trainer(plugins=[RayLightningEnvironment()]) from rtrain.train.lightning"
        )
    return trainer


public_in("rtrain.train.lightning", prepare_trainer)
