"""The functions that a worker calls: report metrics and checkpoints, and read its rank and the checkpoint to resume
from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtrain._lazy import lazy_names
from rtrain.train import _moved, _worker, collective as collective
from rtrain.train._checkpoint import Checkpoint as Checkpoint
from rtrain.train._context import TrainContext as TrainContext, get_context as get_context, release as release
from rtrain.train._loop import (
    checkpoint_dir as checkpoint_dir,
    flush as flush,
    get_all_reported_checkpoints as get_all_reported_checkpoints,
    get_checkpoint as get_checkpoint,
    get_dataset_shard as get_dataset_shard,
    get_preemption_info as get_preemption_info,
    report as report,
    resize_info as resize_info,
    scratch_dir as scratch_dir,
    should_checkpoint as should_checkpoint,
)
from rtrain.train._session._protocol import ReportedCheckpoint as ReportedCheckpoint
from rtrain.train._values._facts import (
    CheckpointConsistencyMode as CheckpointConsistencyMode,
    CheckpointUploadMode as CheckpointUploadMode,
    PreemptionInfo as PreemptionInfo,
    ReportedCheckpointStatus as ReportedCheckpointStatus,
    ResizeInfo as ResizeInfo,
)
from rtrain.train._worker._checkpoint_request import CheckpointWanted as CheckpointWanted, checkpoint_wanted as checkpoint_wanted
from rtrain.train._worker._library import (
    AgentGoneError as AgentGoneError,
    CheckpointUploadError as CheckpointUploadError,
    Stopped as Stopped,
)

if TYPE_CHECKING:
    from rtrain.train import (
        backend as backend,
        data_parallel_trainer as data_parallel_trainer,
        horovod as horovod,
        huggingface as huggingface,
        jax as jax,
        lightgbm as lightgbm,
        lightning as lightning,
        tensorflow as tensorflow,
        tensors as tensors,
        torch as torch,
        xgboost as xgboost,
    )
    from rtrain.train._configs import (
        CheckpointConfig as CheckpointConfig,
        DataConfig as DataConfig,
        FailureConfig as FailureConfig,
        LoggingConfig as LoggingConfig,
        RunConfig as RunConfig,
        ScalingConfig as ScalingConfig,
        SyncConfig as SyncConfig,
        ValidationConfig as ValidationConfig,
        ValidationFn as ValidationFn,
        ValidationTaskConfig as ValidationTaskConfig,
    )
    from rtrain.train._result import Result as Result
    from rtrain.train._run_context import (
        RayTrainCallback as RayTrainCallback,
        RTrainCallback as RTrainCallback,
        TrainRunContext as TrainRunContext,
        UserCallback as UserCallback,
    )
    from rtrain.train._trainer import (
        DataParallelTrainer as DataParallelTrainer,
        RunHandle as RunHandle,
        attach as attach,
    )
    from rtrain.train._values._errors import (
        BroadcastCollectiveTimeoutError as BroadcastCollectiveTimeoutError,
        CheckpointManagerInitializationError as CheckpointManagerInitializationError,
        CollectiveTimeoutError as CollectiveTimeoutError,
        ControllerError as ControllerError,
        InsufficientClusterResourcesError as InsufficientClusterResourcesError,
        NCCLHangError as NCCLHangError,
        PreemptionError as PreemptionError,
        TrainingFailedError as TrainingFailedError,
        TrainingStoppedError as TrainingStoppedError,
        UserExceptionWithTraceback as UserExceptionWithTraceback,
        WorkerGroupError as WorkerGroupError,
        WorkerGroupStartupFailedError as WorkerGroupStartupFailedError,
        WorkerGroupStartupTimeoutError as WorkerGroupStartupTimeoutError,
        WorkerHealthCheckFailedError as WorkerHealthCheckFailedError,
        WorkerHealthCheckTimeoutError as WorkerHealthCheckTimeoutError,
    )
    from rtrain.train._workers._datasets import TRAIN_DATASET_KEY as TRAIN_DATASET_KEY
    from rtrain.train.backend import BackendConfig as BackendConfig
else:  # the names that drivers use are loaded at their first use
    __getattr__, __dir__, __all__ = lazy_names(__name__)

_moved.find_by_old_names(__name__)
_worker.install_failure_hook()
_worker.install_stack_handler()
