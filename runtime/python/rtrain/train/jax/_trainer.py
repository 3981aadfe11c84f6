"""JaxTrainer: a DataParallelTrainer whose ranks are processes of one JAX program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rtrain._lazy import public_in
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._configs import DataConfig, RunConfig, ScalingConfig, ValidationConfig
from rtrain.train._trainer import DataParallelTrainer, Loop
from rtrain.train.jax._config import JaxConfig


class JaxTrainer(DataParallelTrainer):
    """Trains with JAX on several ranks.

    train_loop_per_worker: a function of no argument or one, `train_loop_config`. It runs on every rank after
    `jax.distributed.initialize`, so `jax.devices()` has the devices of all ranks, and `jax.local_devices()` those of its own.
    Collectives between CPUs use Gloo. `fit()` returns a Result, or raises a TrainingFailedError.
    """

    _config_argument = "jax_config"

    def __init__(
        self,
        train_loop_per_worker: Loop,
        *,
        train_loop_config: Mapping[str, Any] | None = None,
        jax_config: JaxConfig | None = None,
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: Mapping[str, Any] | None = None,
        dataset_config: DataConfig | None = None,
        validation_config: ValidationConfig | None = None,
        metadata: Mapping[str, Any] | None = None,
        resume_from_checkpoint: Checkpoint | None = None,
    ) -> None:
        super().__init__(
            train_loop_per_worker,
            train_loop_config=train_loop_config,
            backend_config=jax_config or JaxConfig(),
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=datasets,
            dataset_config=dataset_config,
            validation_config=validation_config,
            metadata=metadata,
            resume_from_checkpoint=resume_from_checkpoint,
        )


public_in("rtrain.train.jax", JaxTrainer)
