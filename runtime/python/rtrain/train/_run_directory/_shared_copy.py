"""One copy per machine of a checkpoint that is stored elsewhere. Readers share it, and the last one removes it.

   <tmp>/rtrain-checkpoints-UID/     mode 0700 and owned by this user, or it is not used
       KEY.lock                      locked while a copy is looked for, made or removed
       KEY.copy/                     the files
       KEY.whole                     written last: the copy is complete, and made in this boot
       KEY.readers/PROCESS-NUMBER    locked by its reader while it reads

KEY is a hash of the source's content. So an old copy of a killed reader is not used for a source that has changed.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import pathlib
import shutil
import stat
import tempfile
import warnings
from collections.abc import Callable, Iterator

_numbers = itertools.count()


@contextlib.contextmanager
def turn(lock: pathlib.Path) -> Iterator[None]:
    lock.parent.mkdir(parents=True, exist_ok=True)
    held = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        fcntl.flock(held, fcntl.LOCK_UN)  # unlocked explicitly, since a forked child may hold the descriptor too
        os.close(held)


@contextlib.contextmanager
def shared_copy(key: str, fetch: Callable[[pathlib.Path], None]) -> Iterator[str]:
    """Gives the directory that `fetch` fills, or has filled for another reader of the same key."""
    base = _place()
    if base is None:
        with tempfile.TemporaryDirectory(prefix="rtrain-checkpoint-") as own:
            fetch(pathlib.Path(own))
            yield own
        return
    copy, readers, reader = base / f"{key}.copy", base / f"{key}.readers", f"{os.getpid()}-{next(_numbers)}"
    _sweep(base)
    with turn(base / f"{key}.lock"):
        if not _whole(base, key):
            _remove(base, key)
            copy.mkdir()
            try:
                fetch(copy)
            except BaseException:
                _remove(base, key)
                raise
            (base / f"{key}.whole").write_text(_boot())
        readers.mkdir(exist_ok=True)
        reading = os.open(readers / reader, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(reading, fcntl.LOCK_EX)
    try:
        yield str(copy)
    finally:
        with turn(base / f"{key}.lock"):
            (readers / reader).unlink(missing_ok=True)
            fcntl.flock(reading, fcntl.LOCK_UN)
            os.close(reading)
            if not _read(readers):
                _remove(base, key)


def of_this_user() -> pathlib.Path:
    return pathlib.Path(tempfile.gettempdir()) / f"rtrain-checkpoints-{os.getuid()}"


def _place() -> pathlib.Path | None:
    """Returns the folder of this user's copies. Returns None if another user owns the name; then each reader makes
    its own copy.
    """
    base = of_this_user()
    with contextlib.suppress(FileExistsError):
        base.mkdir(mode=0o700, parents=True)
    facts = base.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o022:
        warnings.warn(
            f"{base} is not a directory that only this user writes to, so checkpoints are not shared between processes: remove it",
            stacklevel=2,
        )
        return None
    if facts.st_mode & 0o077:  # an older version made the folder with another mode
        base.chmod(0o700)
    return base


def _boot() -> str:
    return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text()


def _whole(base: pathlib.Path, key: str) -> bool:
    """Returns whether the copy is complete. After a crash of the machine, files may not have reached the disk. A user
    may also have removed files.
    """
    try:
        return (base / f"{key}.whole").read_text() == _boot() and (base / f"{key}.copy").is_dir()
    except FileNotFoundError:
        return False


def _remove(base: pathlib.Path, key: str) -> None:
    (base / f"{key}.whole").unlink(missing_ok=True)
    for kind in ("copy", "readers"):
        shutil.rmtree(base / f"{key}.{kind}", ignore_errors=True)


def _read(readers: pathlib.Path) -> bool:
    """Returns whether some process reads the copy. The lock of a killed reader no longer exists."""
    for reader in readers.iterdir() if readers.is_dir() else ():
        with reader.open() as seen:
            try:
                fcntl.flock(seen, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            reader.unlink(missing_ok=True)
    return False


def _sweep(base: pathlib.Path) -> None:
    """Removes copies whose readers were all killed."""
    for copy in base.glob("*.copy"):
        with (base / f"{copy.stem}.lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            if not _read(base / f"{copy.stem}.readers"):
                _remove(base, copy.stem)
