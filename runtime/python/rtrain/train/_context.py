"""The facts about a worker: its ranks, its run, its storage."""

from __future__ import annotations

from typing import Any

from rtrain._lazy import public_in
from rtrain.train import _session, _worker
from rtrain.train._run_directory import _elsewhere, _filesystems
from rtrain.train._values._facts import Facts
from rtrain.train._worker import _behind


class StorageContext:
    """The place of a run's files. Paths are as `storage_filesystem` takes them, without `s3://`. str() is the path
    or URI of all runs.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    @property
    def storage_path(self) -> str:
        """The path or URI of the runs' directories."""
        return self._facts.storage_path

    @property
    def storage_filesystem(self) -> Any:
        """The file system of the run: pyarrow's, or the one that the run was given. Raises RuntimeError for a run
        that the head stores, and ImportError without pyarrow.
        """
        if (elsewhere := _elsewhere.of(self._facts.run_path)) is not None:
            return elsewhere.filesystem
        return _filesystems.filesystem_for(self._facts.run_path)

    @property
    def storage_fs_path(self) -> str:
        """The folder of the runs' directories."""
        return self.experiment_fs_path.rpartition("/")[0]

    @property
    def experiment_fs_path(self) -> str:
        """The run's directory."""
        if (elsewhere := _elsewhere.of(self._facts.run_path)) is not None:
            return f"{elsewhere.path}/{self._facts.experiment_name}"
        return _filesystems.path_on(self._facts.run_path.rstrip("/"))

    @property
    def experiment_dir_name(self) -> str:
        """The last part of the run's directory."""
        return self.experiment_fs_path.rpartition("/")[2]

    def build_checkpoint_path_from_name(self, checkpoint_name: str) -> str:
        """Returns the path of the checkpoint with this name."""
        return f"{self.experiment_fs_path}/{checkpoint_name}"

    def __str__(self) -> str:
        return self.storage_path

    def __fspath__(self) -> str:
        return self.storage_path

    def __repr__(self) -> str:
        return f"StorageContext({self._facts.run_path!r})"


class TrainContext:
    """The facts about this worker. They do not change while the process lives."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def get_world_size(self) -> int:
        """Returns the number of workers of the run in this attempt."""
        return self._facts.world_size

    def get_world_rank(self) -> int:
        """Returns this worker's number among all workers, from 0 on."""
        return self._facts.world_rank

    def get_local_rank(self) -> int:
        """Returns this worker's number on its node, from 0 on."""
        return self._facts.local_rank

    def get_local_world_size(self) -> int:
        """Returns the number of the run's workers on this node."""
        return self._facts.local_world_size

    def get_node_rank(self) -> int:
        """Returns this node's number among the run's nodes, from 0 on."""
        return self._facts.node_rank

    def get_node(self) -> str:
        """Returns the name of this worker's node."""
        return self._facts.node

    def get_experiment_name(self) -> str:
        """Returns the run's name."""
        return self._facts.experiment_name

    def get_run_id(self) -> str:
        """Returns the run's id, which is unique in the cluster."""
        return self._facts.run_id

    def get_attempt(self) -> int:
        """Returns the number of this attempt. It is 1 at the first start, and grows by one with each failure, resize
        or restore.
        """
        return self._facts.attempt

    def get_run_path(self) -> str:
        """Returns the path or URI of the run's directory."""
        return self._facts.run_path

    def get_storage(self) -> StorageContext:
        """Returns the place of the run's files and checkpoints."""
        return StorageContext(self._facts)

    def get_metadata(self) -> dict[str, Any]:
        """Returns the `metadata` of the trainer."""
        return dict(self._facts.metadata)

    def get_trial_name(self) -> str:
        """Returns the run's name, as `get_experiment_name()` does."""
        return self.get_experiment_name()

    def get_trial_id(self) -> str:
        """Returns the run's id, as `get_run_id()` does."""
        return self.get_run_id()

    def get_trial_dir(self) -> str:
        """Returns the run's directory, as `get_run_path()` does."""
        return self.get_run_path()

    def get_trial_resources(self) -> dict[str, float]:
        """Returns the resources of all workers of this attempt: {"CPU": 4}. Empty in local mode, which reserves
        nothing.
        """
        return _session.current("get_trial_resources").resources()

    def __repr__(self) -> str:
        return f"TrainContext({self._facts!r})"


def release() -> None:
    """Ends this process's role as the rank. Another process of the worker may report from now on.

    When it returns, the agent has received every report made so far. Raises RuntimeError outside of a training
    function.
    """
    _session.current("release")
    _behind.join()
    _worker.close()


def get_context() -> TrainContext:
    """Returns the facts about this worker. Raises RuntimeError outside of a training function."""
    return TrainContext(_session.current("get_context").facts)


public_in("rtrain.train", TrainContext, get_context, release)
