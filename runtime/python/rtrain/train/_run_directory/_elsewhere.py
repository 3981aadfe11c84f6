"""Checkpoint files on a file system of pyarrow's or fsspec's that rtrain itself cannot write (docs/decisions/0003).

Claims, manifests and all other files of a run are on rtrain's own storage. A checkpoint there holds a pointer for
each rank that reported
files: their directory on the file system, and the size and hash of each. Only workers and the driver access the file
system.

   <path>/<run>/.rtrain-run.json                       rtrain's path of the run, for Result.from_path
   <path>/<run>/checkpoint_000003-a001-<run id>/       the files of rank 0; no name is used twice
   <path>/<run>/checkpoint_000003-a001-<run id>/rank-1/    the files of rank 1; of equal names the lowest rank's
   counts
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rtrain._lazy import public_in
from rtrain.train._run_directory import _filesystems
from rtrain.train._run_directory._shared_copy import shared_copy
from rtrain.train._values._facts import Facts

RUN = ".rtrain-run.json"
_POINTER = re.compile(r"\.rtrain-elsewhere-(\d+)\.json")
_OF_REPORT = re.compile(r"checkpoint_(\d+)-a(\d+)-(.+)")
_PIECE = 4 << 20
_REMOVED_MOST = 10  # most directories that are removed at a time
_SHOWN = 5


@dataclass(frozen=True)
class Elsewhere:
    """Where a run's checkpoint files lie. filesystem: an object of pyarrow or fsspec. path: the folder of the runs'
    directories on it.
    """

    filesystem: Any = field(repr=False)  # not shown by repr, since it may hold keys
    path: str

    def begin(self, facts: Facts) -> None:
        """On rank 0, writes rtrain's path of the run to the file system. If the file system cannot be written, this
        fails before the loop begins.
        """
        there, top = _filesystems.as_pyarrow(self.filesystem), f"{self.path}/{facts.experiment_name}"
        there.create_dir(top, recursive=True)
        with there.open_output_stream(f"{top}/{RUN}") as out:
            out.write(json.dumps({"schema_version": 1, "run_path": facts.run_path}).encode())

    def store(self, source: pathlib.Path, facts: Facts, report: int, target: pathlib.Path) -> None:
        """Copies the files to the file system, and writes a pointer to them into the directory `target`. OSError
        names the file.
        """
        directory = f"{facts.experiment_name}/checkpoint_{report:06}-a{facts.attempt:03}-{facts.run_id}"
        directory += f"/rank-{facts.world_rank}" if facts.world_rank else ""
        if any(_POINTER.fullmatch(file.name) for file in source.iterdir()):
            raise ValueError(
                f"{source} holds a pointer to files elsewhere: report a directory that Checkpoint.to_directory() made of it"
            )
        there = _filesystems.as_pyarrow(self.filesystem)
        files = {file.relative_to(source).as_posix(): file for file in sorted(source.rglob("*")) if file.is_file()}
        for folder in sorted({f"{directory}/{name}".rpartition("/")[0] for name in files}):
            there.create_dir(f"{self.path}/{folder}", recursive=True)
        entries = [{"path": name, **self._copied(there, file, f"{directory}/{name}")} for name, file in files.items()]
        pointer = {"schema_version": 1, "path": self.path, "directory": directory, "files": entries}
        (target / f".rtrain-elsewhere-{facts.world_rank}.json").write_text(json.dumps(pointer, indent=1))

    def _copied(self, there: Any, source: pathlib.Path, name: str) -> dict[str, Any]:
        path = f"{self.path}/{name}"
        digest, size = hashlib.sha256(), 0
        with source.open("rb") as content, there.open_output_stream(path) as out:
            while piece := content.read(_PIECE):
                out.write(piece)
                digest.update(piece)
                size += len(piece)
        if (stored := there.get_file_info(path).size) not in (size, None):
            raise OSError(f"{path} has {stored} bytes on storage_filesystem, and {size} were written")
        return {"bytes": size, "sha256": digest.hexdigest()}

    def fetch(self, pointers: list[dict[str, Any]], target: pathlib.Path) -> None:
        """Copies the files into `target`. OSError names the files that are missing or differ from the reported ones."""
        there = _filesystems.as_pyarrow(self.filesystem)
        faults: list[str] = []
        for name, (directory, entry) in _files_of(pointers).items():
            to_file = target / name
            if ".." in f"{directory}/{name}".split("/") or target not in to_file.parents:
                raise OSError(f"a pointer names {directory}/{name}, which does not lie in a checkpoint")
            if fault := _fetched(there, f"{self.path}/{directory}/{name}", entry, to_file):
                faults.append(f"{directory}/{name} {fault}")
        if faults:
            more = f" and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
            raise OSError(
                f"on storage_filesystem below {self.path}: {'; '.join(faults[:_SHOWN])}{more}. This checkpoint cannot be used: take the one "
                "before it (get_all_reported_checkpoints(), Result.best_checkpoints)"
            )

    def remove_gone(self, facts: Facts, alive: set[str], seen: set[str]) -> list[str]:
        """Removes directories of this run's checkpoints to which no pointer leads any more. In this attempt, only
        directories that once had a pointer (`seen`) are removed, since others may still be committed. Removes at most
        ten at a time, the oldest first. `alive`: directories to which a pointer leads.
        """
        import pyarrow.fs  # type: ignore[import-untyped,import-not-found,unused-ignore]

        there = _filesystems.as_pyarrow(self.filesystem)
        top = f"{self.path}/{facts.experiment_name}"
        gone = []
        for info in there.get_file_info(pyarrow.fs.FileSelector(top, allow_not_found=True)):
            name = str(info.path).rstrip("/").rpartition("/")[2]
            match = _OF_REPORT.fullmatch(name)
            if match is None or match[3] != facts.run_id or f"{facts.experiment_name}/{name}" in alive:
                continue
            if int(match[2]) < facts.attempt or f"{facts.experiment_name}/{name}" in seen:
                gone.append((int(match[2]), int(match[1]), name))
        removed = [name for _, _, name in sorted(gone)[:_REMOVED_MOST]]
        for name in removed:
            there.delete_dir(f"{top}/{name}")
        return removed


def _files_of(pointers: list[dict[str, Any]]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Returns the directory and entry of each file name. If several ranks have the name, the lowest rank's counts."""
    by_path: dict[str, tuple[str, dict[str, Any]]] = {}
    for pointer in pointers:
        for entry in pointer["files"]:
            by_path.setdefault(str(entry["path"]), (str(pointer["directory"]), entry))
    return by_path


def _fetched(there: Any, path: str, entry: dict[str, Any], to_file: pathlib.Path) -> str:
    """Copies a file and checks it. Returns what is wrong with it; empty if nothing is."""
    digest, size = hashlib.sha256(), 0
    to_file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with there.open_input_stream(path) as content, to_file.open("wb") as out:
            while piece := content.read(_PIECE):
                out.write(piece)
                digest.update(piece)
                size += len(piece)
    except FileNotFoundError:
        return "is missing"
    if size != entry["bytes"] or digest.hexdigest() != entry["sha256"]:
        return f"has changed: {size} bytes, hash {digest.hexdigest()[:12]}..., reported were {entry['bytes']}, {entry['sha256'][:12]}..."
    return ""


# -- the file systems of runs, in this process
# ----------------------------------------------------------------------------------
_known: dict[str, Elsewhere] = {}  # key: path of the run


def remember(run_path: str, elsewhere: Elsewhere) -> None:
    _known[run_path.rstrip("/")] = elsewhere


def known_runs() -> list[str]:
    """Returns the paths of the known runs with files elsewhere, and of checkpoints that nodes have copied."""
    return list(_known)


def of(path: str) -> Elsewhere | None:
    """Returns where the files of a run, or of a checkpoint in it, lie; None: on rtrain's storage."""
    runs = [run_path for run_path in _known if path == run_path or path.startswith(run_path + "/")]
    return _known[max(runs, key=len)] if runs else None


def pointers(folder: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Returns the pointers in a checkpoint's directory, by rank; none if the directory has the files themselves."""
    files = pathlib.Path(folder).iterdir()
    numbered = sorted((int(match[1]), file) for file in files if (match := _POINTER.fullmatch(file.name)))
    return [json.loads(file.read_text()) for _, file in numbered]


@contextlib.contextmanager
def fetched(path: str, pointer_list: list[dict[str, Any]]) -> Iterator[str]:
    """Gives a context with a directory of the files that the checkpoint's pointers name. All readers on this machine
    share the directory.
    """
    elsewhere = of(path)
    if elsewhere is None:
        raise RuntimeError(
            f"the files of {path} lie on the storage_filesystem of its run, which this process was not given: read the checkpoint through "
            "Result.from_path(path, storage_filesystem=), or in the run's own driver and workers"
        )
    key = hashlib.sha256(f"{path}|{elsewhere.path}|{json.dumps(pointer_list, sort_keys=True)}".encode()).hexdigest()[:32]
    with shared_copy(key, lambda target: elsewhere.fetch(pointer_list, target)) as copy:
        yield copy


class Sweeper:
    """Removes files on the other file system to which no pointer leads: on rank 0 after its reports, and in the driver
    at the end of the run.
    """

    def __init__(self, elsewhere: Elsewhere, facts: Facts) -> None:
        self._elsewhere = elsewhere
        self._facts = facts
        # key: a checkpoint's name; value: the directories that its pointers name
        self._directories: dict[str, set[str]] = {}
        self._seen: set[str] = set()

    def sweep(self, kept: Iterable[str], read: Callable[[str], list[dict[str, Any]]]) -> int:
        """Removes directories and returns their number. kept: names of the checkpoints that exist. If one of them
        cannot be read now, removes nothing.
        """
        names = set(kept)
        for name in names - self._directories.keys():
            self._directories[name] = {"/".join(str(pointer["directory"]).split("/")[:2]) for pointer in read(name)}
        alive = {directory for name in names for directory in self._directories[name]}
        removed = self._elsewhere.remove_gone(self._facts, alive, self._seen)
        self._seen |= alive
        return len(removed)


public_in("rtrain.train._elsewhere", Elsewhere)  # pickles of version 0.1.0 contain this name
