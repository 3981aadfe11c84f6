"""The functions that a training loop calls: report, read the checkpoint to resume from, see whether a checkpoint is
requested.
"""

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
    """Reports this worker's metrics, and a checkpoint if one is given. Waits for the other ranks. Every rank must
    call it equally often.

    metrics: names to numbers, strings, booleans, dates, None, lists and dicts of these. NumPy scalars and 0-dim
    tensors are converted; NaN and infinity are allowed. At most 1 MiB as JSON.
    checkpoint: a directory, or a Checkpoint. Any rank may report one, and the files of all ranks are merged. Once
    `report` returns, the caller's directory may be deleted.
    checkpoint_dir_name: the directory's name; rank 0's counts. If the run has used that name, the attempt's number
    is appended, and the older checkpoint stays. Raises ValueError for names that no checkpoint can have
    (docs/workers.md).
    checkpoint_upload_mode: when `report` returns; None takes the run's `checkpoint.upload`.
    delete_local_checkpoint_after_upload: with True the directory is moved if possible, otherwise copied and removed.
    With None and CheckpointUploadMode.ASYNC it is removed once its files are staged. With None and no mode, or with
    False, it stays.
    checkpoint_upload_fn: `(checkpoint, directory name) -> Checkpoint` stores the files in the run's directory
    itself. As with CheckpointUploadMode.NO_UPLOAD, the run's directory must be a path that the nodes mount. The
    files stay there, in a directory for each report. With CheckpointUploadMode.ASYNC the function runs in a thread
    after `report` has returned, after those of earlier reports. The report is made when the function has returned.
    An error of the function ends the rank at once. In local mode it ends the loop, and `fit()` raises it as a
    CheckpointUploadError.
    validation: True, or a ValidationTaskConfig, has the checkpoint validated by the trainer's `validation_config`.

    Raises RuntimeError outside of a training function, TypeError for a metric that cannot be stored, and ValueError
    for arguments that contradict each other. Raises CheckpointUploadError if a checkpoint was lost, AgentGoneError
    if the agent does not answer, and Stopped if the run is being stopped.
    """
    if checkpoint_dir_name is not None:
        _checkpoint_names.check(checkpoint_dir_name)
    if checkpoint is None and not validation:  # the short path: a report without files takes only microseconds
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
    """Returns the absolute path of the reported directory. Raises ValueError if it does not exist. made_later: a
    checkpoint_upload_fn may make the directory, for example one that waits for DCP's async_save.
    """
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
    """Returns the newest committed checkpoint, from which to resume; None if there is none.

    Raises RuntimeError outside of a training function.
    """
    return _session.current("get_checkpoint").get_checkpoint()


def get_all_reported_checkpoints(
    consistency_mode: CheckpointConsistencyMode = CheckpointConsistencyMode.VALIDATED,
    timeout_s: float | None = None,
) -> list[ReportedCheckpoint]:
    """Returns the checkpoints that the run keeps, with their metrics and their validation's state.

    consistency_mode: COMMITTED waits until the checkpoints that this rank reported are committed, VALIDATED also for
    their validation.
    timeout_s: number of seconds to wait; then the present checkpoints are returned.

    A driver that follows the run makes the validations (see ValidationConfig). Without such a driver, VALIDATED
    without `timeout_s` waits, and prints that after half a minute.
    """
    return _session.current("get_all_reported_checkpoints").all_reported_checkpoints(consistency_mode, timeout_s)


def checkpoint_dir() -> contextlib.AbstractContextManager[str]:
    """Gives a context with a fresh directory on the storage path's file system, for a checkpoint.

    `report` takes the directory over without a copy. A directory that was not reported is removed at the context's end.
    """
    return _session.current("checkpoint_dir").checkpoint_dir()


def should_checkpoint() -> bool:
    """Returns whether a checkpoint is requested now: by a drain, a preemption, a resize, an operator or a stop.

    It is cheap: call it in each step. Ranks may see a request at different steps. So let one rank decide, or pass a
    checkpoint to the next report of all ranks.
    """
    return _session.current("should_checkpoint").should_checkpoint()


def resize_info() -> ResizeInfo:
    """Returns the size of this attempt, of the one before it, and the limits of the run.

    RuntimeError outside of a training function.
    """
    return _session.current("resize_info").resize_info()


def get_preemption_info() -> PreemptionInfo | None:
    """Returns the nodes that are about to be taken away, with their ranks; None if there are none.

    All ranks must call it. Every rank gets rank 0's answer.
    """
    return _session.current("get_preemption_info").preemption_info()


def get_dataset_shard(
    dataset_name: str | None = None, state_dict: Mapping[str, Any] | None = None, *, name: str | None = None
) -> Any:
    """Returns this rank's share of the trainer's dataset `dataset_name` (None: "train").

    For an `rtrain.data` dataset it is a DataIterator. The first call for a dataset is a barrier.

    state_dict: a result of `shard.state_dict()` from a checkpoint; the first iteration resumes there.
    name: the name of `dataset_name` in version 0.1.0.

    Raises KeyError for an unknown dataset. Its text lists the datasets.
    """
    session = _session.current("get_dataset_shard")
    if name is not None:
        if dataset_name is not None:
            raise TypeError("get_dataset_shard has dataset_name and name, which mean the same; give dataset_name")
        dataset_name = name
    return session.dataset_shard(dataset_name) if state_dict is None else session.dataset_shard(dataset_name, state_dict)


def flush(timeout_s: float | None = None) -> None:
    """Waits until every checkpoint that this rank reported is committed, at most `timeout_s` seconds (None: no
    limit).

    Raises CheckpointUploadError if a checkpoint was lost, AgentGoneError after `timeout_s`, and RuntimeError outside
    of a training function.
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
