"""Selects the files of a folder that are read, and warns about the others."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import pathlib
import posixpath
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyarrow import fs

from rtrain._arguments import _callers_level

COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4", ".br": "brotli"}
# Files without rows that other programs write beside data.
_MARKERS = (
    "_SUCCESS",
    "_metadata",
    "_common_metadata",
    "_committed_*",
    "_started_*",
    "_delta_log",
    ".*.crc",
    ".*.incomplete",
    ".DS_Store",
    ".git*",
)
_NAMED = 3  # file names in a message, at most


def compressed(suffixes: Sequence[str]) -> tuple[str, ...]:
    """Returns the suffixes, and each suffix followed by that of a compression."""
    return tuple(suffix + compression for suffix in suffixes for compression in ("", *COMPRESSIONS))


@dataclass(frozen=True)
class Endings:
    """The suffixes of a folder's files (none: any). If the user set them, other files cause no warning."""

    suffixes: tuple[str, ...] = ()
    chosen_by_user: bool = False

    def __str__(self) -> str:
        return " or ".join(suffix for suffix in self.suffixes if not suffix.endswith(tuple(COMPRESSIONS)) or self.chosen_by_user)


def files_below(reader: str, system: Any, path: str, given: str, endings: Endings) -> list[Any]:
    """Returns the files below a folder that have one of these suffixes and are not hidden, ordered by path. FileNotFoundError
    if there is none. A warning reports the number of other files."""
    files_of_folder = _Found(path, endings)
    listed = (
        _local(path) if isinstance(system, fs.LocalFileSystem) else system.get_file_info(fs.FileSelector(path, recursive=True))
    )
    for info in sorted(listed, key=lambda info: str(info.path)):
        files_of_folder.add(info)
    if isinstance(system, fs.LocalFileSystem):
        files_of_folder.drop_second_paths()
    if not files_of_folder.fitting:
        files = files_of_folder.other
        there = f"has {len(files)} other files ({posixpath.basename(files[0])} ...)" if files else "is empty"
        suffix_text = f" with the suffix {endings}" if endings.suffixes else ""
        raise FileNotFoundError(f"{reader}: the folder {given} has no file{suffix_text}; it {there}")
    files_of_folder.tell(reader, given)
    return files_of_folder.fitting


@dataclass
class _Found:
    root: str
    endings: Endings
    fitting: list[Any] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    no_files: list[str] = field(default_factory=list)
    second_paths: list[str] = field(default_factory=list)

    def add(self, info: Any) -> None:
        inner = self._inner(info)
        if info.type == fs.FileType.Directory or _is_marker(inner):
            return
        fits = not self.endings.suffixes or inner.lower().endswith(self.endings.suffixes)
        if info.type != fs.FileType.File:
            self.no_files.append(inner)
        elif _hidden(inner):
            self.hidden.extend([inner] if fits else [])
        elif fits:
            self.fitting.append(info)
        else:
            self.other.append(inner)

    def drop_second_paths(self) -> None:
        """Removes links to files that are read by their own path or by another link."""
        root = os.path.realpath(self.root)
        real: dict[str, str] = {}
        for info in self.fitting:
            folder, name = posixpath.split(info.path)
            if folder not in real:
                real[folder] = os.path.realpath(folder)
            is_link = pathlib.Path(info.path).is_symlink()
            real[info.path] = os.path.realpath(info.path) if is_link else posixpath.join(real[folder], name)
        is_own = {info.path: real[info.path] == posixpath.join(root, self._inner(info)) for info in self.fitting}
        seen = {real[path] for path, own in is_own.items() if own}
        kept = []
        for info in self.fitting:
            if is_own[info.path] or real[info.path] not in seen:
                kept.append(info)
            else:
                self.second_paths.append(self._inner(info))
            seen.add(real[info.path])
        self.fitting = kept

    def _inner(self, info: Any) -> str:
        return str(info.path)[len(self.root) :].strip("/")

    def tell(self, reader: str, given: str) -> None:
        reasons = (
            (f"their names do not end with {self.endings}", [] if self.endings.chosen_by_user else self.other),
            ("their names, or those of their folders, begin with . or _", self.hidden),
            ("they are no files, or links that lead nowhere", self.no_files),
            ("they are links to files that are read already", self.second_paths),
        )
        left_out = [(why, names) for why, names in reasons if names]
        if left_out:
            left = sum(len(names) for _, names in left_out)
            because = "; ".join(
                f"{why} ({', '.join(names[:_NAMED])}{', ...' if len(names) > _NAMED else ''})" for why, names in left_out
            )
            hint = "; file_extensions= names other endings" if reasons[0][1] else ""
            message = f"{reader}: {left} of {left + len(self.fitting)} files of {given} were not read: {because}{hint}"
            warnings.warn(message, UserWarning, stacklevel=_callers_level())


def _hidden(inner: str) -> bool:
    return any(part.startswith((".", "_")) for part in inner.split("/") if part)


def _is_marker(inner: str) -> bool:
    return any(fnmatch.fnmatchcase(part, marker) for part in inner.split("/") for marker in _MARKERS)


def _local(root: str) -> Iterator[Any]:
    """Yields the files below a local folder. Links to folders are followed, except to a folder above; each target is read once."""
    followed: set[str] = set()
    waiting = [(root, {os.path.realpath(root)})]
    while waiting:
        folder, above = waiting.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.is_dir():
                    with contextlib.suppress(FileNotFoundError):  # Another process renamed the file.
                        size = entry.stat().st_size if entry.is_file() else -1
                        yield fs.FileInfo(entry.path, fs.FileType.File if size >= 0 else fs.FileType.Unknown, size=size)
                    continue
                target = os.path.realpath(entry.path)
                if entry.is_symlink() and (target in above or target in followed):
                    continue
                followed.update([target] if entry.is_symlink() else [])
                waiting.append((entry.path, above | {target}))
