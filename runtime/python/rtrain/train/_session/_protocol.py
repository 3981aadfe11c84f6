"""Defines the protocol Session, which the session of a cluster and that of local mode implement. Each function that a
training loop may call has a method in the protocol.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Protocol

from rtrain._lazy import public_in
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._report._call import ReportCall
from rtrain.train._values._facts import CheckpointConsistencyMode, Facts, PreemptionInfo, ReportedCheckpointStatus, ResizeInfo


@dataclass(frozen=True)
class ReportedCheckpoint:
    """A committed checkpoint that the run keeps, with the metrics of its report and of its validation."""

    checkpoint: Checkpoint
    metrics: dict[str, Any]
    status: ReportedCheckpointStatus = ReportedCheckpointStatus.COMMITTED


class Session(Protocol):
    """The methods behind the calls of a training loop. `report`, `barrier`, `broadcast` and `preemption_info` are
    barriers over the ranks.
    """

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
        """Returns, on rank 0, every rank's object in the order of ranks; on other ranks an empty list. Only rank 0
        waits.
        """
        ...

    def exchange(self, value: Any) -> list[Any]:
        """Returns every rank's object, in the order of ranks, on every rank. All ranks must call it. Only for small
        objects and rare calls.
        """
        ...

    def dataset_shard(self, name: str | None, state_dict: Any = None) -> Any: ...

    def checkpoint_dir(self) -> contextlib.AbstractContextManager[str]: ...

    def scratch_dir(self) -> str: ...

    def flush(self, timeout_s: float | None) -> None: ...


public_in("rtrain.train", ReportedCheckpoint)
