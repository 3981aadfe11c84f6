"""`fit()` packs the loop and its data, submits them as a run, follows the run to its end, and returns a Result."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rtrain import _arguments, _requirements
from rtrain._http import Head, part
from rtrain._lazy import public_in
from rtrain.train._archive import _package
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._configs import DataConfig, RunConfig, ScalingConfig, ValidationConfig
from rtrain.train._driver._origin import Origin
from rtrain.train._driver._restore import has_driver, restored
from rtrain.train._driver._submission import Submission, current_head, finished
from rtrain.train._result import Result
from rtrain.train._run_context import TrainRunContext
from rtrain.train._workers import _loop_call

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from rtrain._argument_types import RestoreArguments

Loop = Callable[[], Any] | Callable[[dict[str, Any]], Any]


class DataParallelTrainer:
    """Runs `train_loop_per_worker` on every rank of a run.

    The loop takes no argument, or one: `train_loop_config`. A trainer with the same run name and storage path
    resumes from that run's last checkpoint.
    """

    _torch = False
    _config_argument = "backend_config"  # name of the constructor's argument for the settings of the backend
    _makes_checkpoints = False  # True: the trainer makes checkpoints by itself, by `checkpoint_frequency`

    def __init__(
        self,
        train_loop_per_worker: Loop,
        *,
        train_loop_config: Mapping[str, Any] | None = None,
        backend_config: Any = None,
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: Mapping[str, Any] | None = None,
        dataset_config: DataConfig | None = None,
        validation_config: ValidationConfig | None = None,
        metadata: Mapping[str, Any] | None = None,
        resume_from_checkpoint: Checkpoint | None = None,
    ) -> None:
        if not callable(train_loop_per_worker):
            raise ValueError(f"train_loop_per_worker is {train_loop_per_worker!r}; it is a function")
        if train_loop_config is not None and not isinstance(train_loop_config, Mapping):
            raise ValueError(f"train_loop_config is a {type(train_loop_config).__name__}; it is a dict")
        if resume_from_checkpoint is not None and not isinstance(resume_from_checkpoint, Checkpoint):
            raise ValueError(f"resume_from_checkpoint is a {type(resume_from_checkpoint).__name__}; it is a Checkpoint")
        typed: tuple[tuple[str, object, type], ...] = (
            ("scaling_config", scaling_config, ScalingConfig),
            ("run_config", run_config, RunConfig),
            ("dataset_config", dataset_config, DataConfig),
            ("validation_config", validation_config, ValidationConfig),
            ("datasets", datasets, Mapping),
            ("metadata", metadata, Mapping),
        )
        for name, value, kind in typed:
            if value is not None and not isinstance(value, kind):
                raise ValueError(f"{name} is a {type(value).__name__}; it is a {'dict' if kind is Mapping else kind.__name__}")
        self.train_loop_per_worker = train_loop_per_worker
        self.train_loop_config = dict(train_loop_config) if train_loop_config is not None else None
        self.backend_config = backend_config
        self.scaling_config = scaling_config or ScalingConfig()
        self.run_config = run_config or RunConfig()
        self.datasets = dict(datasets or {})
        self.dataset_config = dataset_config or DataConfig()
        self.validation_config = validation_config
        if not self._makes_checkpoints and not isinstance(
            train_loop_per_worker, _package.Pickled
        ):  # not for a restored trainer, whose arguments were checked when its run was made
            _arguments.check_fields("CheckpointConfig", self.run_config.checkpoint_config)
        self.metadata = dict(metadata or {})
        self.resume_from_checkpoint = resume_from_checkpoint
        self._kept: dict[str, _package.Pickled] = {}  # parts of the run from which this trainer was restored
        self._code: tuple[str, bytes] | None = None  # code archive of that run: hash and content
        self._origin: Origin | None = None  # directory of that run
        for name, given in (("metadata", metadata), ("resume_from_checkpoint", resume_from_checkpoint)):
            if given is not None:
                _arguments.once(name, f"Trainer({name}=) is an older shape; it does what it did")

    # -- running ------------------------------------------------------------------------------------------------------
    def fit(self) -> Result:
        """Runs the training to its end and returns its Result.

        Raises WorkerGroupError with the tracebacks of the ranks that failed, ControllerError if the run could not be
        started or kept, and TrainingStoppedError if a user stopped the run. All are TrainingFailedErrors.
        """
        _requirements.check()
        _check_one_caller()
        if not isinstance(self.train_loop_per_worker, _package.Pickled):
            _loop_call.wants_config(self.train_loop_per_worker)
        if self.scaling_config.max_workers == 0:
            from rtrain.train._local import _fit

            return _fit.fit(self)
        return Submission(self, current_head()).run()

    @classmethod
    def restore(cls, path: str | os.PathLike[str], storage_filesystem: Any = None, **overrides: Unpack[RestoreArguments]) -> Self:
        """Returns the trainer of the run in `path`. Its `fit()` resumes the run.

        storage_filesystem: as in RunConfig; `path` is then the run's path on it, as Result.path names it.

        overrides: train_loop_per_worker, train_loop_config, datasets, scaling_config and run_config replace the
        run's own. A run_config without a name or storage_path keeps that of `path`.
        """
        return restored(cls, cls._config_argument, os.fspath(path), storage_filesystem, overrides)

    @classmethod
    def can_restore(cls, path: str | os.PathLike[str], storage_filesystem: Any = None) -> bool:
        """Returns whether `path` is the directory of a run that `fit()` made, on storage_filesystem if one is given."""
        return has_driver(os.fspath(path), storage_filesystem)


def attach(name: str) -> RunHandle:
    """Returns a handle of a run by its name or id, from any process. Raises NotFound if there is no such run."""
    head = current_head()
    return RunHandle(head, head.get(f"/v1/runs/{part(name)}"))


class RunHandle:
    """A handle of a run that this process did not start, or does not wait for. `attach` returns one."""

    def __init__(self, head: Head, run: dict[str, Any]) -> None:
        self._head = head
        self._run = run

    @property
    def run_id(self) -> str:
        """The run's id, which is unique in the cluster."""
        return str(self._run["run_id"])

    @property
    def name(self) -> str:
        """The run's name."""
        return str(self._run["name"])

    @property
    def state(self) -> str:
        """The run's state at the head: QUEUED, RUNNING, SUCCEEDED ... Each access sends a request."""
        self._run = self._head.get(f"/v1/runs/{part(self.run_id)}")
        return str(self._run["state"])

    def result(self) -> Result:
        """Follows the run to its end, as `fit()` does. Returns its Result, or raises what `fit()` would raise."""
        context = TrainRunContext(self.run_id, self.name, str(self._run["run_path"]))
        return finished(self._head, self._run, [], context)

    def stop(self) -> None:
        """Requests the end of the run, and does not wait for it."""
        self._head.post(f"/v1/runs/{part(self.run_id)}/stop")

    def __repr__(self) -> str:
        return f"RunHandle(name={self.name!r}, run_id={self.run_id!r}, state={self._run['state']!r})"


public_in("rtrain.train", DataParallelTrainer, RunHandle, attach)


def _check_one_caller() -> None:
    """Raises RuntimeError in a worker group of several: each of its ranks would train by itself."""
    workers = os.environ.get("WORLD_SIZE", "1")
    if "RTRAIN_WORKER_SOCKET" in os.environ and workers != "1":
        raise RuntimeError(
            f"fit() was called in each of the {workers} workers of run {os.environ.get('RTRAIN_RUN_NAME', '')}, and each would train by "
            "itself. fit() starts workers of its own: run the program once, with `rtrain run train.py` without -n, or with "
            "`rtrain submit train.py`"
        )
