"""Inside a worker: report metrics and checkpoints, learn who this worker is and where to resume from."""

from rtrain.train import _worker
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._context import TrainContext, get_context
from rtrain.train._library import AgentGoneError, CheckpointUploadError, Stopped
from rtrain.train._loop import (
    CheckpointUploadMode,
    checkpoint_dir,
    flush,
    get_checkpoint,
    report,
    scratch_dir,
    should_checkpoint,
)

__all__ = [
    "AgentGoneError",
    "Checkpoint",
    "CheckpointUploadError",
    "CheckpointUploadMode",
    "Stopped",
    "TrainContext",
    "checkpoint_dir",
    "flush",
    "get_checkpoint",
    "get_context",
    "report",
    "scratch_dir",
    "should_checkpoint",
]

_worker.install_failure_hook()
