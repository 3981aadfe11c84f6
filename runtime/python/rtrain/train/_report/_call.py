"""One call of `report`, with its arguments for the worker library."""

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
    """One call of `report`, with checked arguments."""

    metrics_json: str  # metrics as strict JSON (see _values/_metrics.py)
    directory: str | None = None  # absolute path of the reported directory; None: no checkpoint
    directory_name: str | None = None
    upload: CheckpointUploadMode | None = None  # when `report` returns; None: as the run's default
    owned: bool = False  # True: the directory may be moved
    removed: bool = False  # True: the directory is removed once its files are staged, unless it is needed elsewhere
    upload_fn: Callable[[Checkpoint, str], Checkpoint] | None = None
    validation: object = False  # False, True, or a ValidationTaskConfig
    given: Checkpoint | None = None  # the checkpoint that `report` was called with
    # A directory to remove after the report is made, because its files are stored elsewhere.
    left_over: LeftOver | None = None

    @property
    def goes_behind(self) -> bool:
        """Whether `report` returns before the files are staged."""
        return self.upload_fn is not None and self.upload is CheckpointUploadMode.ASYNC and self.directory is not None

    def may_remove_directory(self, run_path: str) -> bool:
        """Returns whether `report` removes the reported directory."""
        if self.directory is None:
            return False
        given_away = self.removed or self.owned if self.upload_fn is not None else self.removed and not self.owned
        return given_away and not _left_over.is_needed(self.directory, run_path)

    def directory_to_remove(self, run_path: str) -> LeftOver | None:
        """Returns the reported directory, opened so that it can be removed. Returns None if it is not to be removed."""
        with contextlib.suppress(OSError):  # an OSError means that the upload function has moved the directory
            return LeftOver(str(self.directory)) if self.may_remove_directory(run_path) else None
        return None

    @property
    def metrics(self) -> dict[str, Any]:
        """The metrics as plain JSON values; floats may be non-finite."""
        metrics = _metrics.decode(json.loads(self.metrics_json))
        return metrics if isinstance(metrics, dict) else {}
