"""A disk of a few megabytes and functions that fill it. Needs root."""

import contextlib
import os
import subprocess


@contextlib.contextmanager
def small_disk(place, size):
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "small", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@contextlib.contextmanager
def room_for(disk, size):
    """Leaves at most `size` bytes free on the disk until the block ends."""
    way = disk / "in-the-way"
    with open(way, "wb", buffering=0) as file:
        fill(file)
        file.truncate(max(0, os.fstat(file.fileno()).st_size - size))
        yield
    way.unlink()


def fill(file):
    """Writes in ever smaller pieces until the disk is full."""
    size = 1 << 20
    while size:
        try:
            file.write(b"x" * size)
        except OSError:
            size //= 2
