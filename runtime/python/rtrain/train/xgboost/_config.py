"""Connects the ranks of an XGBoost training. Rank 0 runs XGBoost's tracker, and each rank calls its loop within
XGBoost's communicator.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from rtrain import train
from rtrain._lazy import public_in
from rtrain.train.backend import Backend, BackendConfig, WorkerGroup

_END_S = 60  # seconds for which the tracker waits until every rank has left
_communicator: dict[str, Any] = {}  # arguments of the communicator in this process; empty: the process trains alone


@dataclass
class XGBoostConfig(BackendConfig):
    """How the ranks exchange histograms. xgboost_communicator: "rabit" is the only one that XGBoost has."""

    xgboost_communicator: str = "rabit"

    def __post_init__(self) -> None:
        if self.xgboost_communicator != "rabit":
            raise ValueError(f"XGBoostConfig: xgboost_communicator is {self.xgboost_communicator!r}; it is 'rabit'")

    @property
    def backend_cls(self) -> type[Backend]:
        """The hooks that start and end the tracker."""
        return _Tracking

    @property
    def train_func_context(self) -> Callable[[], AbstractContextManager[Any]]:
        """A function that returns the communicator's context."""
        return _within_communicator


class _Tracking(Backend):
    _tracker: Any = None

    def on_training_start(self, worker_group: WorkerGroup, backend_config: BackendConfig) -> None:
        if len(worker_group) == 1:
            return
        from xgboost.tracker import RabitTracker

        # XGBoost orders its ranks by task name; `_join` makes the names from the run's ranks.
        self._tracker = RabitTracker(len(worker_group), os.environ["MASTER_ADDR"], sortby="task")
        self._tracker.start()
        worker_group.execute(_join, self._tracker.worker_args())

    def on_shutdown(self, worker_group: WorkerGroup, backend_config: BackendConfig) -> None:
        if self._tracker is not None:
            self._tracker.wait_for(timeout=_END_S)


def _join(arguments: dict[str, Any]) -> None:
    _communicator.clear()
    _communicator.update(arguments, dmlc_task_id=f"{train.get_context().get_world_rank():06}")


def _within_communicator() -> AbstractContextManager[Any]:
    if not _communicator:
        return contextlib.nullcontext()
    from xgboost.collective import CommunicatorContext

    context: AbstractContextManager[Any] = CommunicatorContext(**_communicator)
    return context


public_in("rtrain.train.xgboost", XGBoostConfig)
