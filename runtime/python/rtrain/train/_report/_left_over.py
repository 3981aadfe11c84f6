"""Removes a reported directory once its report is made. The worker library does the same in
runtime/worker/removal.hpp.
"""

from __future__ import annotations

import fcntl
import os
import pathlib
import shutil
import sys
import time

from rtrain.train._run_directory import _shared_copy
from rtrain.train._values._checkpoint_names import MANIFEST

_TRIES = 1000  # number of tries to get the lock; each waits for a millisecond


class LeftOver:
    """A reported directory to be removed. Several ranks may report one directory, and one of them may already have
    made a new one with the same name. The object keeps the old directory open, so that its inode number is not
    reused.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)  # noqa: PTH100 - links are kept
        self._held = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def remove(self) -> None:
        """Renames the directory under a lock, if its name still belongs to it, and then removes it. If the rename
        fails, the directory and its files stay.
        """
        aside = os.path.join(os.path.dirname(self.path), f".rtrain-removed-{os.fstat(self._held).st_ino}")  # noqa: PTH118, PTH120
        try:
            self._lock()
            if self._is(self.path):
                os.rename(self.path, aside)  # noqa: PTH104
        except FileNotFoundError:
            pass  # another rank has removed the directory already
        except OSError as error:
            print(
                f"rtrain: the reported directory {self.path} stays: it cannot be renamed, to be removed: {error}", file=sys.stderr
            )
        self.close()
        shutil.rmtree(aside, ignore_errors=True)

    def _lock(self) -> None:
        """Locks the directory against renames by other ranks. On a file system without locks only the inode number
        is compared.
        """
        for tried in range(_TRIES):
            try:
                fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if tried == _TRIES - 1:
                    raise
                time.sleep(0.001)
            except OSError:
                return
            else:
                return

    def _is(self, path: str) -> bool:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(self._held))  # noqa: PTH116

    def close(self) -> None:
        """Closes and unlocks the directory without removing it."""
        if self._held >= 0:
            os.close(self._held)
            self._held = -1

    def __del__(self) -> None:
        self.close()


def _holds_checkpoints(directory: pathlib.Path, run_path: str) -> bool:
    """Returns whether the directory lies in the run's directory and contains checkpoints that were reported in place."""
    run = pathlib.Path(run_path).resolve()
    return "://" not in run_path and run in directory.parents and (run / "names" / directory.relative_to(run)).is_dir()


def is_needed(directory: str, run_path: str) -> bool:
    """Returns whether the directory must stay. It must if it is, contains or lies in a committed checkpoint, a run's
    directory, or a copy that processes of this machine share. It must also stay if it contains the current directory,
    the home, the Python or the run of this process. Returns True if that cannot be determined.
    """
    try:
        reported = pathlib.Path(directory).resolve()
        places = [pathlib.Path.cwd(), pathlib.Path.home(), pathlib.Path(sys.prefix), _shared_copy.of_this_user()]
        places += [] if "://" in run_path else [pathlib.Path(run_path)]
        above = (reported, *reported.parents)
        kept = [_shared_copy.of_this_user().resolve() in above, *((folder / MANIFEST).exists() for folder in above)]
        kept += [(reported / "run.json").exists(), *(True for _ in reported.glob("*/run.json"))]
        kept.append(_holds_checkpoints(reported, run_path))
        return any(kept) or any(reported in (path.resolve(), *path.resolve().parents) for path in places)
    # The working directory was removed, the home is unknown, or a directory cannot be read.
    except (OSError, RuntimeError):
        return True
