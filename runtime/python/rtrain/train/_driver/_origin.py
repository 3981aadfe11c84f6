"""The directory from which a trainer was restored."""

from __future__ import annotations

import os
import pathlib
from dataclasses import dataclass

from rtrain._http import Head, NotFound, part
from rtrain.train._configs import RunConfig
from rtrain.train._run_directory import _reading


@dataclass(frozen=True)
class Origin:
    """The directory from which a trainer was restored: that of the run `name` at `storage_path`. here: the directory is
    on this machine's file systems.
    """

    path: str
    name: str
    storage_path: str
    here: bool

    @classmethod
    def of(cls, directory: _reading.RunDirectory, before: RunConfig) -> Origin:
        """Returns the origin for a directory. If the directory was moved or renamed, the name and the storage path
        follow from its present path. Otherwise they are those of the config.
        """
        path, here = directory.path, isinstance(directory, _reading.LocalDirectory)
        scheme, _, rest = path.rpartition("://")
        if not scheme:
            path = rest = os.path.abspath(rest)  # noqa: PTH100 - links are kept
        above, _, name = rest.rpartition("/")
        storage_path = f"{scheme}://{above}" if scheme else above or "/"
        kept = before.storage_path
        if kept is not None and before.name is not None and _same_directory(f"{str(kept).rstrip('/')}/{before.name}", path):
            storage_path, name = str(kept), before.name
        return cls(path, name, storage_path, here)

    def meant_by(self, config: RunConfig) -> bool:
        return (config.name, config.runs_path) == (self.name, self.storage_path)

    def is_on(self, head: Head) -> bool:
        """Returns whether the directory is in the head's own storage, seen from the head's machine."""
        root = head.get("/v1/status").get("storage_root") if self.here else None
        if not root or not _same_directory(str(root), self.storage_path):
            return False
        try:
            theirs = head.content(f"/v1/storage/{part(self.name)}/run.json")
        except NotFound:
            return False
        return theirs == (pathlib.Path(self.path) / "run.json").read_bytes()

    def newest(self) -> str:
        """Returns the run's newest committed checkpoint, if this machine can read the directory."""
        # Imported in the function, since only a driver that restores a run needs it.
        from rtrain.train._run_directory._writer import Directory

        checkpoints = Directory(pathlib.Path(self.path), self.name).committed() if self.here else []
        return checkpoints[-1].name if checkpoints else ""


def _same_directory(path: str, other: str) -> bool:
    path, other = (text.removeprefix("file://") for text in (path, other))
    return path == other or ("://" not in path + other and os.path.realpath(path) == os.path.realpath(other))


def same_storage(storage_path: str | None, other: str | None) -> bool:
    """Returns whether two storage paths are the same place. None stands for the head's own storage."""
    first, second = storage_path or "cluster://", other or "cluster://"
    return first.rstrip("/") == second.rstrip("/") or _same_directory(first, second)
