"""TensorflowTrainer: a DataParallelTrainer whose ranks have TF_CONFIG."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rtrain._lazy import public_in
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._configs import DataConfig, RunConfig, ScalingConfig, ValidationConfig
from rtrain.train._trainer import DataParallelTrainer, Loop
from rtrain.train.tensorflow._config import TensorflowConfig


class TensorflowTrainer(DataParallelTrainer):
    """Trains with TensorFlow on several ranks.

    train_loop_per_worker: a function of no argument or one, `train_loop_config`. It runs on every rank with TF_CONFIG set, so
    `tf.distribute.MultiWorkerMirroredStrategy()` finds the other ranks. It must be the first call of TensorFlow. In local mode
    there is no TF_CONFIG, and the strategy has one worker. `fit()` returns a Result, or raises a TrainingFailedError.
    """

    _config_argument = "tensorflow_config"

    def __init__(
        self,
        train_loop_per_worker: Loop,
        *,
        train_loop_config: Mapping[str, Any] | None = None,
        tensorflow_config: TensorflowConfig | None = None,
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
            backend_config=tensorflow_config or TensorflowConfig(),
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=datasets,
            dataset_config=dataset_config,
            validation_config=validation_config,
            metadata=metadata,
            resume_from_checkpoint=resume_from_checkpoint,
        )


public_in("rtrain.train.tensorflow", TensorflowTrainer)
