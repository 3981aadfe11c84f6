"""Handles arguments that rtrain does not carry out: each gets one notice, or is refused. No argument is dropped.

Functions that take arguments of the incumbent's by `**` name the tables that those may be in and call `check`; ones that have
them in their signature call `check_named`, configs `check_fields`. An argument in no table is a TypeError. A test goes over all public signatures: a parameter is
used by its function, or stands here.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_warned: set[str] = set()


def _callers_level() -> int:
    """Returns the stack level, for `warnings.warn` in `once`, of the first caller outside of rtrain. Python shows a
    DeprecationWarning only for code of the user's own script.
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "rtrain":
        level, frame = level + 1, frame.f_back
    return level


def once(key: str, message: str) -> None:
    """Prints the message the first time that this process calls it with the key."""
    if key not in _warned:
        _warned.add(key)
        warnings.warn(message, DeprecationWarning, stacklevel=_callers_level())
        print(f"rtrain: {message}", file=sys.stderr)


@dataclass(frozen=True)
class Rule:
    """How an unsupported argument is treated. `neutral` values ask for what rtrain does anyway. For any other value the user
    gets a notice or an error with the reason.
    """

    why: str
    neutral: tuple[Any, ...] = (None,)
    refused: bool = False


Table = Mapping[str, Rule]

_HERE = "operations run in the process that reads, or in processes beside it, with that worker's resources"
_FAILS = "a function that fails ends the reading with its error"
OPERATIONS: Table = {
    "compute": Rule(_HERE),
    "concurrency": Rule(_HERE),
    "num_cpus": Rule(_HERE),
    "num_gpus": Rule(_HERE),
    "memory": Rule(_HERE),
    "resources": Rule(_HERE),
    "accelerator_type": Rule(_HERE),
    "label_selector": Rule(_HERE),
    "scheduling_strategy": Rule(_HERE),
    "ray_remote_args_fn": Rule(_HERE),
    "max_concurrency": Rule(_HERE),
    "runtime_env": Rule(
        "operations run in the process that reads: give the run worker_runtime_env, or init runtime_env", refused=True
    ),
    "max_retries": Rule(_FAILS, (None, 0)),
    "max_restarts": Rule(_FAILS, (None, 0)),
    "max_task_retries": Rule(_FAILS, (None, 0)),
}
CARRIED_OUT = {"compute", "concurrency", "memory", "num_cpus"}  # supported by operations that call a function
FUNCTIONS: Table = {name: rule for name, rule in OPERATIONS.items() if name not in CARRIED_OUT}
_PIECES = "rows flow in pieces of a few MiB, which any number of ranks shares"
READERS: Table = {
    **OPERATIONS,
    "override_num_blocks": Rule(_PIECES),
    "parallelism": Rule(_PIECES, (None, -1)),
    "ray_remote_args": Rule(_HERE, (None, {})),
    "meta_provider": Rule("files are described by their footers and sizes"),
}
_ONE_PROCESS = "the process that calls it writes its files itself, one after the other"
WRITERS: Table = {
    "concurrency": Rule(_ONE_PROCESS),
    "ray_remote_args": Rule(_ONE_PROCESS, (None, {})),
    "try_create_dir": Rule("the folder is made where it is not there", (None, True)),
    "partition_cols": Rule("groupby(...).map_groups, or a write for each filter, makes folders of one's own", refused=True),
    "filename_provider": Rule("files are named by run, write, rank and block, so that a retry replaces its own", refused=True),
    "arrow_open_stream_args": Rule("filesystem= takes a file system with the settings wanted", refused=True),
    "arrow_parquet_args_fn": Rule("options of pyarrow's ParquetWriter are given as arguments", refused=True),
}
_NO_RETRY = "a call that fails, or whose process ends, raises in rtrain.get"
_GROUPS = "max_concurrency counts for all methods of an actor alike"
METHOD: Table = {"concurrency_group": Rule(_GROUPS, refused=True)}
REMOTE: Table = {
    "concurrency_groups": Rule(_GROUPS, (None, {}, []), refused=True),
    "scheduling_strategy": Rule("label_selector and resources say which nodes are fit", (None, "DEFAULT")),
}
_OWN_RUN = "a call with a name is a run of its own, which executes one call and is not repeated"
NAMED_CALL: Table = {
    "max_calls": Rule(_OWN_RUN, (None, 0, 1)),
    "max_retries": Rule(_OWN_RUN, (None, 0)),
    "retry_exceptions": Rule(_OWN_RUN, (None, False)),
}
_OF_FUNCTIONS = "it is an option of functions; an actor's worker executes all calls, and none is repeated"
ACTOR: Table = {
    "max_calls": Rule(_OF_FUNCTIONS),
    "max_retries": Rule(_OF_FUNCTIONS, (None, 0)),
    "retry_exceptions": Rule(_OF_FUNCTIONS, (None, False)),
}
_WORKERS_OWN = "there is no dashboard, no object store and no service whose logs it would change"
INIT: Table = {
    **{
        name: Rule(_WORKERS_OWN)
        for name in ("configure_logging", "dashboard_host", "dashboard_port", "job_config", "logging_config", "logging_format")
    },
    "include_dashboard": Rule(_WORKERS_OWN, (None, False)),
    "labels": Rule("nodes have the labels that their agents were started with"),
    "logging_level": Rule(_WORKERS_OWN),
    "namespace": Rule("names of actors are those of one program; options(namespace=) divides them"),
    "object_store_memory": Rule(_WORKERS_OWN),
}
_TABLE = "the table has the columns that fit, and the best trials first"
REPORTER: Table = {
    name: Rule(_TABLE)
    for name in ("total_samples", "max_column_length", "infer_limit", "print_intermediate_tables", "sort_by_metric")
}
_BEHIND = "agents upload checkpoints while the loop runs"
_BLOCKS = Rule(_PIECES)
_HINT = Rule("each reader opens the files of its own part")
NAMED: Mapping[str, Table] = {  # parameters that are in a signature only for scripts that pass them
    "get_next_unordered": {"ignore_if_timedout": Rule("no call has been chosen that could be dropped", (None, False))},
    "list_nodes": {"detail": Rule("all fields of a node are there in any case", (None, False, True))},
    "random_shuffle": {"num_blocks": _BLOCKS},
    "repartition": {"num_blocks": _BLOCKS, "target_num_rows_per_block": _BLOCKS},
    "split": {"locality_hints": _HINT},
    "streaming_split": {"locality_hints": _HINT},
    "from_items": {"parallelism": Rule(_PIECES, (None, -1)), "override_num_blocks": _BLOCKS},
    "read_json": {"lines": Rule("a file of lines and one that is a list are told apart by what they hold", (None, True, False))},
    "DataConfig": {
        "execution_options": Rule("each rank reads its rows itself"),
        "enable_shard_locality": Rule("each rank reads its own part from where it lies", (None, True)),
    },
    "ScalingConfig": {
        "elastic_resize_monitor_interval_s": Rule("the head looks whenever resources change", (None, 60.0, 60)),
        "trainer_resources": Rule("the driver needs none"),
    },
    "RunConfig": {
        "verbose": Rule("a driver shows what its run does, and `rtrain logs` has what workers print"),
        "sync_config": Rule(_BEHIND),
        "progress_reporter": Rule("a single run has no table of trials"),
    },
    "SyncConfig": {
        "sync_period": Rule(_BEHIND, (300, 300.0, None)),
        "sync_timeout": Rule(_BEHIND, (1800, 1800.0, None)),
        "sync_artifacts": Rule("files are kept when they are reported with a checkpoint", (False, None)),
        "sync_artifacts_on_checkpoint": Rule("files are kept when they are reported with a checkpoint", (True, None)),
        "syncer": Rule("RunConfig(storage_filesystem=) takes a file system of one's own", (None, "auto"), refused=True),
        "sync_on_checkpoint": Rule(_BEHIND, (None, True)),
    },
    "CheckpointConfig": {
        name: Rule("the training loop decides when it reports one", (None, neutral))
        for name, neutral in (("checkpoint_frequency", 0), ("checkpoint_at_end", False))
    },
    "FailureConfig": {
        "controller_failure_limit": Rule("attempts that could not be begun do not count, and five in a row end the run", (-1,)),
        "max_preemption_failures": Rule("an attempt that a preemption or a drain ended does not count, however often", (-1,)),
        "relax_collectives_on_preemption": Rule(
            "reports stay barriers over all ranks; should_checkpoint() says when one is wanted", (False,)
        ),
        "preemption_grace_s": Rule(
            "how long a run has is the cluster's to say: `preemption_grace` of its queues, or a drain's deadline", (0.0, 0)
        ),
    },
    "TuneConfig": {
        "chdir_to_trial_dir": Rule("a trial runs where its worker starts"),
    },
    "wait": {"fetch_local": Rule("a value is sent to its driver when it is there", (None, True))},
    "PopulationBasedTraining": {"log_config": Rule("no file has the changes of configs; reports have them", (None, True, False))},
    "JupyterNotebookReporter": {"overwrite": Rule("each table stands below the one before", (None, True))},
    "CLIReporter": {"max_error_rows": Rule("every trial that failed is shown", (None, 20))},
}


def check(caller: str, given: Mapping[str, Any], table: Table) -> None:
    """Raises TypeError for an argument that is in no table, and ValueError for a refused one. Prints one notice for each
    other argument.
    """
    unknown = sorted(set(given) - set(table))
    if unknown:
        raise TypeError(f"{caller}() has no argument {unknown[0]!r}")
    without_effect = {
        name: value for name, value in given.items() if not any(_is(value, neutral) for neutral in table[name].neutral)
    }
    refused = [f"{caller}({name}=) cannot be carried out: {table[name].why}" for name in without_effect if table[name].refused]
    if refused:
        raise ValueError("\n".join(refused))
    for name in without_effect:
        once(f"{caller}.{name}", f"{caller}({name}=) changes nothing: {table[name].why}")


def check_named(caller: str, **given: Any) -> None:
    """Checks parameters in a signature that are in NAMED."""
    check(caller, given, NAMED[caller])


def check_fields(caller: str, config: object) -> None:
    """Checks the fields of a config like `check`."""
    check(caller, {name: getattr(config, name) for name in NAMED[caller]}, NAMED[caller])


def _is(value: Any, neutral: Any) -> bool:
    """Returns true if the values are equal and of the same type: 0 is not False. An object with its own comparison (an
    array) is not neutral.
    """
    return value is neutral or (type(value) is type(neutral) and bool(value == neutral))
