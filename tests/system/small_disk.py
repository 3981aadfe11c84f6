"""A disk of a few megabytes, and what fills it. Needs root."""

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
    """No more than `size` bytes are free."""
    way = disk / "in-the-way"
    with open(way, "wb", buffering=0) as file:
        fill(file)
        file.truncate(max(0, os.fstat(file.fileno()).st_size - size))
        yield
    way.unlink()


def fill(file):
    """Writes until nothing more goes in, in ever smaller pieces."""
    size = 1 << 20
    while size:
        try:
            file.write(b"x" * size)
        except OSError:
            size //= 2
