"""A disk whose writes block until it is released: a frozen ext4 in a file. Needs root and loop devices."""

import contextlib
import os
import pathlib
import subprocess


def possible():
    return os.geteuid() == 0 and pathlib.Path("/dev/loop-control").exists()


class StallingDisk:
    def __init__(self, place):
        self.place = place
        self.stalls = False

    def stall(self):
        subprocess.run(["fsfreeze", "-f", str(self.place)], check=True)
        self.stalls = True

    def go_on(self):
        if self.stalls:
            subprocess.run(["fsfreeze", "-u", str(self.place)], check=True)
        self.stalls = False


@contextlib.contextmanager
def stalling_disk(place, megabytes=128):
    """Mounts the disk at `place` and releases its writes when the block ends, so that blocked daemons can be stopped."""
    place.mkdir()
    image = place.with_suffix(".image")
    with open(image, "wb") as file:
        file.truncate(megabytes << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True)
    disk = StallingDisk(place)
    try:
        yield disk
    finally:
        disk.go_on()
        subprocess.run(["umount", "-l", str(place)], check=True)
