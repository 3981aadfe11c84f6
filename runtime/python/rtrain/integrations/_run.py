"""Finds the run that a tracker's run belongs to, from inside of a worker."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from rtrain import _files
from rtrain.train import _session
from rtrain.train._workers._tracked_run import TrackedRun, tracked


def rank() -> int:
    session = _session.active()
    return session.facts.world_rank if session is not None else int(os.environ.get("RANK", "0"))


def current_run(name: str | None = None) -> TrackedRun:
    """Returns this process's run. Outside of a run, returns a new one that is never resumed."""
    session = _session.active()
    if session is None:
        return TrackedRun(name or "rtrain", "", 1, 0, None)
    return tracked(session.facts, name)


class HighWater:
    """The largest step written so far. A small file beside the tracker's own keeps it over restarts of the worker."""

    def __init__(self, file: pathlib.Path | None) -> None:
        self._file = file
        self.step = -1
        if file is not None and file.is_file():
            self.step = int(json.loads(file.read_text()).get("step", -1))

    def passes(self, step: int) -> bool:
        """Returns true if `step` is new, and stores it then."""
        if step <= self.step:
            return False
        self.step = step
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            _files.replace(self._file, json.dumps({"step": step}).encode())
        return True


def plain(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns a loop's config as a tracker's parameters. Other than plain values become text."""
    simple = (str, int, float, bool, type(None))
    return {str(key): value if isinstance(value, simple) else repr(value) for key, value in (config or {}).items()}


class Nothing:
    """Replaces a tracker on ranks that do not write. Every attribute is a function that does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        return None
