"""A checkpoint: a directory of files, on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

_METADATA = ".metadata.json"


class Checkpoint:
    """A directory of files that a worker reports or resumes from.

    `metrics` are those of the report that brought it (empty for a directory that was not reported yet).
    """

    def __init__(
        self, path: str | os.PathLike[str], *, metrics: Mapping[str, Any] | None = None, name: str = ""
    ) -> None:
        self.path = os.fspath(path)
        self.metrics: dict[str, Any] = dict(metrics or {})
        self.name = name or pathlib.Path(self.path).name

    @classmethod
    def from_directory(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """The checkpoint that lies in `path`. No file is read yet."""
        return cls(path)

    def to_directory(self, path: str | os.PathLike[str] | None = None) -> str:
        """Copies the files to `path` (default: a new temporary directory) and returns it. The copy is the caller's."""
        target = os.fspath(path) if path is not None else tempfile.mkdtemp(prefix="rtrain-checkpoint-")
        shutil.copytree(self._existing(), target, dirs_exist_ok=True)
        return target

    @contextlib.contextmanager
    def as_directory(self) -> Iterator[str]:
        """The directory itself, to be read and not written."""
        yield self._existing()

    @property
    def metadata(self) -> dict[str, Any]:
        return self.get_metadata()

    def get_metadata(self) -> dict[str, Any]:
        """What `set_metadata` kept beside the files; empty when nothing was."""
        try:
            found = json.loads(self._metadata_file().read_text())
        except FileNotFoundError:
            return {}
        if not isinstance(found, dict):
            raise ValueError(
                f"{self._metadata_file()} holds {type(found).__name__}, not an object; write it with set_metadata"
            )
        return found

    def set_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Replaces the metadata, atomically. Call it before the checkpoint is reported."""
        target = self._metadata_file()
        aside = target.with_name(f"{_METADATA}.{os.getpid()}")
        aside.write_text(json.dumps(dict(metadata)))
        aside.replace(target)

    def update_metadata(self, metadata: Mapping[str, Any]) -> None:
        self.set_metadata({**self.get_metadata(), **metadata})

    def _metadata_file(self) -> pathlib.Path:
        return pathlib.Path(self._existing()) / _METADATA

    def _existing(self) -> str:
        if not pathlib.Path(self.path).is_dir():
            raise FileNotFoundError(
                f"the checkpoint directory {self.path} does not exist (removed by retention, or moved?)"
            )
        return self.path

    def __repr__(self) -> str:
        return f"Checkpoint(path={self.path!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checkpoint) and self.path == other.path

    def __hash__(self) -> int:
        return hash(self.path)
