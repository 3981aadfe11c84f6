"""One `report`, from the loop's call to what the worker library gets."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rtrain.train._checkpoint import Checkpoint
from rtrain.train._report import _left_over
from rtrain.train._report._left_over import LeftOver
from rtrain.train._values import _metrics
from rtrain.train._values._facts import CheckpointUploadMode


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

    def may_remove_directory(self, run_path: str) -> bool:
        """Whether `report` removes the directory that was reported."""
        if self.directory is None:
            return False
        given_away = self.removed or self.owned if self.upload_fn is not None else self.removed and not self.owned
        return given_away and not _left_over.is_needed(self.directory, run_path)

    def directory_to_remove(self, run_path: str) -> LeftOver | None:
        """Returns the reported directory, held until it is removed. None where it stays."""
        with contextlib.suppress(OSError):  # the function has moved it
            return LeftOver(str(self.directory)) if self.may_remove_directory(run_path) else None
        return None

    @property
    def metrics(self) -> dict[str, Any]:
        """Plain JSON values, floats that are not finite among them."""
        metrics = _metrics.decode(json.loads(self.metrics_json))
        return metrics if isinstance(metrics, dict) else {}
