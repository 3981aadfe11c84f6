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
    """Yields a temporary file, which replaces `file` at the end of the block. An error in the block leaves `file` unchanged.

    durable: the content and the name are on disk when this returns. Raises OSError if the folder is not writable.
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
    """Replaces the content of `file`; see `replacing`."""
    with replacing(file, durable=durable) as out:
        out.write(content)


def create(file: pathlib.Path, content: bytes) -> bool:
    """Creates `file`. Returns False, and changes nothing, if it exists. The content is on disk afterwards; the name may not
    be.
    """
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
    """Writes the names in the folder to disk.

    Some file systems (FUSE, network shares) do not support fsync of directories: names are then as durable as that file
    system makes them. Raises OSError for any other failure.
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
