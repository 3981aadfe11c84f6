"""The types of the `**` arguments of public functions, for type checkers. Only type checkers read this module.

The names are those of the tables in `_arguments` (a test compares them), of `Options` and of `restore()`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from rtrain.train._configs import RunConfig, ScalingConfig


class OperationArguments(TypedDict, total=False):
    """`_arguments.OPERATIONS`: arguments of operations of a Dataset. Operations that call a function support the first
    three and `memory`.
    """

    compute: Any
    concurrency: Any
    num_cpus: Any
    num_gpus: Any
    memory: Any
    resources: Any
    accelerator_type: Any
    label_selector: Any
    scheduling_strategy: Any
    ray_remote_args_fn: Any
    max_concurrency: Any
    runtime_env: Any
    max_retries: Any
    max_restarts: Any
    max_task_retries: Any


class ReaderArguments(OperationArguments, total=False):
    """`_arguments.READERS`: arguments that functions which make a Dataset accept and do not support."""

    override_num_blocks: Any
    parallelism: Any
    ray_remote_args: Any
    meta_provider: Any


class WriterArguments(TypedDict, total=False):
    """`_arguments.WRITERS`: arguments of functions that write a Dataset. The first two are supported, the others accepted
    only.
    """

    min_rows_per_file: int | None
    max_rows_per_file: int | None
    concurrency: Any
    ray_remote_args: Any
    try_create_dir: Any
    partition_cols: Any
    filename_provider: Any
    arrow_open_stream_args: Any
    arrow_parquet_args_fn: Any


class InitArguments(TypedDict, total=False):
    """`_arguments.INIT`: arguments that `rtrain.init` accepts and does not support."""

    configure_logging: Any
    dashboard_host: Any
    dashboard_port: Any
    job_config: Any
    logging_config: Any
    logging_format: Any
    include_dashboard: Any
    labels: Any
    logging_level: Any
    namespace: Any
    object_store_memory: Any


class ReporterArguments(TypedDict, total=False):
    """`_arguments.REPORTER`: arguments that `tune.CLIReporter` accepts and does not support."""

    total_samples: Any
    max_column_length: Any
    infer_limit: Any
    print_intermediate_tables: Any
    sort_by_metric: Any


class RemoteArguments(TypedDict, total=False):
    """Arguments of `@rtrain.remote(...)` and `.options(...)`: first the supported ones (`Options`), then
    `_arguments.REMOTE`.
    """

    num_cpus: float | None
    num_gpus: float | None
    memory: float | None
    resources: Mapping[str, float] | None
    accelerator_type: str | None
    label_selector: Mapping[str, str] | None
    runtime_env: Mapping[str, Any] | None
    num_returns: int | Literal["streaming"] | None
    name: str | None
    max_calls: int | None
    max_retries: int | None
    retry_exceptions: bool | Sequence[type[BaseException]] | None
    namespace: str | None
    get_if_exists: bool
    lifetime: str | None
    max_concurrency: int | None
    max_restarts: int
    max_task_retries: int
    max_pending_calls: int
    _generator_backpressure_num_objects: int | None
    concurrency_groups: Any
    scheduling_strategy: Any


class MethodArguments(TypedDict, total=False):
    """Arguments of `@rtrain.method(...)` and of a method's `.options(...)`."""

    num_returns: int | Literal["streaming"] | None
    max_task_retries: int | None
    retry_exceptions: bool | Sequence[type[BaseException]]
    _generator_backpressure_num_objects: int | None
    concurrency_group: Any


class RestoreArguments(TypedDict, total=False):
    """The arguments of a trainer's `restore()` that replace those of the original run."""

    train_loop_per_worker: Callable[[], Any] | Callable[[dict[str, Any]], Any]
    train_loop_config: Mapping[str, Any] | None
    datasets: Mapping[str, Any] | None
    scaling_config: ScalingConfig | None
    run_config: RunConfig | None
