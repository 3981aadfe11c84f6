"""Facts about a worker and its run: ranks, sizes, modes of a report, nodes that will be taken away."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rtrain._lazy import public_in


class LoopEnded(SystemExit):
    """The run's `stop` condition was reached. The loop ends successfully on every rank."""


class CheckpointUploadMode(enum.Enum):
    """The moment at which `report` returns.

    SYNC: once the checkpoint is committed. ASYNC: once its files are staged. NO_UPLOAD: as in the run's own mode;
    the loop has written the files to the run's directory, and they stay there.
    """

    SYNC = "SYNC"
    ASYNC = "ASYNC"
    NO_UPLOAD = "NO_UPLOAD"


class CheckpointConsistencyMode(enum.Enum):
    """The condition that `get_all_reported_checkpoints` waits for.

    COMMITTED: every checkpoint reported so far is committed. VALIDATED: its validation has ended too, if one was
    requested.
    """

    COMMITTED = "COMMITTED"
    VALIDATED = "VALIDATED"


class ReportedCheckpointStatus(enum.Enum):
    """The state of a reported checkpoint.

    COMMITTED: no validation was requested. PENDING_VALIDATION: its validation has not ended. VALIDATED: the
    validation's metrics are available. VALIDATION_TIMEOUT, VALIDATION_FAILED: the validation ended without metrics.
    """

    COMMITTED = "COMMITTED"
    PENDING_VALIDATION = "PENDING_VALIDATION"
    VALIDATED = "VALIDATED"
    VALIDATION_TIMEOUT = "VALIDATION_TIMEOUT"
    VALIDATION_FAILED = "VALIDATION_FAILED"


@dataclass(frozen=True)
class Facts:
    """The constant facts about a worker process. Ranks and sizes are those of torchrun."""

    world_size: int = 1
    world_rank: int = 0
    local_rank: int = 0
    local_world_size: int = 1
    node_rank: int = 0
    node: str = ""
    experiment_name: str = ""
    run_id: str = ""
    # name under which data of the run is written, beside its reports; empty: the run_id, which is unique
    writes_as: str = ""
    attempt: int = 1
    previous_world_size: int | None = None  # world size of the attempt before this one; None for the first attempt
    reports_before: int = 0  # number of reports on the live branch, up to the checkpoint from which this attempt starts
    storage_path: str = ""
    run_path: str = ""
    user: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PreemptionInfo:
    """Nodes that are about to be taken away, with the world ranks on them.

    deadline_ms: Unix time in milliseconds at which they are taken away; None: as soon as possible.
    preempted_node_to_ranks: the world ranks on each node, by its name.
    """

    deadline_ms: int | None  # Unix time in milliseconds; None: as soon as possible
    preempted_node_to_ranks: Mapping[str, list[int]]

    @property
    def preempted_node_ids(self) -> list[str]:
        """The names of the nodes."""
        return list(self.preempted_node_to_ranks)

    @property
    def preempted_ranks(self) -> list[int]:
        """The world ranks on all nodes, ascending."""
        return sorted(rank for ranks in self.preempted_node_to_ranks.values() for rank in ranks)


@dataclass(frozen=True)
class ResizeInfo:
    """The size of this attempt and of the one before, and the limits of the run."""

    world_size: int
    previous_world_size: int | None  # None for the first attempt
    min_workers: int
    max_workers: int

    @property
    def resized(self) -> bool:
        """Whether the attempt before this one had another number of workers."""
        return self.previous_world_size is not None and self.previous_world_size != self.world_size


public_in(
    "rtrain.train",
    CheckpointConsistencyMode,
    CheckpointUploadMode,
    PreemptionInfo,
    ReportedCheckpointStatus,
    ResizeInfo,
)
public_in("rtrain.train._session", Facts)  # pickles of version 0.1.0 contain this name
