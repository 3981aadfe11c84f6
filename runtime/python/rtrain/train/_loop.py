"""What a training loop calls: report, where to resume from, whether a checkpoint is wanted now."""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from rtrain._lazy import public_in
from rtrain.train import _session
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._report._call import ReportCall
from rtrain.train._session._protocol import ReportedCheckpoint
from rtrain.train._values import _checkpoint_names, _metrics, _names
from rtrain.train._values._facts import CheckpointConsistencyMode, CheckpointUploadMode, LoopEnded, PreemptionInfo, ResizeInfo
from rtrain.train._workers import _tracking


def report(
    metrics: Mapping[str, Any],
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
    checkpoint_dir_name: str | None = None,
    checkpoint_upload_mode: CheckpointUploadMode | None = None,
    delete_local_checkpoint_after_upload: bool | None = None,
    checkpoint_upload_fn: Callable[[Checkpoint, str], Checkpoint] | None = None,
    validation: object = False,
) -> None:
    """Reports this worker's metrics, and a checkpoint if one is given. Waits for the other ranks: every rank calls it equally often.

    metrics: names to numbers, strings, booleans, dates, None, lists and dicts of these. NumPy scalars and 0-dim tensors are
    converted; NaN and infinity are allowed. At most 1 MiB as JSON.
    checkpoint: a directory, or a Checkpoint. Any of the ranks may bring one, and the files are merged. Once `report` returns,
    the caller's directory may be deleted.
    checkpoint_dir_name: the directory's name, which rank 0 wishes for. If the run has had that name, the attempt's number is put
    behind it, and what was stored under the name stays. ValueError for names that no checkpoint can have (docs/workers.md).
    checkpoint_upload_mode: when this returns; None takes the run's `checkpoint.upload`.
    delete_local_checkpoint_after_upload: True gives the directory away: it is moved, not copied, where possible. None with
    CheckpointUploadMode.ASYNC removes it once its files are staged; without a mode, or with False, it stays.
    checkpoint_upload_fn: `(checkpoint, directory name) -> Checkpoint` brings the files into the run's directory by its own
    means. As with CheckpointUploadMode.NO_UPLOAD, the run's directory must be a path that the nodes mount. The files stay where
    they are put, in a directory for each report. With CheckpointUploadMode.ASYNC the function runs in a thread after `report`
    has returned, behind those of earlier reports, and the report is made when it has ended. An error of the function ends
    the rank at once. In local mode it ends the loop, and `fit()` raises it as a CheckpointUploadError.
    validation: True, or a ValidationTaskConfig, has the checkpoint validated by the trainer's `validation_config`.

    RuntimeError outside of a training function. TypeError names the metric that cannot be stored. ValueError for arguments that
    contradict each other. CheckpointUploadError when a checkpoint was lost for good. AgentGoneError when the agent stays away.
    Stopped when the run is being stopped.
    """
    if checkpoint_dir_name is not None:
        _checkpoint_names.check(checkpoint_dir_name)
    if checkpoint is None and not validation:  # the other arguments speak of files: a report is to cost microseconds
        call = ReportCall(_metrics.encode(metrics), None, checkpoint_dir_name)
    else:
        owned = delete_local_checkpoint_after_upload
        if owned is None and isinstance(checkpoint, Checkpoint):
            owned = checkpoint._owned or None
        call = ReportCall(
            metrics_json=_metrics.encode(metrics),
            directory=_directory_of(checkpoint, made_later=checkpoint_upload_fn is not None),
            directory_name=checkpoint_dir_name,
            upload=checkpoint_upload_mode,
            owned=bool(owned),
            removed=owned is None and checkpoint_upload_mode is CheckpointUploadMode.ASYNC,
            upload_fn=checkpoint_upload_fn,
            validation=validation,
            given=checkpoint if isinstance(checkpoint, Checkpoint) else None,
        )
    session = _session.current("report")
    try:
        session.report(call)
    except LoopEnded:
        _tracking.reported(session, call)
        raise
    _tracking.reported(session, call)


def _directory_of(checkpoint: Checkpoint | str | os.PathLike[str] | None, *, made_later: bool) -> str:
    """Returns the directory of a report that brings files, absolute. ValueError when there are none. made_later: a
    checkpoint_upload_fn may make it, as one that waits for DCP's async_save does."""
    if checkpoint is None:
        raise ValueError("report(validation=...) needs a checkpoint: there is nothing to validate without one")
    path = checkpoint._at if isinstance(checkpoint, Checkpoint) else checkpoint
    text = _names.local_path(os.fspath(path))
    if "://" in text:
        raise ValueError(
            f"the checkpoint {text} is not a directory on this machine: a report brings local files, and the run keeps them. What lies "
            "elsewhere can be named in the metrics"
        )
    directory = pathlib.Path(text).absolute()
    if not directory.is_dir() and not made_later:
        raise ValueError(
            f"the checkpoint {directory} is not a directory; report it while it is there (inside of the `with` block "
            "that made it)"
        )
    return str(directory)


def get_checkpoint() -> Checkpoint | None:
    """Returns the checkpoint to resume from, the newest that is committed; None where there is none.

    RuntimeError outside of a training function.
    """
    return _session.current("get_checkpoint").get_checkpoint()


def get_all_reported_checkpoints(
    consistency_mode: CheckpointConsistencyMode = CheckpointConsistencyMode.VALIDATED,
    timeout_s: float | None = None,
) -> list[ReportedCheckpoint]:
    """Returns the checkpoints that the run keeps, with their metrics and what became of them.

    consistency_mode: COMMITTED waits until those reported by this rank are committed, VALIDATED for their validation as well.
    timeout_s: how many seconds to wait; when they are over, what is there is returned.

    A driver that follows the run makes the validations (see ValidationConfig). While there is none, VALIDATED without
    `timeout_s` waits, and says so after half a minute.
    """
    return _session.current("get_all_reported_checkpoints").all_reported_checkpoints(consistency_mode, timeout_s)


def checkpoint_dir() -> contextlib.AbstractContextManager[str]:
    """Gives a context with a fresh directory on the storage path's file system, for a checkpoint.

    `report` takes the directory over without a copy. A directory that was not reported is removed at the context's end.
    """
    return _session.current("checkpoint_dir").checkpoint_dir()


def should_checkpoint() -> bool:
    """Returns whether a checkpoint is requested now: by a drain, a preemption, a resize, an operator or a stop.

    It is cheap: call it in each step. Ranks may hear of a request at different steps. So let one rank decide, or bring a
    checkpoint with the next report of all.
    """
    return _session.current("should_checkpoint").should_checkpoint()


def resize_info() -> ResizeInfo:
    """Returns the size of this attempt, of the one before it, and the limits of the run.

    RuntimeError outside of a training function.
    """
    return _session.current("resize_info").resize_info()


def get_preemption_info() -> PreemptionInfo | None:
    """Returns the nodes that are about to be taken away, with their ranks; None where there are none.

    All ranks must call it: rank 0's answer is returned on every rank.
    """
    return _session.current("get_preemption_info").preemption_info()


def get_dataset_shard(
    dataset_name: str | None = None, state_dict: Mapping[str, Any] | None = None, *, name: str | None = None
) -> Any:
    """Returns this rank's share of the dataset that the trainer was given as `dataset_name` (None: "train").

    Of an `rtrain.data` dataset it is a DataIterator. The first call for a dataset is a barrier.

    state_dict: what `shard.state_dict()` gave when a checkpoint was made; the first iteration goes on there.
    name: what `dataset_name` was called in version 0.1.0.

    KeyError for another name; the text has the names that are there.
    """
    session = _session.current("get_dataset_shard")
    if name is not None:
        if dataset_name is not None:
            raise TypeError("get_dataset_shard has dataset_name and name, which mean the same; give dataset_name")
        dataset_name = name
    return session.dataset_shard(dataset_name) if state_dict is None else session.dataset_shard(dataset_name, state_dict)


def flush(timeout_s: float | None = None) -> None:
    """Waits until every checkpoint that this rank reported is committed, at most `timeout_s` seconds (None: without end).

    CheckpointUploadError when a checkpoint was lost for good; AgentGoneError when the time is over; RuntimeError outside of a
    training function.
    """
    _session.current("flush").flush(timeout_s)


def scratch_dir() -> str:
    """Returns a directory on the node's fast local disk. It is removed with the attempt.

    RuntimeError outside of a training function.
    """
    return _session.current("scratch_dir").scratch_dir()


public_in(
    "rtrain.train",
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
