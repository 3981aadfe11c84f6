"""Inside a worker: report metrics and checkpoints, learn who this worker is and where to resume from."""

from __future__ import annotations

import importlib
from typing import Any

from rtrain.train import _worker, collective
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._context import TrainContext, get_context, release
from rtrain.train._library import AgentGoneError, CheckpointUploadError, Stopped
from rtrain.train._loop import (
    checkpoint_dir,
    flush,
    get_all_reported_checkpoints,
    get_checkpoint,
    get_dataset_shard,
    get_preemption_info,
    report,
    resize_info,
    scratch_dir,
    should_checkpoint,
)
from rtrain.train._session import (
    CheckpointConsistencyMode,
    CheckpointUploadMode,
    PreemptionInfo,
    ReportedCheckpoint,
    ReportedCheckpointStatus,
    ResizeInfo,
)
from rtrain.train._wanted import CheckpointWanted, checkpoint_wanted

# What a driver uses is loaded when it is first named: the name, and the module that has it.
_LAZY: dict[str, str] = {
    **dict.fromkeys(
        (
            "CheckpointConfig",
            "DataConfig",
            "FailureConfig",
            "LoggingConfig",
            "RunConfig",
            "ScalingConfig",
            "SyncConfig",
            "ValidationConfig",
            "ValidationFn",
            "ValidationTaskConfig",
        ),
        "rtrain.train._configs",
    ),
    **dict.fromkeys(
        (
            "BroadcastCollectiveTimeoutError",
            "CheckpointManagerInitializationError",
            "CollectiveTimeoutError",
            "ControllerError",
            "InsufficientClusterResourcesError",
            "NCCLHangError",
            "PreemptionError",
            "TrainingFailedError",
            "TrainingStoppedError",
            "UserExceptionWithTraceback",
            "WorkerGroupError",
            "WorkerGroupStartupFailedError",
            "WorkerGroupStartupTimeoutError",
            "WorkerHealthCheckFailedError",
            "WorkerHealthCheckTimeoutError",
        ),
        "rtrain.train._errors",
    ),
    **dict.fromkeys(("DataParallelTrainer", "RunHandle", "attach"), "rtrain.train._trainer"),
    **dict.fromkeys(("RTrainCallback", "TrainRunContext", "UserCallback"), "rtrain.train._run_context"),
    "RayTrainCallback": "rtrain.train._run_context",
    "Result": "rtrain.train._result",
    "BackendConfig": "rtrain.train.backend",
    "TRAIN_DATASET_KEY": "rtrain.train._datasets",
}
_MODULES = (
    "torch", "huggingface", "lightning", "tensors", "tensorflow", "xgboost", "lightgbm", "jax", "horovod",
    "backend", "data_parallel_trainer",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    if name in _MODULES:
        try:
            return importlib.import_module(f"rtrain.train.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"rtrain.train.{name}":
                raise
    raise AttributeError(f"module 'rtrain.train' has no attribute {name!r}")


__all__ = [
    "AgentGoneError",
    "Checkpoint",
    "CheckpointConsistencyMode",
    "CheckpointUploadError",
    "CheckpointUploadMode",
    "CheckpointWanted",
    "PreemptionInfo",
    "ReportedCheckpoint",
    "ReportedCheckpointStatus",
    "ResizeInfo",
    "Stopped",
    "TrainContext",
    "checkpoint_dir",
    "checkpoint_wanted",
    "collective",
    "flush",
    "get_all_reported_checkpoints",
    "get_checkpoint",
    "get_context",
    "get_dataset_shard",
    "get_preemption_info",
    "release",
    "report",
    "resize_info",
    "scratch_dir",
    "should_checkpoint",
]
__all__.extend(_LAZY)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})


_worker.install_failure_hook()
_worker.install_stack_handler()
