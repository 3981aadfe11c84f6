"""The attributes of a trainer that a driver reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from rtrain.train._archive._package import Pickled
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._configs import DataConfig, RunConfig, ScalingConfig, ValidationConfig
from rtrain.train._driver._origin import Origin


class Training(Protocol):
    """The attributes of a DataParallelTrainer."""

    train_loop_per_worker: Callable[..., Any]
    train_loop_config: dict[str, Any] | None
    backend_config: Any
    scaling_config: ScalingConfig
    run_config: RunConfig
    datasets: dict[str, Any]
    dataset_config: DataConfig
    validation_config: ValidationConfig | None
    metadata: dict[str, Any]
    resume_from_checkpoint: Checkpoint | None
    _torch: bool
    _kept: dict[str, Pickled]  # parts of the run that the trainer was restored from
    _code: tuple[str, bytes] | None  # code archive of that run: hash and content
    _origin: Origin | None  # directory of that run
