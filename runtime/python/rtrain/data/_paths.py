"""Finds the files to read, in a fixed order, from a user's paths: a file, a list, a folder, a glob or a URI."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyarrow import fs

from rtrain.data import _folders

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True)
class Files:
    system: Any
    paths: list[str]
    sizes: list[int]

    @property
    def local(self) -> bool:
        return isinstance(self.system, fs.LocalFileSystem)

    @property
    def far(self) -> bool:
        """Returns True if reading the files has the latency of a network."""
        base = self.system.base_fs if isinstance(self.system, fs.SubTreeFileSystem) else self.system
        return not isinstance(base, fs.LocalFileSystem)

    def says(self) -> str:
        return self.paths[0] if len(self.paths) == 1 else f"{len(self.paths)} files"


def find(reader: str, paths: Paths, filesystem: Any, endings: _folders.Endings) -> Files:
    """Returns the files to read. In folders these are the files with the given endings that are not hidden.

    FileNotFoundError names a missing path. A warning names the other files of a folder.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise ValueError(f"{reader}: no path is given")
    system = _system(filesystem)
    entries: list[Any] = []
    for given_path in given:
        if not isinstance(given_path, str | os.PathLike):
            raise TypeError(f"{reader}: a path is a text or a pathlib.Path, not {type(given_path).__name__}")
        own, path = _located(os.fspath(given_path), system)
        if entries and type(own) is not type(entries[0][0]):
            raise ValueError(
                f"{reader}: {os.fspath(given_path)} lies on another file system than {os.fspath(given[0])}; read each apart and `union` them"
            )
        entries.extend((own, info) for info in _expanded(reader, own, path, os.fspath(given_path), endings))
    return Files(entries[0][0], [info.path for _, info in entries], [info.size or 0 for _, info in entries])


def _system(given: Any) -> Any:
    """Returns a pyarrow file system. A file system of fsspec is wrapped."""
    if given is None or isinstance(given, fs.FileSystem):
        return given
    if hasattr(given, "protocol") and hasattr(given, "find"):
        return fs.PyFileSystem(fs.FSSpecHandler(given))
    raise TypeError(f"filesystem is a {type(given).__name__}; it is a pyarrow.fs.FileSystem or one of fsspec's")


def _located(path: str, system: Any) -> tuple[Any, str]:
    if system is not None:
        return system, re.sub(r"^[a-z0-9+.-]+://", "", path)
    if re.match(r"^[a-z][a-z0-9+.-]+://", path):
        filesystem, inner = fs.FileSystem.from_uri(path)
        return filesystem, str(inner)
    return fs.LocalFileSystem(), str(os.path.abspath(os.path.expanduser(path)))  # noqa: PTH100, PTH111


def _expanded(reader: str, system: Any, path: str, given: str, endings: _folders.Endings) -> list[Any]:
    info = system.get_file_info(path)
    if info.type == fs.FileType.File:
        return [info]
    if info.type == fs.FileType.Directory:
        return _folders.files_below(reader, system, path, given, endings)
    if any(letter in path for letter in "*?["):
        matches = _globbed(system, path)
        if matches:
            return [file for match in matches for file in _expanded(reader, system, match.path, match.path, endings)]
        raise FileNotFoundError(f"{reader}: nothing fits {given}")
    raise FileNotFoundError(
        f"{reader}: {given} does not exist here. Where only the workers see it, give the trainer a function: "
        f"datasets={{'train': lambda: rtrain.data.{reader}(...)}}"
    )


def _globbed(system: Any, pattern: str) -> list[Any]:
    """Returns the matches of a pattern: `*` within a name, `**` over folders. As in a shell, a name that begins with a dot only
    matches a pattern that does. Files below a matching folder are not returned, so that no file is read twice."""
    fixed = pattern[: min(pattern.index(letter) for letter in "*?[" if letter in pattern)]
    base = fixed.rpartition("/")[0] or "/"
    selector = fs.FileSelector(base, recursive="/" in pattern[len(base) + 1 :], allow_not_found=True)
    expression = re.compile("".join(_translated(piece) for piece in re.split(r"(\*\*/|/)", pattern.lstrip("/"))))
    fitting = [info for info in system.get_file_info(selector) if expression.fullmatch(info.path.lstrip("/"))]
    entries: list[Any] = []
    for info in sorted(fitting, key=lambda info: str(info.path).split("/")):
        above = entries[-1] if entries else None
        if above is None or above.type != fs.FileType.Directory or not info.path.startswith(above.path.rstrip("/") + "/"):
            entries.append(info)
    return sorted(entries, key=lambda info: str(info.path))


def _translated(piece: str) -> str:
    if piece == "**/":
        return r"(?:(?!\.)[^/]+/)*"
    if piece == "/":
        return "/"
    inner = re.sub(r"\\Z$|\\z$", "", fnmatch.translate(piece))
    not_hidden = r"(?!\.)" if piece[:1] in ("*", "?", "[") else ""
    return not_hidden + re.sub(r"(?<!\\)\.\*", "[^/]*", inner)


def located(path: str, filesystem: Any) -> tuple[Any, str]:
    """Returns the file system of a path, and the path on it."""
    return _located(path, _system(filesystem))
