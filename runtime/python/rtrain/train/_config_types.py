"""The types that the fields of configs may have. The constructor of a config raises TypeError for another type."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

PLACEMENTS = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
Types = tuple[type, ...]

_FLAG: tuple[Types, str] = ((bool,), "True or False")
_WHOLE: tuple[Types, str] = ((int,), "a whole number")
_SECONDS: tuple[Types, str] = ((int, float), "a number of seconds")
_TEXT: tuple[Types, str] = ((str,), "a text")
_PATH: tuple[Types, str] = ((str, os.PathLike), "a path or a URI")
_NAMES: tuple[Types, str] = ((Mapping,), "a dict of names and texts")
_FUNCTION: tuple[Types, str] = ((Callable,), "a function of the trial")  # type: ignore[assignment]
# Every field accepts None, which stands for the default.
FIELDS: Mapping[str, Mapping[str, tuple[Types, str]]] = {
    "ScalingConfig": {
        "use_gpu": _FLAG,
        "wait_for_nodes": _FLAG,
        "resources_per_worker": ((Mapping,), "a dict of names and amounts"),
        "placement_strategy": ((str,), f"one of {', '.join(PLACEMENTS)}"),
        "accelerator_type": ((str,), "a text such as 'A100'"),
        "label_selector": ((Mapping, list, tuple), "a dict of labels and values, or a list with one for each worker"),
        "use_tpu": _FLAG,
        "topology": _TEXT,
        "elastic_resize_monitor_interval_s": _SECONDS,
        "trainer_resources": ((Mapping,), "a dict of names and amounts"),
    },
    "CheckpointConfig": {
        "checkpoint_score_attribute": ((str,), "the name of a metric"),
        "checkpoint_frequency": _WHOLE,
        "checkpoint_at_end": _FLAG,
    },
    "FailureConfig": {
        "fail_fast": ((bool, str), "True, False, or 'raise' in a sweep"),
        "controller_failure_limit": _WHOLE,
        "max_preemption_failures": _WHOLE,
        "relax_collectives_on_preemption": _FLAG,
        "preemption_grace_s": _SECONDS,
    },
    "DataConfig": {"enable_shard_locality": _FLAG, "equal": _FLAG},
    "ValidationTaskConfig": {"fn_kwargs": ((Mapping,), "a dict of arguments"), "timeout_s": _SECONDS},
    "ValidationConfig": {"ray_remote_kwargs": ((Mapping,), "a dict of options of rtrain.remote")},
    "SyncConfig": {
        "sync_period": _SECONDS,
        "sync_timeout": _SECONDS,
        "sync_artifacts": _FLAG,
        "sync_artifacts_on_checkpoint": _FLAG,
        "upload_dir": _TEXT,
        "syncer": _TEXT,
        "sync_on_checkpoint": _FLAG,
    },
    "RunConfig": {
        "name": _TEXT,
        "storage_path": _PATH,
        "records_path": _PATH,
        "callbacks": ((list, tuple), "a list of UserCallbacks"),
        "env": _NAMES,
        "queue": ((str,), "the name of a queue"),
        "priority": _WHOLE,
        "verbose": ((int, bool), "0 (nothing), 1 or 2"),
        "labels": _NAMES,
        "tracking": ((Mapping,), "a dict of trackers and whether they are wanted"),
        "local_dir": ((str, os.PathLike), "a path"),
    },
    "TuneConfig": {
        "reuse_actors": _FLAG,
        "trial_name_creator": _FUNCTION,
        "trial_dirname_creator": _FUNCTION,
        "chdir_to_trial_dir": _FLAG,
    },
}


def is_whole(value: object) -> bool:
    """Returns whether the value is an integer. True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def check(config: str, given: object) -> None:
    """Checks the fields of a config that FIELDS lists. TypeError names the field, the value and the accepted types."""
    check_values(config, **{name: getattr(given, name) for name in FIELDS[config]})


def check_values(config: str, **given: Any) -> None:
    """Checks arguments of a config that is not a dataclass, as `check` does. Names that FIELDS lacks are not
    checked.
    """
    for name, value in given.items():
        kinds, what = FIELDS[config].get(name, ((object,), ""))
        is_flag_for_number = isinstance(value, bool) and int in kinds and bool not in kinds
        if value is not None and (is_flag_for_number or not isinstance(value, kinds)):
            raise TypeError(f"{config}({name}=) is {value!r}; it is {what}")
