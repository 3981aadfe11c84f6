"""Decides whether a symbolic link of a working directory is packed as a link, followed, or left out.
storage/job_spec/archive/links.cpp has the same rules for `rtrain submit`. tests/link_cases.json runs against both.
"""

from __future__ import annotations

import errno
import os
import pathlib
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_HOPS_MOST = 40  # the most links that are followed for one path, as in the kernel


@dataclass(frozen=True)
class Folder:
    """A folder whose entries are being listed: its path in the archive ("" is the top), and its real path."""

    path: str
    real: pathlib.Path


@dataclass(frozen=True)
class Kept:
    """The link is packed as a link to `target`."""

    target: str


@dataclass(frozen=True)
class Followed:
    """The file or folder that the link names is packed in its place."""

    real: pathlib.Path


@dataclass(frozen=True)
class LeftOut:
    """The link is not packed."""

    why: str


def repository_of(top: pathlib.Path) -> pathlib.Path:
    """Returns the folder below which links are followed: the nearest one at or above `top`, a real path, with a
    `.git`. Returns `top` itself, so that no link is followed, if there is none, or if it is the home directory or
    the root.
    """
    home = pathlib.Path(os.path.realpath(os.environ["HOME"])) if os.environ.get("HOME") else None
    for folder in (top, *top.parents):
        if folder != folder.parent and os.path.lexists(folder / ".git"):
            return top if folder == home else folder
    return top


def fate_of(path: str, place: pathlib.Path, repository: pathlib.Path, folders: Sequence[Folder]) -> Kept | Followed | LeftOut:
    """Returns what becomes of the link with the path `path` in the archive. `place` is its real path. `folders` are the
    top and the followed folders above the link; the last one contains the link.
    """
    try:
        target = os.readlink(place)  # noqa: PTH115  # word for word
    except OSError as error:
        return LeftOut(f"cannot be read: {error.strerror}")
    if not posixpath.isabs(target) and _stays_in(folders[-1].path, path, target):
        return Kept(target)
    try:
        real = place.resolve(strict=True)
    except (OSError, RuntimeError) as error:  # before Python 3.13, a circle of links raises RuntimeError
        why = error.strerror if isinstance(error, OSError) else os.strerror(errno.ELOOP)
        return LeftOut(f"-> {target} leads out, and not to a file or folder: {why}")
    for folder in reversed(folders):
        if real.is_relative_to(folder.real):
            inner = posixpath.join("/", folder.path, str(real.relative_to(folder.real)))
            return Kept(posixpath.relpath(inner, posixpath.dirname(f"/{path}")))
    if not real.is_relative_to(repository):
        return LeftOut(f"-> {target} leads out of {repository}")
    if any(folder.real.is_relative_to(real) for folder in folders):
        return LeftOut(f"-> {target} leads to a folder that holds the link")
    return Followed(real)


def unsound(links: Mapping[str, str]) -> list[str]:
    """Returns the links of an archive (path to target) that lead out of it or form a circle, also through other
    links.
    """
    return sorted(path for path in links if not _stays_inside(path, links))


def _stays_in(base: str, path: str, target: str) -> bool:
    """Returns whether a relative target stays in the archive's folder `base`. Only the text is examined, not the files."""
    depth = len(_parts(posixpath.dirname(path))) - len(_parts(base))
    for part in _parts(target):
        depth += -1 if part == ".." else 1
        if depth < 0:
            return False
    return True


def _stays_inside(link: str, links: Mapping[str, str]) -> bool:
    parts_left, place, hops = _parts(link), "", 0
    while parts_left:
        part = parts_left.pop(0)
        if part == "..":
            if not place:
                return False
            place = posixpath.dirname(place)
            continue
        deeper = posixpath.join(place, part)
        if deeper not in links:
            place = deeper
            continue
        hops += 1
        if hops > _HOPS_MOST:
            return False
        place = "" if links[deeper].startswith("/") else place  # an absolute target starts at the archive's top
        parts_left = [*_parts(links[deeper]), *parts_left]
    return True


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
