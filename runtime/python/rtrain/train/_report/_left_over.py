"""A reported directory that goes once its report is made, as the worker library removes one (runtime/worker/removal.hpp)."""

from __future__ import annotations

import fcntl
import os
import pathlib
import shutil
import sys
import time

from rtrain.train._run_directory import _shared_copy
from rtrain.train._values._checkpoint_names import MANIFEST

_TRIES = 1000  # of a millisecond


class LeftOver:
    """Several ranks may report one directory, and the first of them may have made it anew for its next report: what lies under the name then is
    not this one. It is held open from now on, so its inode's number is nobody else's."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)  # noqa: PTH100 - links are kept
        self._held = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def remove(self) -> None:
        """Renamed under a lock if the name is still its own, then removed. What cannot be renamed keeps its files."""
        aside = os.path.join(os.path.dirname(self.path), f".rtrain-removed-{os.fstat(self._held).st_ino}")  # noqa: PTH118, PTH120
        try:
            self._lock()
            if self._is(self.path):
                os.rename(self.path, aside)  # noqa: PTH104
        except FileNotFoundError:
            pass  # another rank was quicker
        except OSError as error:
            print(
                f"rtrain: the reported directory {self.path} stays: it cannot be renamed, to be removed: {error}", file=sys.stderr
            )
        self.close()
        shutil.rmtree(aside, ignore_errors=True)

    def _lock(self) -> None:
        """Other ranks hold it for a rename. A file system without locks has the look alone."""
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
        """Unlocks it as well. It stays."""
        if self._held >= 0:
            os.close(self._held)
            self._held = -1

    def __del__(self) -> None:
        self.close()


def _holds_checkpoints(directory: pathlib.Path, run_path: str) -> bool:
    """It lies in the run's directory, and checkpoints that were reported in their place lie in it."""
    run = pathlib.Path(run_path).resolve()
    return "://" not in run_path and run in directory.parents and (run / "names" / directory.relative_to(run)).is_dir()


def is_needed(directory: str, run_path: str) -> bool:
    """Whether the directory must stay: it is a committed checkpoint, a run's, the copy of a checkpoint that this machine's processes share,
    or lies in or around one of these; or it holds the directory that this process works in, its home, its Python or the run's own. True
    also where that cannot be found out."""
    try:
        reported = pathlib.Path(directory).resolve()
        places = [pathlib.Path.cwd(), pathlib.Path.home(), pathlib.Path(sys.prefix), _shared_copy.of_this_user()]
        places += [] if "://" in run_path else [pathlib.Path(run_path)]
        above = (reported, *reported.parents)
        kept = [_shared_copy.of_this_user().resolve() in above, *((folder / MANIFEST).exists() for folder in above)]
        kept += [(reported / "run.json").exists(), *(True for _ in reported.glob("*/run.json"))]
        kept.append(_holds_checkpoints(reported, run_path))
        return any(kept) or any(reported in (path.resolve(), *path.resolve().parents) for path in places)
    except (OSError, RuntimeError):  # the working directory is gone, nobody knows the home, it may not be read
        return True
