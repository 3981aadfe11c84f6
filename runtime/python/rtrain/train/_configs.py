"""The configs of a trainer: number and resources of workers, name and storage of the run, checkpoints to keep, failures to
allow. Older forms of fields are accepted and still work. Each of them is mentioned once.
"""

import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rtrain import _arguments, _runtime_env
from rtrain._lazy import public_in
from rtrain.train import _config_types
from rtrain.train._ingest import ExecutionOptions
from rtrain.train._run_context import RTrainCallback
from rtrain.train._run_directory import _elsewhere, _filesystems, _views
from rtrain.train._values import _names
from rtrain.train._values._facts import Facts
from rtrain.train._values._shares import split
from rtrain.tune.callback import Callback

_TRACKERS = ("mlflow", "tensorboard", "wandb")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # pattern of the name of an environment variable
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


@dataclass
class ScalingConfig:
    """The number of workers of a run, and the resources of each.

    num_workers: a number; `(min, max)` grows and shrinks at checkpoints; 0 runs the loop in this process.
    use_gpu: a GPU for each worker.
    resources_per_worker: amounts such as {"CPU": 2, "GPU": 1, "memory": 4e9}, memory in bytes. Default: one GPU with use_gpu,
    otherwise one CPU.
    placement_strategy: PACK, SPREAD, STRICT_PACK or STRICT_SPREAD.
    accelerator_type: such as "A100".
    label_selector: labels that the nodes must have; a list has one for each worker's node. With `(min, max)` the list has max
    entries, and a run of n workers takes the first n.
    wait_for_nodes: if the present nodes could never hold the workers, True waits for new nodes and prints that. With False,
    `fit()` raises a ControllerError.

    Raises ValueError for contradictions.
    """

    num_workers: int | tuple[int, int] = 1
    use_gpu: bool = False
    resources_per_worker: Mapping[str, float] | None = None
    placement_strategy: str = "PACK"
    accelerator_type: str | None = None
    label_selector: Mapping[str, str] | Sequence[Mapping[str, str]] | None = None
    use_tpu: bool = False
    topology: str | None = None
    elastic_resize_monitor_interval_s: float = 60.0
    trainer_resources: Mapping[str, float] | None = None
    wait_for_nodes: bool = True

    def __post_init__(self) -> None:
        _config_types.check("ScalingConfig", self)
        self._check_workers()
        self._check_resources()
        self._check_selectors()
        if self.use_tpu:
            raise ValueError("use_tpu: this cluster knows no TPUs; run such a program by `rtrain submit job.yaml`")
        self.placement_strategy = str(self.placement_strategy).upper()
        if self.placement_strategy not in _config_types.PLACEMENTS:
            raise ValueError(
                f"placement_strategy is {self.placement_strategy!r}; it is one of {', '.join(_config_types.PLACEMENTS)}"
            )
        _arguments.check_fields("ScalingConfig", self)

    def _check_selectors(self) -> None:
        given = self.label_selector
        several = [given] if isinstance(given, Mapping) else list(given or [])
        for selector in several:
            if not isinstance(selector, Mapping) or not all(
                isinstance(key, str) and isinstance(value, str) for key, value in selector.items()
            ):
                raise TypeError(f"label_selector holds {selector!r}; a selector is a dict of labels and values, all texts")
        if given is not None and not isinstance(given, Mapping) and len(several) != self.max_workers:
            of = "worker of the largest size" if self.elasticity_enabled else "worker"
            raise ValueError(f"label_selector is a list of {len(several)}; a list has one entry per {of} ({self.max_workers})")

    def _check_workers(self) -> None:
        given = self.num_workers
        pair = isinstance(given, tuple | list)
        numbers = list(given) if isinstance(given, tuple | list) else [given]
        if len(numbers) != (2 if pair else 1) or any(isinstance(n, bool) or not isinstance(n, int) for n in numbers):
            raise ValueError(f"num_workers is {given!r}; it is a whole number, or (min, max)")
        if pair and not 1 <= numbers[0] <= numbers[1]:
            raise ValueError(f"num_workers is {given!r}; (min, max) needs 1 <= min <= max")
        if numbers[0] < 0:
            raise ValueError(f"num_workers is {given!r}; it cannot be negative")
        if pair:
            self.num_workers = (numbers[0], numbers[1])

    def _check_resources(self) -> None:
        for name, amount in (self.resources_per_worker or {}).items():
            if not isinstance(name, str) or isinstance(amount, bool) or not isinstance(amount, int | float) or amount < 0:
                raise ValueError(f"resources_per_worker[{name!r}] is {amount!r}; amounts are numbers from 0 on")
        gpus = (self.resources_per_worker or {}).get("GPU")
        if self.use_gpu and gpus == 0:
            raise ValueError('use_gpu=True contradicts resources_per_worker={"GPU": 0}; leave one of them out')
        if not self.use_gpu and gpus:
            raise ValueError(f'resources_per_worker={{"GPU": {gpus}}} needs use_gpu=True')

    @property
    def min_workers(self) -> int:
        """The smallest number of workers that the run may have."""
        return self.num_workers[0] if isinstance(self.num_workers, tuple) else self.num_workers

    @property
    def max_workers(self) -> int:
        """The largest number of workers that the run may have."""
        return self.num_workers[1] if isinstance(self.num_workers, tuple) else self.num_workers

    @property
    def elasticity_enabled(self) -> bool:
        """Whether the number of workers may change."""
        return isinstance(self.num_workers, tuple)

    @property
    def _resources_per_worker_not_none(self) -> dict[str, float]:
        if self.resources_per_worker is None:
            return {"GPU": 1} if self.use_gpu else {"CPU": 1}
        given = {name: amount for name, amount in self.resources_per_worker.items() if amount}
        if self.use_gpu:
            given.setdefault("GPU", 1)
        return given

    @property
    def num_cpus_per_worker(self) -> float:
        """CPUs of each worker."""
        return self._resources_per_worker_not_none.get("CPU", 0)

    @property
    def num_gpus_per_worker(self) -> float:
        """GPUs of each worker."""
        return self._resources_per_worker_not_none.get("GPU", 0)

    @property
    def additional_resources_per_worker(self) -> dict[str, float]:
        """The other resources of each worker: {"memory": 4e9}, memory in bytes."""
        return {name: n for name, n in self._resources_per_worker_not_none.items() if name not in ("CPU", "GPU")}

    @property
    def total_resources(self) -> dict[str, float]:
        """The resources of all workers together. For an elastic run: of its largest number of workers."""
        return {name: amount * self.max_workers for name, amount in self._resources_per_worker_not_none.items()}

    def job(self) -> dict[str, Any]:
        """Returns the section `scaling` of the run's job spec."""
        workers = f"{self.min_workers}..{self.max_workers}" if self.elasticity_enabled else self.min_workers
        resources = {"CPU": 0, **self._resources_per_worker_not_none}
        section: dict[str, Any] = {
            "workers": workers,
            "use_gpu": self.use_gpu,
            "resources_per_worker": resources,
            "placement": self.placement_strategy,
        }
        if self.accelerator_type:
            section["accelerator_type"] = self.accelerator_type
        if not self.wait_for_nodes:
            section["wait_for_nodes"] = False
        if self.topology:
            section["topology"] = self.topology
        if self.label_selector:
            several = [self.label_selector] if isinstance(self.label_selector, Mapping) else list(self.label_selector)
            if all(selector == several[0] for selector in several):
                section["label_selector"] = dict(several[0])
            else:
                section["worker_selectors"] = [dict(selector) for selector in several]
        return section


@dataclass
class CheckpointConfig:
    """The number and choice of the checkpoints that a run keeps.

    num_to_keep: how many of the best are kept, beside the latest; None: all.
    checkpoint_score_attribute: the metric that decides which are best (`a/b` is a nested one). Without it the newest ones are.
    checkpoint_score_order: "max" or "min". A missing or NaN score is the worst.
    checkpoint_frequency, checkpoint_at_end: of trainers of trees without a loop, in rounds. A training loop decides by itself.
    keep_latest: "always" keeps the latest, from which a later run of the same name resumes. "until_success" removes the latest
    after the run has succeeded, unless it is among the best.
    """

    num_to_keep: int | None = None
    checkpoint_score_attribute: str | None = None
    checkpoint_score_order: str = "max"
    checkpoint_frequency: int | None = None
    checkpoint_at_end: bool | None = None
    keep_latest: str = "always"

    def __post_init__(self) -> None:
        _config_types.check("CheckpointConfig", self)
        if self.num_to_keep is not None and (not _config_types.is_whole(self.num_to_keep) or self.num_to_keep < 1):
            raise ValueError(f"num_to_keep is {self.num_to_keep!r}; it is None (all) or a whole number from 1")
        if self.checkpoint_score_order not in ("max", "min"):
            raise ValueError(f"checkpoint_score_order is {self.checkpoint_score_order!r}; it is 'max' or 'min'")
        if self.keep_latest not in ("always", "until_success"):
            raise ValueError(f"keep_latest is {self.keep_latest!r}; it is 'always' or 'until_success'")
        if self.checkpoint_frequency is not None and self.checkpoint_frequency < 0:
            raise ValueError(f"checkpoint_frequency is {self.checkpoint_frequency!r}; it is a whole number from 0 (never)")

    def job(self) -> dict[str, Any]:
        """Returns the section `checkpoint` of the run's job spec."""
        section: dict[str, Any] = {"score_order": self.checkpoint_score_order}
        if self.keep_latest != "always":
            section["keep_latest"] = self.keep_latest
        if self.num_to_keep is not None:
            section["num_to_keep"] = self.num_to_keep
        if self.checkpoint_score_attribute:
            section["score_attribute"] = self.checkpoint_score_attribute
        return section


@dataclass
class FailureConfig:
    """How often a run may fail and restart from its last checkpoint.

    max_failures: -1 is no limit. An attempt that ends by a drain or a preemption is no failure. An attempt that could not
    start is none either, but five of these in a row end the run. A lost node is a failure, except for an elastic run.

    The other limits are accepted and have no effect.
    """

    max_failures: int = 0
    fail_fast: bool | str = False
    controller_failure_limit: int = -1
    max_preemption_failures: int = -1
    relax_collectives_on_preemption: bool = False
    preemption_grace_s: float = 0.0

    def __post_init__(self) -> None:
        _config_types.check("FailureConfig", self)
        if not _config_types.is_whole(self.max_failures) or self.max_failures < -1:
            raise ValueError(f"max_failures is {self.max_failures!r}; it is -1 (without end) or a whole number from 0")
        if self.fail_fast:
            _arguments.once(
                "fail_fast", "FailureConfig(fail_fast=) is kept for older scripts: it ends the run at the first failure"
            )
            if self.max_failures:
                raise ValueError("fail_fast and max_failures contradict each other; give one")
        _arguments.check_fields("FailureConfig", self)


@dataclass
class LoggingConfig:
    """The level of Python's root logger in the workers."""

    log_level: int | str = "INFO"

    def __post_init__(self) -> None:
        if isinstance(self.log_level, str) and self.log_level.upper() not in _LEVELS:
            raise ValueError(f"log_level is {self.log_level!r}; it is one of {', '.join(_LEVELS)}")
        if not isinstance(self.log_level, int | str) or isinstance(self.log_level, bool):
            raise ValueError(f"log_level is {self.log_level!r}; it is a name such as 'INFO' or a number of logging")

    @property
    def level(self) -> int:
        """The level as `logging`'s number."""
        return self.log_level if isinstance(self.log_level, int) else int(getattr(logging, self.log_level.upper()))


class DataConfig:
    """The split of a trainer's datasets among the ranks. Each rank gets the other datasets whole.

    datasets_to_split: "all", or a list of names.
    equal: all ranks get the same number of rows (or items of a torch Dataset or sequence). At most one row a rank is left out
    of the epoch. False gives these rows to the first ranks, whose loops then see unequal numbers of batches.
    streams: how many streams an epoch of `rtrain.data` is cut into; None: the largest number of ranks that the run may have.
    Global batches depend on it, and not on the number of ranks.
    execution_options, enable_shard_locality: have no effect.

    `configure` may be overridden to split otherwise.
    """

    streams: int | None = None  # default for a config that an earlier version has pickled without this field

    def __init__(
        self,
        datasets_to_split: Literal["all"] | list[str] = "all",
        execution_options: object = None,
        enable_shard_locality: bool = True,  # noqa: FBT001, FBT002
        equal: bool = True,  # noqa: FBT001, FBT002
        *,
        streams: int | None = None,
    ) -> None:
        if streams is not None and (isinstance(streams, bool) or not isinstance(streams, int) or streams < 1):
            raise ValueError(f"DataConfig: streams is {streams!r}; it is a whole number from 1 on, or None")
        if datasets_to_split != "all" and not (
            isinstance(datasets_to_split, list | tuple) and all(isinstance(name, str) for name in datasets_to_split)
        ):
            raise TypeError(f"datasets_to_split is {datasets_to_split!r}; it is 'all' or a list of names")
        _config_types.check_values(
            "DataConfig", execution_options=execution_options, enable_shard_locality=enable_shard_locality, equal=equal
        )
        self.datasets_to_split = datasets_to_split
        self.execution_options = execution_options
        _arguments.check_named("DataConfig", execution_options=execution_options, enable_shard_locality=enable_shard_locality)
        self.enable_shard_locality = enable_shard_locality
        self.equal = equal
        self.streams = streams

    def configure(
        self, datasets: dict[str, Any], world_size: int, worker_handles: object = None, worker_node_ids: object = None
    ) -> list[dict[str, Any]]:
        """Returns a list with one dict of shards for each rank. Each rank calls it. Override it to split in another way."""
        ranks = [Facts(world_size=world_size, world_rank=rank) for rank in range(world_size)]
        return [
            {key: split(dataset, rank, equal=self.equal) if self.splits(key) else dataset for key, dataset in datasets.items()}
            for rank in ranks
        ]

    @staticmethod
    def default_ingest_options() -> ExecutionOptions:
        """Returns options of Ray's engine. They can be set and read, and have no effect."""
        return ExecutionOptions()

    def splits(self, name: str) -> bool:
        """Returns whether the dataset called `name` is split among the ranks."""
        return self.datasets_to_split == "all" or name in self.datasets_to_split


@dataclass
class ValidationTaskConfig:
    """How one checkpoint is validated.

    fn_kwargs: arguments of the function; they override those of the trainer. timeout_s: seconds after which the validation is
    ended.
    """

    fn_kwargs: dict[str, Any] | None = None
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        _config_types.check("ValidationTaskConfig", self)
        if self.timeout_s is not None and self.timeout_s <= 0:
            raise ValueError(f"timeout_s is {self.timeout_s!r}; it is a number of seconds above 0")


ValidationFn = Callable[..., Mapping[str, Any]]  # the function's arguments are a checkpoint, and then `fn_kwargs`


@dataclass
class ValidationConfig:
    """The validation of checkpoints that are reported with `validation`.

    fn: `fn(checkpoint, **fn_kwargs)` returns metrics that are joined to the checkpoint's own.
    task_config: arguments and time limit of all validations.
    ray_remote_kwargs: None runs `fn` in a process beside the driver. {"num_gpus": 1}, or other options of `rtrain.remote`, run
    it on a node, in a run of its own. In local mode `fn` runs in the training process either way.

    The driver starts validations, one at a time. They wait while no driver follows the run.
    """

    fn: ValidationFn
    task_config: ValidationTaskConfig | None = None
    ray_remote_kwargs: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise TypeError(f"ValidationConfig(fn={self.fn!r}): fn is a function of a checkpoint that gives a dict of metrics")
        _config_types.check("ValidationConfig", self)
        if self.task_config is not None and not isinstance(self.task_config, ValidationTaskConfig):
            raise TypeError(f"ValidationConfig(task_config=) is {self.task_config!r}; it is a rtrain.train.ValidationTaskConfig")
        if self.ray_remote_kwargs:
            from rtrain._remote._options import Options

            Options().changed(**self.ray_remote_kwargs)


@dataclass
class SyncConfig:
    """The settings of older scripts for copying files to the storage.

    upload_dir: an older name of RunConfig(storage_path=). The others have no effect, since the agents upload checkpoints while
    the loop runs. A message names each setting that differs from its default, once.
    """

    sync_period: float = 300
    sync_timeout: float = 1800
    sync_artifacts: bool = False
    sync_artifacts_on_checkpoint: bool = True
    upload_dir: str | None = None
    syncer: Any = None
    sync_on_checkpoint: bool | None = None

    def __post_init__(self) -> None:
        _config_types.check("SyncConfig", self)
        _arguments.check_fields("SyncConfig", self)


@dataclass
class RunConfig:
    """The settings of a run: name, storage, failures, checkpoints and others.

    name: a run with the same name and storage_path resumes from the last checkpoint. Default: the first `fit()` makes up a
    name, and every `fit()` of this object uses it.
    storage_path: a path on every node, or a bucket: s3://, gs://, az:// or abfss://. Default: the head stores the files.
    storage_filesystem: a pyarrow or fsspec file system that storage_path lies on: a local one, or a bucket. The run gets
    the endpoint, region and keys of the bucket, the keys as secrets. Any other file system that can be pickled stores the files of
    checkpoints alone.
    records_path: a path or URI for all other files of such a run. Default: on the head (local mode: ~/rtrain_results).
    worker_runtime_env: {"env_vars": {...}, "working_dir": path}.
    secrets: names of variables, as "HF_TOKEN", that workers get with the values of this process. They are never shown again.
    log_to_file: True, a name, or (stdout, stderr).
    tracking: {"tensorboard": True, "mlflow": True, "wandb": True} sends every report to these trackers too, to one tracked run
    for all attempts.
    stop: {"metric": value} ends the run when it is reached, or a function `(run name, metrics) -> bool`.
    """

    name: str | None = None
    storage_path: str | os.PathLike[str] | None = None
    storage_filesystem: Any = None
    failure_config: FailureConfig | None = None
    checkpoint_config: CheckpointConfig | None = None
    callbacks: list[Any] | None = None
    worker_runtime_env: Mapping[str, Any] | None = None
    logging_config: LoggingConfig | None = None
    env: Mapping[str, str] | None = None
    queue: str | None = None
    priority: int | None = None
    verbose: int | None = None
    stop: Mapping[str, float] | Callable[[str, dict[str, Any]], bool] | None = None
    sync_config: Any = None
    log_to_file: bool | str | tuple[str, str] = False
    progress_reporter: Any = None
    local_dir: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    tracking: Mapping[str, bool] = field(default_factory=dict)
    secrets: Sequence[str] = ()
    records_path: str | os.PathLike[str] | None = None
    _view: _views.View | None = field(
        default=None, init=False, repr=False, compare=False
    )  # how users see storage_path: as a path on storage_filesystem

    class _MadeName(str):
        """A run's name that the user did not give. The type marks it as such, and copies of the config keep the type."""

        __slots__ = ()

    _names_itself = True  # class attributes, not fields; False for a sweep: its name is made later, from its trainable
    _fits = 0

    def __post_init__(self) -> None:
        self._check_types()
        self.callbacks = list(self.callbacks or [])
        if self._names_itself and self.name is None:
            self.take_name(_names.run_name(None))
        self.failure_config = self.failure_config or FailureConfig()
        self.checkpoint_config = self.checkpoint_config or CheckpointConfig()
        self.logging_config = self.logging_config or LoggingConfig()
        # A config that an earlier version has pickled lacks this attribute.
        upload_dir = getattr(self.sync_config, "upload_dir", None)
        for where, given in (("SyncConfig(upload_dir=)", upload_dir), ("RunConfig(local_dir=)", self.local_dir)):
            if given is not None:
                _arguments.once(where, f"{where} is an older name of RunConfig(storage_path=)")
                self.storage_path = self.storage_path or given
        _arguments.check_fields("RunConfig", self)
        if self.stop is not None and not callable(self.stop):
            self._check_stop(self.stop)
        if unknown := sorted(set(self.tracking) - set(_TRACKERS)):
            raise ValueError(f"tracking names {', '.join(unknown)}; there are {', '.join(_TRACKERS)}")
        if self.log_to_file is True:
            self.log_to_file = ("stdout.log", "stderr.log")
        elif isinstance(self.log_to_file, str):
            self.log_to_file = (self.log_to_file, self.log_to_file)
        if self.log_to_file:
            self.log_to_file = _log_names(self.log_to_file)
        _runtime_env.checked(self.worker_runtime_env, "worker_runtime_env")
        if self.elsewhere is not None:
            self._check_elsewhere()
            return
        if self.records_path is not None:
            raise ValueError(
                "records_path is for a storage_filesystem that rtrain cannot write itself; else storage_path has everything"
            )
        if self.storage_path is not None:  # converted once only: a config made from this one has the final path
            given, path = self.storage_filesystem, _names.local_path(os.fspath(self.storage_path))
            self.storage_filesystem, self.storage_path = _filesystems.without_wrappers(given, path)
            if given is not None:
                self._view = _views.View.of(path, given, str(_storage(self.storage_path, self.storage_filesystem)))
        self.storage_path = _storage(self.storage_path, self.storage_filesystem)

    @property
    def place(self) -> _filesystems.Place:
        """The run's path on storage_filesystem."""
        return _filesystems.place_of(self.runs_path or "", None if self.elsewhere is not None else self.storage_filesystem)

    @property
    def elsewhere(self) -> _elsewhere.Elsewhere | None:
        """The place of the checkpoints' files if they lie on a file system that rtrain itself cannot write; else None."""
        if _filesystems.is_carried(self.storage_filesystem):
            return None
        return _elsewhere.Elsewhere(self.storage_filesystem, str(self.storage_path))

    @property
    def runs_path(self) -> str | None:
        """The path or URI of all runs; None: on the head."""
        path = self.storage_path if self.elsewhere is None else self.records_path
        return None if path is None else str(path)

    def _check_elsewhere(self) -> None:
        if self.storage_path is None:
            raise ValueError("storage_filesystem needs a storage_path on it")
        self.storage_path = os.fspath(self.storage_path).rstrip("/")
        if "://" in self.storage_path:
            raise ValueError(
                f"storage_path is {self.storage_path}; with storage_filesystem it is the path on that, without a scheme"
            )
        if ".." in self.storage_path.split("/") or not self.storage_path.strip("/"):
            raise ValueError(f"storage_path is {self.storage_path!r}; it is a folder on storage_filesystem, without '..'")
        _filesystems.check_travels(self.storage_filesystem)
        self.records_path = _storage(self.records_path, None)

    def take_name(self, name: str) -> None:
        """Sets a name that the user did not give."""
        self.name = self._MadeName(name)

    @property
    def is_named(self) -> bool:
        """Whether the name was given, not made up."""
        return self.name is not None and not isinstance(self.name, self._MadeName)

    def _check_types(self) -> None:
        _check_secrets(self.secrets)
        _config_types.check("RunConfig", self)
        for callback in self.callbacks or ():
            if not isinstance(callback, RTrainCallback | Callback):
                raise ValueError(
                    f"RunConfig(callbacks=): {callback!r} is not a rtrain.tune.Callback and not a rtrain.train.UserCallback; derive its "
                    "class from the first for a Tuner, from the second for a trainer"
                )
        for name, known in (
            ("failure_config", FailureConfig),
            ("checkpoint_config", CheckpointConfig),
            ("logging_config", LoggingConfig),
            ("sync_config", SyncConfig),
        ):
            if getattr(self, name) is not None and not isinstance(getattr(self, name), known):
                raise ValueError(f"RunConfig({name}=) is {getattr(self, name)!r}; it is a rtrain.train.{known.__name__}")

    @staticmethod
    def _check_stop(stop: object) -> None:
        if not isinstance(stop, Mapping):
            raise TypeError(f"stop is {stop!r}; it is a dict of metrics and values, or a function (name, metrics) -> bool")
        for key, value in stop.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise TypeError(f"stop[{key!r}] is {value!r}; it is the number at which the run ends")


def _check_secrets(given: object) -> None:
    """Checks the names of secrets. No error shows a value, since a value given by mistake may be a secret."""
    if not isinstance(given, list | tuple | set | frozenset):
        raise TypeError(
            f"RunConfig(secrets=) is of type {type(given).__name__}; it is a list of names of environment variables, whose values this "
            "process has"
        )
    for place, name in enumerate(given):
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            raise ValueError(f"RunConfig(secrets=): the entry at {place} is no name of an environment variable, such as HF_TOKEN")


def _log_names(given: object) -> tuple[str, str]:
    names = tuple(given) if isinstance(given, tuple | list) else ()
    if len(names) != 2 or not all(isinstance(name, str) and name.strip(".") and "/" not in name for name in names):
        raise ValueError(
            f"log_to_file is {given!r}; it is True, a file's name, or (stdout's name, stderr's name), without folders"
        )
    return names[0], names[1]


def _storage(path: str | os.PathLike[str] | None, filesystem: Any) -> str | None:
    if path is None:
        if filesystem is not None:
            raise ValueError("storage_filesystem needs a storage_path on it")
        return None
    text = _filesystems.place_of(path, filesystem).path
    if "://" in text:
        return text
    return os.path.abspath(os.path.expanduser(text))  # noqa: PTH100, PTH111


_MadeName = RunConfig._MadeName  # pickles of earlier versions contain this name
public_in(
    "rtrain.train",
    CheckpointConfig,
    DataConfig,
    FailureConfig,
    LoggingConfig,
    RunConfig,
    RunConfig._MadeName,
    ScalingConfig,
    SyncConfig,
    ValidationConfig,
    ValidationTaskConfig,
)
