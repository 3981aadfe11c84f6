"""Lists the files of a working directory that are packed. storage/job_spec/archive/walk.cpp does the same for
`rtrain submit`.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field

from rtrain.train._archive import _ignore, _links

_COUNTED_MAX = 300_000  # the most files that are counted in search of the folder with most files


class Unreadable(OSError):
    """A folder of the working directory cannot be listed."""


@dataclass(frozen=True)
class Entry:
    """A file, a folder or a link. `path`: its path in the archive; `source`: its path on this machine; `target`: the
    target of a link.
    """

    path: str
    source: pathlib.Path
    target: str | None = None
    is_folder: bool = False


@dataclass
class Walk:
    entries: list[Entry] = field(default_factory=list)
    environments: list[str] = field(default_factory=list)  # folders of Python environments, which are not packed
    secrets: list[str] = field(default_factory=list)  # files that are not packed, since they may hold secrets
    # Links that lead out of the folder and special files, each with the reason why it is not packed.
    left_out: list[str] = field(default_factory=list)


def walk(directory: pathlib.Path, always_ignored: Iterable[str], secret_files: Iterable[str]) -> Walk:
    """Returns the files below `directory` that no rule leaves out. Stops early above the limit of files that may be
    packed.
    """
    walker = _Walker(directory, tuple(always_ignored), tuple(secret_files))
    walker.folder(walker.folders[-1].real, "")
    return walker.finished()


class _Walker:
    def __init__(self, directory: pathlib.Path, always_ignored: tuple[str, ...], secret_files: tuple[str, ...]) -> None:
        self.folders = [_links.Folder("", directory.resolve())]
        self._repository = _links.repository_of(self.folders[0].real)
        self._rules = _ignore.Rules(always_ignored)
        self._hidden = _ignore.Rules(always_ignored)
        self._secret = _ignore.Rules(secret_files)
        self._walk = Walk()

    def finished(self) -> Walk:
        links = {entry.path: entry.target for entry in self._walk.entries if entry.target is not None}
        unsound = _links.unsound(links)
        self._walk.left_out += [f"{path} -> {links[path]} leads out by way of other links, or in a circle" for path in unsound]
        self._walk.entries = sorted(
            (entry for entry in self._walk.entries if entry.path not in unsound), key=lambda entry: entry.path
        )
        return self._walk

    def folder(self, folder: pathlib.Path, base: str) -> None:
        self._rules.read(folder, pathlib.Path(base))
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            if base and isinstance(error, FileNotFoundError):
                return  # the folder was removed meanwhile
            raise Unreadable(error.errno, error.strerror, str(folder)) from error
        for entry in entries:
            if len(self._walk.entries) > _COUNTED_MAX:
                return
            with contextlib.suppress(FileNotFoundError):  # the file was removed after the folder was listed
                mode = entry.stat(follow_symlinks=False).st_mode
                self._take(folder / entry.name, f"{base}/{entry.name}" if base else entry.name, mode)

    def _take(self, place: pathlib.Path, path: str, mode: int) -> None:
        is_folder = stat.S_ISDIR(mode)
        if self._rules.ignored(pathlib.Path(path), directory=is_folder) or (is_folder and _is_run(place)):
            return
        if is_folder and _is_environment(place):
            self._walk.environments.append(path)
        elif self._secret.ignored(pathlib.Path(path), directory=is_folder):
            self._walk.secrets.append(path + "/" * is_folder)
        elif stat.S_ISLNK(mode):
            self._link(place, path)
        else:
            self._add(place, path, mode)

    def _add(self, place: pathlib.Path, path: str, mode: int) -> None:
        if stat.S_ISDIR(mode):
            self._walk.entries.append(Entry(path, place, is_folder=True))
            self.folder(place, path)
        elif stat.S_ISREG(mode):
            self._walk.entries.append(Entry(path, place))
        else:
            self._walk.left_out.append(f"{path} {_special(mode)}")

    def _link(self, place: pathlib.Path, path: str) -> None:
        fate = _links.fate_of(path, place, self._repository, self.folders)
        if isinstance(fate, _links.LeftOut):
            self._walk.left_out.append(f"{path} {fate.why}")
        elif isinstance(fate, _links.Kept):
            self._walk.entries.append(Entry(path, place, fate.target))
        else:
            self._follow(place, path, fate.real)

    def _follow(self, place: pathlib.Path, path: str, real: pathlib.Path) -> None:
        """Lists the target of a link under the link's path. An ignore rule that matches either path applies."""
        mode = real.stat().st_mode
        is_folder = stat.S_ISDIR(mode)
        if is_folder and (self._rules.ignored(pathlib.Path(path), directory=True) or _is_run(real)):
            return
        if self._fits(self._secret, real, is_folder=is_folder) or self._secret.ignored(pathlib.Path(path), directory=True):
            self._walk.secrets.append(path)
        elif self._fits(self._hidden, real, is_folder=is_folder) or (is_folder and _is_environment(real)):
            self._walk.left_out.append(f"{path} -> {place.readlink()} leads to what never travels")
        else:
            self.folders.append(_links.Folder(path, real))
            self._add(real, path, mode)
            self.folders.pop()

    def _fits(self, rules: _ignore.Rules, real: pathlib.Path, *, is_folder: bool) -> bool:
        """Returns whether the rules match a path of the repository, or a folder above it."""
        inside = real.relative_to(self._repository)
        above = [folder for folder in inside.parents if folder != pathlib.Path()]
        return rules.ignored(inside, directory=is_folder) or any(rules.ignored(folder, directory=True) for folder in above)


def _special(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "is a FIFO"
    if stat.S_ISSOCK(mode):
        return "is a socket"
    if stat.S_ISBLK(mode) or stat.S_ISCHR(mode):
        return "is a device"
    return "is neither a file, a folder nor a link"


def _is_environment(folder: pathlib.Path) -> bool:
    """Returns whether a folder is a Python environment (of venv, virtualenv, uv or conda, under any name). Environments
    are not packed, since nodes have their own.
    """
    return (folder / "pyvenv.cfg").is_file() or (folder / "conda-meta").is_dir()


def _is_run(folder: pathlib.Path) -> bool:
    """Returns whether a folder is a run's directory. A storage path inside of the project is not part of the
    project.
    """
    return (folder / "run.json").is_file() and (folder / "attempts").is_dir()
