"""Converts rtrain's path or URI of a run to the path on the file system that the script gave."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from rtrain._lazy import public_in
from rtrain.train._run_directory import _elsewhere, _filesystems


@dataclass(frozen=True)
class View:
    """A place in two forms: as rtrain's path or URI, and as a path on the script's file system.

    root: rtrain's path or URI. path: the same place on the file system. base: the folder of the plain file system or
    bucket that the file system shows. filesystem: the script's object; it is never pickled, since it may hold keys.
    """

    root: str
    path: str
    base: str
    filesystem: Any = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, path: str | os.PathLike[str], filesystem: Any, root: str) -> View:
        """Returns the view of a local or S3 file system. root: rtrain's path or URI of `path`."""
        base = _filesystems.without_wrappers(filesystem, "")[1].strip("/")
        if not base:  # a relative path, or one below the home directory, is expanded here
            return cls(root.rstrip("/"), _filesystems.path_on(root).rstrip("/"), "", filesystem)
        text = _filesystems.path_on(os.fspath(path)).rstrip("/")
        return cls(root.rstrip("/"), text, base if "://" in root else f"/{base}", filesystem)

    def shown(self, place: str) -> str:
        """Returns the path on the file system for rtrain's path of a place, which is `root` or below it."""
        return self.path + place.rstrip("/").removeprefix(self.root)

    def opened(self) -> Any:
        """Returns the file system object. In another process than the script's, makes an equal object. Raises
        ImportError without pyarrow.
        """
        if self.filesystem is not None:
            return self.filesystem
        import pyarrow.fs  # type: ignore[import-untyped,import-not-found,unused-ignore]

        plain = _filesystems.filesystem_for(self.root)
        return pyarrow.fs.SubTreeFileSystem(self.base, plain) if self.base else plain

    def __reduce__(self) -> tuple[Any, ...]:
        return View, (self.root, self.path, self.base)


_known: dict[str, View] = {}  # key: rtrain's path of a run


def remember(run_path: str, view: View | None) -> None:
    """Lets this process show paths of the run in the form of this view."""
    if view is not None:
        _known[run_path.rstrip("/")] = view


def of(place: str) -> View | None:
    """Returns the view of a run, or of a checkpoint in it. None: users see rtrain's own path."""
    runs = [run_path for run_path in _known if place.rstrip("/") == run_path or place.startswith(run_path + "/")]
    return _known[max(runs, key=len)] if runs else None


def shown_run(run_path: str) -> tuple[str, Any]:
    """Returns the run's path as the script gave it, and its file system object. For rtrain's own storage, the file
    system is None.
    """
    if (view := of(run_path)) is not None:
        return view.shown(run_path), view.opened()
    if (elsewhere := _elsewhere.of(run_path)) is not None:
        return f"{elsewhere.path}/{run_path.rstrip('/').rpartition('/')[2]}", elsewhere.filesystem
    return run_path, None


def run_shown_as(path: str) -> str | None:
    """Returns rtrain's path of the run that this process has shown as `path` on a file system; None if there is none."""
    runs = {*_known, *_elsewhere.known_runs()}
    return next((run_path for run_path in sorted(runs) if shown_run(run_path)[0] == path.rstrip("/")), None)


def shown_checkpoint(pointers: list[dict[str, Any]], elsewhere: _elsewhere.Elsewhere) -> str:
    """Returns the path of a checkpoint whose files lie on the script's own file system: the directory of rank 0's
    files.
    """
    run, directory, *_ = str(pointers[0]["directory"]).split("/")
    return f"{elsewhere.path}/{run}/{directory}"


public_in("rtrain.train._checkpoints._views", View)  # pickles of version 0.1.0 contain this name
