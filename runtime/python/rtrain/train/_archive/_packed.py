"""Packs a folder and prints which files are uploaded and which are not."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Sequence

from rtrain.train._archive import _package

_SHOWN_MOST = 10


def packed(directory: pathlib.Path, *, named: bool) -> _package.Archive:
    """Packs a folder as `_package.pack_directory` does, and prints its messages on stderr."""
    archive = _package.pack_directory(directory, named=named)
    without = f", without the environment{'s' * (len(archive.environments) > 1)} " + ", ".join(archive.environments)
    size = _size(len(archive.content))
    _say(f"{archive.directory} travels along: {archive.files} files, {size}{without if archive.environments else ''}")
    if archive.left_out:
        _say(f"left out: {_listed(archive.left_out, '; ')}. Give the program a path that its node has instead")
    if archive.secrets:
        _say(
            f"{_listed(archive.secrets, ', ')} may hold secrets and stay here; what the workers need of them goes by "
            f"RunConfig(secrets=), or all of the folder by a runtime_env with working_dir={str(directory)!r}"
        )
    return archive


def _listed(names: Sequence[str], separator: str) -> str:
    more = f" and {len(names) - _SHOWN_MOST} more" if len(names) > _SHOWN_MOST else ""
    return separator.join(names[:_SHOWN_MOST]) + more


def _say(text: str) -> None:
    print(f"rtrain: {text}", file=sys.stderr, flush=True)


def _size(count: int) -> str:
    return f"{count / (1 << 20):.1f} MiB" if count >= 1 << 20 else f"{max(count // 1024, 1)} KiB"
