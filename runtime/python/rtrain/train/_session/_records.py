"""What is said between a training loop and the session behind it: who the worker is, one report, what the run has kept.

The classes have no code of a cluster or of local mode, so every other module may import them.
"""

from __future__ import annotations

import contextlib
import enum
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from rtrain._lazy import public_in
from rtrain.train._values import _metrics

if TYPE_CHECKING:
    from rtrain.train._checkpoint import Checkpoint
    from rtrain.train._report._left_over import LeftOver


class LoopEnded(SystemExit):
    """The run's `stop` was reached: the loop ends here, on every rank, and well."""


class CheckpointUploadMode(enum.Enum):
    """When `report` returns.

    SYNC: once the checkpoint is committed. ASYNC: once its files are staged. NO_UPLOAD: as the run's own mode says; the loop
    has put the files into the run's directory, and they stay there.
    """

    SYNC = "SYNC"
    ASYNC = "ASYNC"
    NO_UPLOAD = "NO_UPLOAD"


class CheckpointConsistencyMode(enum.Enum):
    """What `get_all_reported_checkpoints` waits for.

    COMMITTED: every checkpoint reported so far is committed. VALIDATED: its validation has ended too, where one was requested.
    """

    COMMITTED = "COMMITTED"
    VALIDATED = "VALIDATED"


class ReportedCheckpointStatus(enum.Enum):
    """What became of a checkpoint that was reported.

    COMMITTED: no validation was requested. PENDING_VALIDATION: its validation has not ended. VALIDATED: the validation's
    metrics are there. VALIDATION_TIMEOUT, VALIDATION_FAILED: the validation ended without metrics.
    """

    COMMITTED = "COMMITTED"
    PENDING_VALIDATION = "PENDING_VALIDATION"
    VALIDATED = "VALIDATED"
    VALIDATION_TIMEOUT = "VALIDATION_TIMEOUT"
    VALIDATION_FAILED = "VALIDATION_FAILED"


@dataclass(frozen=True)
class Facts:
    """Who this worker is; constant while the process lives. Ranks and sizes are those of torchrun."""

    world_size: int = 1
    world_rank: int = 0
    local_rank: int = 0
    local_world_size: int = 1
    node_rank: int = 0
    node: str = ""
    experiment_name: str = ""
    run_id: str = ""
    writes_as: str = ""  # names what the run writes beside reports; empty: run_id does, since no other fit() has it
    attempt: int = 1
    previous_world_size: int | None = None  # of the attempt before this one; None: this is the first
    reports_before: int = 0  # on the live branch, up to the checkpoint that this attempt starts from
    storage_path: str = ""
    run_path: str = ""
    user: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class ReportCall:
    """One `report`, its arguments checked."""

    metrics_json: str  # strict JSON, see _metrics
    directory: str | None = None  # absolute
    directory_name: str | None = None
    upload: CheckpointUploadMode | None = None  # None: the run's own
    owned: bool = False  # the directory may be moved away
    removed: bool = False  # once the files are staged, unless something else needs the directory
    upload_fn: Callable[[Checkpoint, str], Checkpoint] | None = None
    validation: object = False  # bool or ValidationTaskConfig
    given: Checkpoint | None = None  # what `report` was called with
    left_over: LeftOver | None = None  # goes once the report is made: its files were brought elsewhere

    @property
    def goes_behind(self) -> bool:
        """Whether `report` returns before the files are brought."""
        return self.upload_fn is not None and self.upload is CheckpointUploadMode.ASYNC and self.directory is not None

    @property
    def metrics(self) -> dict[str, Any]:
        """Plain JSON values, floats that are not finite among them."""
        metrics = _metrics.decode(json.loads(self.metrics_json))
        return metrics if isinstance(metrics, dict) else {}


@dataclass(frozen=True)
class ReportedCheckpoint:
    """A committed checkpoint that the run keeps, with the metrics of its report (and of its validation)."""

    checkpoint: Checkpoint
    metrics: dict[str, Any]
    status: ReportedCheckpointStatus = ReportedCheckpointStatus.COMMITTED


@dataclass(frozen=True)
class PreemptionInfo:
    """Nodes that are about to be taken away, with the world ranks on them.

    deadline_ms: Unix time in milliseconds at which they go; None: they go as soon as they may.
    preempted_node_to_ranks: the world ranks on each node, by its name.
    """

    deadline_ms: int | None  # Unix time in milliseconds; None: they go as soon as they may
    preempted_node_to_ranks: Mapping[str, list[int]]

    @property
    def preempted_node_ids(self) -> list[str]:
        """The names of the nodes."""
        return list(self.preempted_node_to_ranks)

    @property
    def preempted_ranks(self) -> list[int]:
        """The world ranks on all of them, ascending."""
        return sorted(rank for ranks in self.preempted_node_to_ranks.values() for rank in ranks)


@dataclass(frozen=True)
class ResizeInfo:
    """The size of this attempt beside the one before it and the limits of the run."""

    world_size: int
    previous_world_size: int | None  # None: the first attempt
    min_workers: int
    max_workers: int

    @property
    def resized(self) -> bool:
        """Whether the attempt before this one had another number of workers."""
        return self.previous_world_size is not None and self.previous_world_size != self.world_size


class Session(Protocol):
    """What stands behind the calls. `report`, `barrier`, `broadcast` and `preemption_info` are barriers over the ranks."""

    @property
    def facts(self) -> Facts: ...

    @property
    def reports_made(self) -> int:
        """The number of reports made in this attempt."""
        ...

    def report(self, call: ReportCall) -> None: ...

    def get_checkpoint(self) -> Checkpoint | None: ...

    def all_reported_checkpoints(
        self, consistency: CheckpointConsistencyMode, timeout_s: float | None
    ) -> list[ReportedCheckpoint]: ...

    def should_checkpoint(self) -> bool: ...

    def resize_info(self) -> ResizeInfo: ...

    def resources(self) -> dict[str, float]: ...

    def preemption_info(self) -> PreemptionInfo | None: ...

    def barrier(self) -> None: ...

    def broadcast_from_rank_zero(self, data: Any) -> Any: ...

    def gather_to_rank_zero(self, value: Any) -> list[Any]:
        """Every rank's object by rank, on rank 0; empty elsewhere. A barrier for rank 0 only."""
        ...

    def exchange(self, value: Any) -> list[Any]:
        """Every rank's object on every rank, by rank. A barrier; for small things that happen seldom."""
        ...

    def dataset_shard(self, name: str | None, state_dict: Any = None) -> Any: ...

    def checkpoint_dir(self) -> contextlib.AbstractContextManager[str]: ...

    def scratch_dir(self) -> str: ...

    def flush(self, timeout_s: float | None) -> None: ...


public_in(
    "rtrain.train",
    CheckpointConsistencyMode,
    CheckpointUploadMode,
    PreemptionInfo,
    ReportedCheckpoint,
    ReportedCheckpointStatus,
    ResizeInfo,
)
