"""The functions of Ray's old `air.session`: each does what `rtrain.train` or its context does."""

from typing import Any

from rtrain.train import get_checkpoint, get_context, get_dataset_shard, report

__all__ = [
    "get_checkpoint",
    "get_dataset_shard",
    "get_experiment_name",
    "get_local_rank",
    "get_local_world_size",
    "get_node_rank",
    "get_trial_dir",
    "get_trial_id",
    "get_trial_name",
    "get_trial_resources",
    "get_world_rank",
    "get_world_size",
    "report",
]


def get_experiment_name() -> str:
    """Returns the run's name."""
    return get_context().get_experiment_name()


def get_trial_name() -> str:
    """Returns the run's name, or the trial's."""
    return get_context().get_trial_name()


def get_trial_id() -> str:
    """Returns the run's id, or the trial's."""
    return get_context().get_trial_id()


def get_trial_dir() -> str:
    """Returns the run's directory."""
    return get_context().get_trial_dir()


def get_trial_resources() -> dict[str, Any]:
    """Returns what the attempt's workers hold."""
    return get_context().get_trial_resources()


def get_world_size() -> int:
    """Returns the number of ranks."""
    return get_context().get_world_size()


def get_world_rank() -> int:
    """Returns this rank."""
    return get_context().get_world_rank()


def get_local_rank() -> int:
    """Returns this rank among those of its node."""
    return get_context().get_local_rank()


def get_local_world_size() -> int:
    """Returns the number of ranks of this node."""
    return get_context().get_local_world_size()


def get_node_rank() -> int:
    """Returns the number of this node in the run."""
    return get_context().get_node_rank()
