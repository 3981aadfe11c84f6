"""Who this worker is."""

from __future__ import annotations

from typing import Any

from rtrain._lazy import public_in
from rtrain.train import _session, _worker
from rtrain.train._run_directory import _elsewhere, _filesystems
from rtrain.train._values._facts import Facts
from rtrain.train._worker import _behind


class StorageContext:
    """Where a run lies. Paths are as `storage_filesystem` takes them, so without `s3://`; str() of it is the path or URI of all runs."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    @property
    def storage_path(self) -> str:
        """Where the runs' directories lie: a path or a URI."""
        return self._facts.storage_path

    @property
    def storage_filesystem(self) -> Any:
        """pyarrow's, or the one that the run was given. RuntimeError for a run that the head keeps, ImportError without pyarrow."""
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
        """Where a checkpoint's directory of that name lies."""
        return f"{self.experiment_fs_path}/{checkpoint_name}"

    def __str__(self) -> str:
        return self.storage_path

    def __fspath__(self) -> str:
        return self.storage_path

    def __repr__(self) -> str:
        return f"StorageContext({self._facts.run_path!r})"


class TrainContext:
    """The facts about this worker; they do not change while the process lives."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def get_world_size(self) -> int:
        """How many workers the run has in this attempt."""
        return self._facts.world_size

    def get_world_rank(self) -> int:
        """This worker's number among all of them, from 0 on."""
        return self._facts.world_rank

    def get_local_rank(self) -> int:
        """This worker's number on its node, from 0 on."""
        return self._facts.local_rank

    def get_local_world_size(self) -> int:
        """How many workers of the run are on this node."""
        return self._facts.local_world_size

    def get_node_rank(self) -> int:
        """This node's number among those of the run, from 0 on."""
        return self._facts.node_rank

    def get_node(self) -> str:
        """The name of the node that this worker runs on."""
        return self._facts.node

    def get_experiment_name(self) -> str:
        """The run's name."""
        return self._facts.experiment_name

    def get_run_id(self) -> str:
        """The run's id, which no other run of the cluster has."""
        return self._facts.run_id

    def get_attempt(self) -> int:
        """The number of this attempt: 1 at the first start, one more after each failure, resize or restore."""
        return self._facts.attempt

    def get_run_path(self) -> str:
        """Where the run's directory lies: a path or a URI."""
        return self._facts.run_path

    def get_storage(self) -> StorageContext:
        """Where the run and its checkpoints lie."""
        return StorageContext(self._facts)

    def get_metadata(self) -> dict[str, Any]:
        """What the trainer was given as `metadata`."""
        return dict(self._facts.metadata)

    def get_trial_name(self) -> str:
        """The run's name, as `get_experiment_name()`."""
        return self.get_experiment_name()

    def get_trial_id(self) -> str:
        """The run's id, as `get_run_id()`."""
        return self.get_run_id()

    def get_trial_dir(self) -> str:
        """The run's directory, as `get_run_path()`."""
        return self.get_run_path()

    def get_trial_resources(self) -> dict[str, float]:
        """What this attempt's workers hold together: {"CPU": 4}; empty in local mode, which reserves nothing."""
        return _session.current("get_trial_resources").resources()

    def __repr__(self) -> str:
        return f"TrainContext({self._facts!r})"


def release() -> None:
    """Gives this rank's place up: another process of the worker may report from now on.

    The agent has every report made so far when this returns. RuntimeError outside of a training function.
    """
    _session.current("release")
    _behind.join()
    _worker.close()


def get_context() -> TrainContext:
    """Returns the facts about this worker. RuntimeError outside of a training function."""
    return TrainContext(_session.current("get_context").facts)


public_in("rtrain.train", TrainContext, get_context, release)
