"""A checkpoint is a directory of files on this machine, at the head, or on a pyarrow file system."""

from __future__ import annotations

import contextlib
import copyreg
import functools
import hashlib
import json
import os
import pathlib
import pickle
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rtrain import _files, _own_folders, _public_names
from rtrain._lazy import public_in
from rtrain.train._run_directory import _elsewhere, _filesystems, _views
from rtrain.train._run_directory._shared_copy import shared_copy, turn
from rtrain.train._values import _names

METADATA = ".metadata.json"
_VALUES = "dict_checkpoint.pkl"
_OLDER = {
    "from_uri": "give Checkpoint the URI as its path",
    "to_uri": "use .path",
    "uri": "use .path",
    "from_bytes": "use Checkpoint.from_dict or from_directory",
    "to_bytes": "use to_dict or to_directory",
    "from_checkpoint": "it is a Checkpoint already",
    "get_internal_representation": "use .path",
}


class _NamesOfOlderVersions(type):
    """Raises an AttributeError for a class method of an older version. Its text names the replacement."""

    def __getattr__(cls, name: str) -> Any:
        if name in _OLDER:
            raise AttributeError(f"Checkpoint.{name} of older versions is not here: {_OLDER[name]}")
        raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")


class Checkpoint(metaclass=_NamesOfOlderVersions):
    """A directory of files that a worker reports, or resumes from.

    path: a directory here, `cluster://run/checkpoint`, `s3://bucket/run/checkpoint`, or a path that only the cluster
    mounts. The head streams the files of the last kind. Hashes of copied files are checked.
    filesystem: a pyarrow FileSystem that `path` lies on. Left out, it is pyarrow's LocalFileSystem for a path, and
    None for a URI and where pyarrow is not installed.
    metrics: the metrics of the report with the checkpoint; empty before the report.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        filesystem: Any = None,
        *,
        metrics: Mapping[str, Any] | None = None,
        name: str = "",
    ) -> None:
        self._at = _names.local_path(os.fspath(path))  # the path at which rtrain reads the files
        # The path for users, on `filesystem`. Empty: not yet read from the checkpoint's record.
        self._shown = self._at
        self._view: _views.View | None = None
        self._filesystem = filesystem
        self.metrics: dict[str, Any] = dict(metrics or {})
        self.name = name or self._at.rstrip("/").rsplit("/", maxsplit=1)[-1]
        # True: from_dict has made the directory, so a report may move its files instead of copying them
        self._owned = False
        self._blob = ""  # hash of the files' tar archive, which the head may have stored already

    def __getattr__(self, name: str) -> Any:
        if name in _OLDER:
            raise AttributeError(f"Checkpoint.{name} of older versions is not here: {_OLDER[name]}")
        raise AttributeError(f"'Checkpoint' object has no attribute {name!r}")

    def __fspath__(self) -> str:
        raise TypeError("a Checkpoint is not a path: use `with checkpoint.as_directory() as directory:`, or its .path")

    @classmethod
    def _kept(cls, place: str, *, metrics: Mapping[str, Any] | None = None, name: str = "", run_path: str = "") -> Checkpoint:
        """Returns a checkpoint of a run. Its `path` is one on the run's `storage_filesystem`, if the run has one.

        place: the path at which rtrain reads it. run_path: the run's path, if `place` is a copy outside of it.
        """
        checkpoint = cls(place, metrics=metrics, name=name)
        kept_at = f"{run_path.rstrip('/')}/{checkpoint.name}" if run_path else checkpoint._at
        if (view := _views.of(kept_at)) is not None:
            checkpoint._view, checkpoint._shown = view, view.shown(kept_at)
        elif _elsewhere.of(checkpoint._at) is not None:
            checkpoint._shown = ""
        return checkpoint

    @property
    def path(self) -> str:
        """Where the files lie: a path on `filesystem`, or a URI.

        With RunConfig(storage_filesystem=) it is a path on that file system. For a file system that rtrain cannot
        write itself, the path is read from the checkpoint's record. FileNotFoundError is raised if that record was
        removed.
        """
        if not self._shown:
            elsewhere, pointers = _elsewhere.of(self._at), self._pointers()
            self._shown = _views.shown_checkpoint(pointers, elsewhere) if elsewhere is not None and pointers else self._at
        return self._shown

    @property
    def filesystem(self) -> Any:
        """The pyarrow file system of `path`. None for a URI, and if pyarrow is not installed."""
        if self._filesystem is not None:
            return self._filesystem
        if self._view is not None:
            return self._view.opened()
        if not self._shown or self._shown != self._at:
            elsewhere = _elsewhere.of(self._at)
            return elsewhere.filesystem if elsewhere is not None else None
        from rtrain.train._run_directory import _reading

        return _reading.filesystem_of(self._at)

    # -- constructors
    # ---------------------------------------------------------------------------------------------------
    @classmethod
    def from_directory(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """Returns a checkpoint for the directory `path`. Reads no file yet."""
        return cls(os.path.abspath(os.fspath(path)))  # noqa: PTH100

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Checkpoint:
        """Returns a checkpoint with one file that holds `values`: nested tensors (by torch.save), NumPy arrays, plain objects."""
        if not isinstance(values, Mapping):
            raise TypeError(f"Checkpoint.from_dict takes a dict, not {type(values).__name__}")
        folder = _own_folders.new_folder("rtrain-checkpoint-")
        checkpoint = cls(folder)
        _own_folders.belongs_to(checkpoint, folder)
        _save_values(pathlib.Path(folder) / _VALUES, dict(values))
        checkpoint._owned = True
        return checkpoint

    def to_dict(self) -> dict[str, Any]:
        """Returns the values given to `from_dict`, with tensors on the CPU. Raises ValueError for any other
        checkpoint.
        """
        with self.as_directory() as folder:
            file = pathlib.Path(folder) / _VALUES
            if not file.is_file():
                raise ValueError(f"{self._at} was not made by Checkpoint.from_dict; read its files with as_directory()")
            return _load_values(file)

    # -- reading ------------------------------------------------------------------------------------------------------
    def to_directory(self, path: str | os.PathLike[str] | None = None) -> str:
        """Copies the files to `path` (default: a new temporary directory) and returns that. The caller owns the
        copy.
        """
        if path is None:
            with self.as_directory() as source:
                return _own_folders.copied(source, "rtrain-checkpoint-")
        target = pathlib.Path(os.fspath(path))
        target.mkdir(parents=True, exist_ok=True)
        with turn(target.with_name(f".{target.name}.rtrain-lock")), self.as_directory() as source:
            shutil.copytree(source, target, dirs_exist_ok=True)
        return str(target)

    @contextlib.contextmanager
    def as_directory(self) -> Iterator[str]:
        """Gives a context with the directory of the files. They must not be changed.

        The directory is the checkpoint's own if that is on this machine. Otherwise it is a copy that the processes
        of this machine share. The last of them removes it.
        """
        with self._as_recorded() as folder:
            if pointers := _elsewhere.pointers(folder):
                with _elsewhere.fetched(self._at, pointers) as copy:
                    yield copy
            else:
                yield folder

    def _pointers(self) -> list[dict[str, Any]]:
        """Returns the pointers to files outside of the checkpoint's directory; empty if the files are in it."""
        with self._as_recorded() as folder:
            return _elsewhere.pointers(folder)

    @contextlib.contextmanager
    def _as_recorded(self) -> Iterator[str]:
        """Gives the files on rtrain's storage: the checkpoint's files, or the pointers to them."""
        if self._filesystem is None and pathlib.Path(self._at).is_dir():
            yield self._at
            return
        held, fetch = self._source()
        with shared_copy(hashlib.sha256(self._at.encode() + b"|" + held).hexdigest()[:32], fetch) as copy:
            yield copy

    def _source(self) -> tuple[bytes, Callable[[pathlib.Path], None]]:
        """Returns an identity of the source's present content, and a function that copies it."""
        if self._filesystem is not None:
            held = _identity(self._filesystem) + _listing(self._filesystem, self._at)
            return held, functools.partial(_copy_from, self._filesystem, self._at)
        from rtrain.train._run_directory import _reading

        try:
            directory, name = _reading.open_run_of(self._at)
            text = directory.read(f"{name}/{_reading.MANIFEST}")
            manifest = json.loads(text)
        except (FileNotFoundError, ValueError) as error:
            raise FileNotFoundError(
                f"the checkpoint directory {self._at} does not exist (removed by retention, or moved?): {error}"
            ) from error
        return bytes(text), functools.partial(self._fetch, directory, name, manifest)

    def _fetch(self, directory: Any, name: str, manifest: dict[str, Any], target: pathlib.Path) -> None:
        for file in manifest["files"]:
            to_file = target / file["path"]
            if ".." in to_file.parts or target not in to_file.parents:
                raise OSError(f"the manifest of {self._at} names the file {file['path']!r}, which does not lie in a checkpoint")
            to_file.parent.mkdir(parents=True, exist_ok=True)
            digest = directory.fetch(f"{name}/{file['path']}", to_file)
            if digest != file["sha256"]:
                raise OSError(
                    f"{self._at}/{file['path']} is damaged: its hash is {digest[:12]}..., committed was {file['sha256'][:12]}...; "
                    "take the checkpoint before it"
                )

    # -- metadata -----------------------------------------------------------------------------------------------------
    @property
    def metadata(self) -> dict[str, Any]:
        """Returns the same as `get_metadata()`."""
        return self.get_metadata()

    def get_metadata(self) -> dict[str, Any]:
        """Returns the metadata that `set_metadata` stored beside the files; empty if there are none."""
        with self.as_directory() as folder:
            file = pathlib.Path(folder) / METADATA
            try:
                metadata = json.loads(file.read_text())
            except FileNotFoundError:
                return {}
        if not isinstance(metadata, dict):
            raise ValueError(f"{file} holds {type(metadata).__name__}, not an object; write it with set_metadata")
        return metadata

    def set_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Replaces the metadata, atomically. Call it before the checkpoint is reported.

        Raises FileNotFoundError if the directory is not on this machine.
        """
        _files.replace(pathlib.Path(self._existing()) / METADATA, json.dumps(dict(metadata)).encode())

    def update_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Adds names to the metadata, or replaces their values. Call it before the checkpoint is reported.

        Raises FileNotFoundError if the directory is not on this machine.
        """
        self.set_metadata({**self.get_metadata(), **metadata})

    def _existing(self) -> str:
        if self._filesystem is not None or not pathlib.Path(self._at).is_dir():
            raise FileNotFoundError(f"the checkpoint directory {self._at} does not exist on this machine")
        return self._at

    def __repr__(self) -> str:
        return f"Checkpoint(path={(self._shown or self._at)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checkpoint) and self._at == other.path and self._filesystem == other._filesystem

    def __hash__(self) -> int:
        return hash(self._at)

    def __reduce__(self) -> tuple[Any, ...]:
        state: tuple[Any, ...] = (self._at, self._filesystem, self.metrics, self.name, _elsewhere.of(self._at))
        if self._shown != self._at:
            state += (self._shown, self._view)
        return copyreg.__newobj__, (Checkpoint,), state  # type: ignore[attr-defined]

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        path, filesystem, metrics, name, elsewhere, *shown = state
        if elsewhere is not None:
            _elsewhere.remember(path.rpartition("/")[0], elsewhere)
        Checkpoint.__init__(self, path, filesystem, metrics=metrics, name=name)
        if shown:  # if the run has a storage_filesystem, `shown` is the path on it
            self._shown, self._view = shown

    @classmethod
    def _remade(
        cls, path: str, filesystem: Any, metrics: dict[str, Any], name: str, elsewhere: _elsewhere.Elsewhere | None = None
    ) -> Checkpoint:
        """Makes a checkpoint from a pickle of an earlier version: such pickles contain this function's name."""
        checkpoint = cls(path)
        checkpoint.__setstate__((path, filesystem, metrics, name, elsewhere))
        return checkpoint


_remade = Checkpoint._remade  # pickles of still earlier versions contain this name


def _copy_from(filesystem: Any, path: str, target: pathlib.Path) -> None:
    import pyarrow.fs  # type: ignore[import-untyped,import-not-found,unused-ignore]

    pyarrow.fs.copy_files(path, str(target), source_filesystem=_filesystems.as_pyarrow(filesystem))


def _save_values(file: pathlib.Path, values: dict[str, Any]) -> None:
    import sys

    if "torch" in sys.modules:
        sys.modules["torch"].save(values, str(file))
        return
    with file.open("wb") as out:
        try:
            pickle.dump(values, out, protocol=4)
        except Exception:
            out.seek(0)
            out.truncate()
            out.write(_public_names.dumps(values))


def _load_values(file: pathlib.Path) -> dict[str, Any]:
    with file.open("rb") as content:
        zipped = content.read(2) == b"PK"
    if zipped:
        import torch

        values: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=False)
        return values
    return dict(pickle.loads(file.read_bytes()))


# -- what a source holds ----------------------------------------------------------------------------------------------
def _identity(filesystem: Any) -> bytes:
    """Returns bytes that are equal in every process of this machine for the same files. A repr would contain
    addresses.
    """
    try:
        return pickle.dumps(filesystem, protocol=4)
    # an object that cannot be pickled is in no other process, so its identity need only hold in this one
    except Exception:
        return f"{os.getpid()}-{id(filesystem)}".encode()


def _listing(filesystem: Any, path: str) -> bytes:
    import pyarrow.fs

    entries = _filesystems.as_pyarrow(filesystem).get_file_info(pyarrow.fs.FileSelector(path, recursive=True))
    return repr(sorted((info.path, info.size, info.mtime_ns) for info in entries if info.is_file)).encode()


public_in("rtrain.train", Checkpoint)
