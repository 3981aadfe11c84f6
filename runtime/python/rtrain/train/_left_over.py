"""A reported directory that goes once its report is made, as the worker library removes one (runtime/worker/removal.hpp)."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import time

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
            print(f"rtrain: the reported directory {self.path} stays: it cannot be renamed, to be removed: {error}", file=sys.stderr)
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
