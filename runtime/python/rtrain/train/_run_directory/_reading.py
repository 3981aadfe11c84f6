"""Reads a run's directory on this machine, at the head (cluster://), through the head (a path that only the cluster
mounts), or in a bucket.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import pathlib
import subprocess
import tempfile
from dataclasses import dataclass
from typing import Any, Protocol

from rtrain._http import Head, HeadError, NotFound, file_digest, part
from rtrain.train._run_directory import _buckets, _filesystems
from rtrain.train._values import _checkpoint_names, _metrics, _names

MANIFEST = _checkpoint_names.MANIFEST


class RunDirectory(Protocol):
    path: str

    def read(self, name: str) -> bytes:
        """Returns the content of a file. Raises FileNotFoundError if it does not exist."""
        ...

    def names(self, below: str) -> list[str]:
        """Returns all files below the folder, as paths relative to the run's directory."""
        ...

    def like(self, pattern: str) -> dict[str, bytes]:
        """Returns the content of every file whose path matches the pattern, sorted by path. `*` also matches
        slashes.
        """
        ...

    def fetch(self, name: str, to_file: pathlib.Path) -> str:
        """Copies a file and returns its SHA-256."""
        ...


@dataclass
class LocalDirectory:
    path: str

    def read(self, name: str) -> bytes:
        return (pathlib.Path(self.path) / name).read_bytes()

    def names(self, below: str) -> list[str]:
        top = pathlib.Path(self.path)
        return sorted(str(file.relative_to(top)) for file in (top / below).rglob("*") if file.is_file())

    def like(self, pattern: str) -> dict[str, bytes]:
        return _each_like(self, pattern)

    def fetch(self, name: str, to_file: pathlib.Path) -> str:
        to_file.write_bytes(self.read(name))
        return file_digest(to_file)


@dataclass
class RemoteDirectory:
    """A directory that the head reads. `base`: the API route of its files."""

    path: str
    head: Head
    base: str
    prefix: str = ""  # part of the paths in the head's listing that is removed

    def read(self, name: str) -> bytes:
        try:
            return self.head.content(f"{self.base}/{_quoted(name)}")
        except NotFound as error:
            raise FileNotFoundError(f"{self.path}/{name} does not exist") from error

    def names(self, below: str) -> list[str]:
        items = self.head.get(f"{self.base}/{_quoted(below)}".rstrip("/"), {"list": "1"})["items"]
        return sorted(str(file["path"]).removeprefix(self.prefix) for file in items)

    def like(self, pattern: str) -> dict[str, bytes]:
        return _each_like(self, pattern)

    def fetch(self, name: str, to_file: pathlib.Path) -> str:
        try:
            return self.head.download(f"{self.base}/{_quoted(name)}", to_file)
        except NotFound as error:
            raise FileNotFoundError(f"{self.path}/{name} does not exist") from error


@dataclass
class FilesystemDirectory:
    """A run's directory on a pyarrow file system object of this process."""

    path: str
    filesystem: Any

    def read(self, name: str) -> bytes:
        with self.filesystem.open_input_stream(f"{self.path}/{name}") as content:
            return bytes(content.read())

    def names(self, below: str) -> list[str]:
        import pyarrow.fs  # type: ignore[import-untyped,import-not-found,unused-ignore]

        top = f"{self.path}/{below}".rstrip("/")
        entries = self.filesystem.get_file_info(pyarrow.fs.FileSelector(top, allow_not_found=True, recursive=True))
        prefix = f"{self.path.strip('/')}/"
        return sorted(info.path.lstrip("/").removeprefix(prefix) for info in entries if info.is_file)

    def like(self, pattern: str) -> dict[str, bytes]:
        return _each_like(self, pattern)

    def fetch(self, name: str, to_file: pathlib.Path) -> str:
        to_file.write_bytes(self.read(name))
        return file_digest(to_file)


_EXIT_NOT_FOUND, _EXIT_UNAUTHORISED = 3, 6


@dataclass
class BucketDirectory:
    """A directory in a bucket, which the `rtrain` program reads. Credentials are those of this process (in a worker:
    of the job's secrets), or those of the remembered `storage_filesystem`.
    """

    path: str

    def read(self, name: str) -> bytes:
        with tempfile.TemporaryDirectory(prefix="rtrain-bucket-") as folder:
            file = pathlib.Path(folder) / "file"
            self._rtrain("get", f"{self.path}/{name}", str(file))
            return file.read_bytes()

    def names(self, below: str) -> list[str]:
        items = json.loads(self._rtrain("list", f"{self.path}/{below}"))["items"]
        return sorted(str(file["path"]).removeprefix(f"{self.path}/") for file in items)

    def like(self, pattern: str) -> dict[str, bytes]:
        """Reads the files with one process, which lists the bucket once and fetches several objects at a time."""
        with tempfile.TemporaryDirectory(prefix="rtrain-bucket-") as folder:
            self._rtrain("get", self.path, folder, "--only", pattern)
            copied = LocalDirectory(folder)
            return {name: copied.read(name) for name in copied.names("")}

    def fetch(self, name: str, to_file: pathlib.Path) -> str:
        self._rtrain("get", f"{self.path}/{name}", str(to_file))
        return file_digest(to_file)

    def _rtrain(self, verb: str, *arguments: str) -> str:
        from rtrain._local_cluster import find_program

        command = [str(find_program()), "storage", verb, *arguments, "-o", "json"]
        environment = _filesystems.environment_for(self.path)
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode == _EXIT_NOT_FOUND:
            raise FileNotFoundError(f"{arguments[0]} does not exist")
        error_text = done.stderr.strip().removeprefix("rtrain: ")
        kind = _buckets.kind_of(self.path)
        if kind and done.returncode == _EXIT_UNAUTHORISED and _names.started_by_agent():
            raise PermissionError(f"{error_text}\na worker reads {kind.name} with credentials of its job: give it {kind.advice}")
        if done.returncode != 0:
            raise OSError(error_text or f"`{' '.join(command)}` ended with {done.returncode}")
        return done.stdout


def _each_like(directory: RunDirectory, pattern: str) -> dict[str, bytes]:
    below = pattern.partition("*")[0].rpartition("/")[0]
    return {name: directory.read(name) for name in directory.names(below) if fnmatch.fnmatchcase(name, pattern)}


def _quoted(name: str) -> str:
    return "/".join(part(segment) for segment in name.split("/"))


def open_directory(path: str, head: Head | None = None) -> RunDirectory:
    """Returns the directory of a run. Raises FileNotFoundError if neither this machine nor the head has it."""
    text = str(path).rstrip("/")
    if "://" not in text:
        if (pathlib.Path(text) / "run.json").is_file():
            return LocalDirectory(text)
        return _behind_the_head(text, head)
    scheme, _, rest = text.partition("://")
    if scheme == "file":
        return open_directory(rest, head)
    if scheme == "cluster":
        head_in_use = head or Head.current()
        directory = RemoteDirectory(text, head_in_use, f"/v1/storage/{_quoted(rest)}", f"{rest}/")
        directory.read("run.json")
        return directory
    if _buckets.kind_of(text):
        bucket = BucketDirectory(text)
        bucket.read("run.json")
        return bucket
    raise ValueError(f"{path}: this version reads runs from paths, buckets (s3://, gs://, az://) and cluster://, not {scheme}://")


def open_run_of(path: str, head: Head | None = None) -> tuple[RunDirectory, str]:
    """Returns the directory of the run that a checkpoint belongs to, and the checkpoint's relative path. Raises
    FileNotFoundError if neither this machine nor the head has it. A worker waits for a head that does not answer.
    """
    if head is None and _names.started_by_agent():
        head = Head(Head.current().place, patience_s=_names.HEAD_AWAY_S)
    places = _runs_above(path.rstrip("/"))
    for base, name in places:
        if "://" not in base and (pathlib.Path(base) / "run.json").is_file():
            return LocalDirectory(base), name
    missing: list[FileNotFoundError] = []
    for base, name in places:
        try:
            return open_directory(base, head), name
        except FileNotFoundError as error:
            missing.append(error)
            if isinstance(error.__cause__, HeadError) and not isinstance(error.__cause__, NotFound):
                break  # the head does not answer, so the directories further up are not looked for
    raise missing[0] if missing else FileNotFoundError(f"{path} lies in no run's directory")


def _runs_above(path: str) -> list[tuple[str, str]]:
    """Returns the directories above the path that may be a run's directory, the nearest first, each with the rest of
    the path. A bucket itself is not a run.
    """
    scheme, _, rest = path.rpartition("://")
    parts = rest.split("/")
    least = 2 if _buckets.kind_of(path) else 1
    nearest = range(len(parts) - 1, max(least, len(parts) - _checkpoint_names.PARTS_MOST) - 1, -1)
    runs = [("/".join(parts[:count]), "/".join(parts[count:])) for count in nearest]
    return [(f"{scheme}://{run}" if scheme else run, name) for run, name in runs if run]


def _behind_the_head(path: str, head: Head | None) -> RunDirectory:
    missing = FileNotFoundError(f"Experiment folder {path} doesn't exist.")
    try:
        head_in_use = head or Head.current()
        runs = head_in_use.items("/v1/runs", {"name": path.rsplit("/", maxsplit=1)[-1], "all": True})
    except HeadError as error:
        raise missing from error
    for run in runs:
        if run["run_path"] == path:
            return RemoteDirectory(path, head_in_use, f"/v1/runs/{part(run['run_id'])}/files")
    raise missing


def filesystem_of(path: str) -> Any:
    """Returns pyarrow's LocalFileSystem for a path. Returns None for a URI, since no pyarrow file system accepts it
    as a path, and without pyarrow.
    """
    if "://" in path:
        return None
    try:
        import pyarrow.fs  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        return None
    return pyarrow.fs.LocalFileSystem()


def full_metrics(head: Head, route: str, checkpoint: dict[str, Any], of_bucket: Bucket) -> dict[str, Any]:
    """Returns a checkpoint's metrics as they were reported. The head's record has only the numbers; the manifest has
    all metrics.
    """
    try:
        manifest = json.loads(head.content(f"{route}/files/{_quoted(checkpoint['directory'])}/{MANIFEST}"))
        metrics = _metrics.decode(manifest["metrics"])
    except (HeadError, ValueError, KeyError):
        metrics = of_bucket.metrics(str(checkpoint.get("path") or ""), checkpoint["directory"], checkpoint["metrics"])
    return metrics if isinstance(metrics, dict) else {}


class Bucket:
    """Reads manifests of runs in buckets, which the head cannot read. The first request for a run reads all manifests
    of that run.
    """

    def __init__(self) -> None:
        self._runs: dict[str, dict[str, dict[str, Any]]] = {}

    def metrics(self, path: str, name: str, otherwise: Any) -> Any:
        """Returns the metrics of the run's checkpoint `name` at `path`, or `otherwise` if they cannot be read. A
        driver may lack credentials.
        """
        run = path.removesuffix(f"/{name}")
        if _buckets.kind_of(path) and run not in self._runs:
            self._runs[run] = {}
            with contextlib.suppress(OSError, ValueError, KeyError, RuntimeError):
                self._runs[run] = manifests(BucketDirectory(run))
        manifest = self._runs.get(run, {}).get(name)
        return _metrics.decode(manifest["metrics"] if manifest else otherwise)


def manifests(directory: RunDirectory) -> dict[str, dict[str, Any]]:
    """Returns the manifest of each committed checkpoint, by directory name."""
    by_name = {}
    claims: list[str] | None = None
    for name, content in directory.like(f"*/{MANIFEST}").items():
        folder = name.rpartition("/")[0]
        deeper = "/" in folder
        if deeper and _checkpoint_names.path_fault_of(folder):
            continue
        # the name has no attempt, because the program has chosen it
        if deeper or not _checkpoint_names.has_attempt(folder):
            if claims is None:
                claims = _names_in(directory, "names")
            if f"names/{folder}" not in claims:
                continue
        if not folder.startswith("."):
            by_name[folder] = json.loads(content)
            if isinstance(kept := by_name[folder].get("metrics"), str):  # the manifest stores the metrics as a text
                by_name[folder]["metrics"] = json.loads(kept)
    return by_name


def _names_in(directory: RunDirectory, folder: str) -> list[str]:
    try:
        return directory.names(folder)
    except (FileNotFoundError, NotFound):
        return []
