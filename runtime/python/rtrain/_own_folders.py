"""Temporary directories that belong to objects of this process. A directory is removed with its object, at the end of the
interpreter, or by `remove_all` before a process ends without its exit handlers.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref

_removals: dict[str, weakref.finalize[[str, int], object]] = {}


def new_folder(prefix: str) -> str:
    """Makes an empty directory. It is removed automatically only after a call of `belongs_to`."""
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
    """Removes the directory when `owner` is deleted or this process ends. The end of a forked child removes nothing."""
    _removals[folder] = weakref.finalize(owner, _remove, folder, os.getpid())


def remove_all() -> None:
    """Removes the remaining directories of this process. `os._exit` runs no exit handlers: call this before it."""
    for removal in list(_removals.values()):
        removal()


def _remove(folder: str, process: int) -> None:
    _removals.pop(folder, None)
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
