"""Temporary directories, each of which belongs to an object of this process. A directory is removed with its object, when the
interpreter ends, and by `remove_all` before a process ends without that."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref

_removals: dict[str, weakref.finalize[[str, int], object]] = {}


def new_folder(prefix: str) -> str:
    """Makes an empty directory. `belongs_to` says who removes it; until then nobody does."""
    return tempfile.mkdtemp(prefix=prefix)


def copied(source: str, prefix: str) -> str:
    """Copies a directory into a new one, which is the caller's. A copy that fails leaves none."""
    folder = new_folder(prefix)
    try:
        return shutil.copytree(source, folder, dirs_exist_ok=True)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def belongs_to(owner: object, folder: str) -> None:
    """Removes the directory when `owner` is gone or this process ends. A forked child that ends removes nothing."""
    _removals[folder] = weakref.finalize(owner, _remove, folder, os.getpid())


def remove_all() -> None:
    """Removes the directories of this process that are still there. `os._exit` runs nothing at exit: call this before it."""
    for removal in list(_removals.values()):
        removal()


def _remove(folder: str, process: int) -> None:
    _removals.pop(folder, None)
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
