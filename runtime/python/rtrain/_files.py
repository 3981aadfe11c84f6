"""Files that appear whole: written beside their place and renamed, so that a reader finds the old one or the new one."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import secrets
from collections.abc import Iterator
from typing import BinaryIO


@contextlib.contextmanager
def replacing(file: pathlib.Path, *, durable: bool = False) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of `file` at the end of the block. An error in the block leaves `file` as it was.

    durable: the content and the name are on disk when this returns. OSError where the folder cannot be written.
    """
    beside = _name_beside(file)
    try:
        with beside.open("wb") as out:
            yield out
            if durable:
                out.flush()
                os.fsync(out.fileno())
        beside.replace(file)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(file.parent)


def replace(file: pathlib.Path, content: bytes, *, durable: bool = False) -> None:
    """`content` takes the place of what `file` holds; see `replacing`."""
    with replacing(file, durable=durable) as out:
        out.write(content)


def create(file: pathlib.Path, content: bytes) -> bool:
    """Makes `file`; False where it is there already, which then stays as it is. The content is on disk, its name may not be."""
    beside = _name_beside(file)
    try:
        with beside.open("wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        os.link(beside, file)
    except FileExistsError:
        return False
    finally:
        beside.unlink(missing_ok=True)
    return True


def sync_folder(folder: pathlib.Path) -> None:
    """The names in the folder are on disk when this returns.

    Some file systems (FUSE, network shares) have no fsync of directories and say so: there the names are as durable as that file
    system makes them. OSError for any other failure.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def _name_beside(file: pathlib.Path) -> pathlib.Path:
    return file.with_name(f".{file.name}.{secrets.token_hex(6)}")
