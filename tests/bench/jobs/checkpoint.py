"""Measures how long report() blocks for a checkpoint of argv[1] MiB, in the caller's directory and in one of the SDK, beside
a plain copy of the same files on the same file system.
"""

import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import time

from rtrain import train

MIB = int(sys.argv[1])
BLOCK = os.urandom(1 << 20)


def write(folder):
    with open(pathlib.Path(folder) / "model.bin", "wb") as file:
        for _ in range(MIB):
            file.write(BLOCK)


def timed(action):
    begin = time.perf_counter()
    action()
    return (time.perf_counter() - begin) * 1e3


base = os.environ["RTRAIN_BENCH_FOLDER"]
copies, foreign, owned = [], [], []
for _ in range(3):
    with tempfile.TemporaryDirectory(dir=base) as folder:
        write(folder)
        target = tempfile.mkdtemp(dir=base)
        copies.append(timed(lambda folder=folder, target=target: shutil.copytree(folder, target, dirs_exist_ok=True)))
        shutil.rmtree(target)
        train.flush()
        checkpoint = train.Checkpoint.from_directory(folder)
        foreign.append(timed(lambda c=checkpoint: train.report({}, checkpoint=c)))
    with train.checkpoint_dir() as folder:
        write(folder)
        train.flush()
        given = train.Checkpoint.from_directory(folder)
        owned.append(timed(lambda c=given: train.report({}, checkpoint=c)))
middle = statistics.median
print(f"checkpoint_ms copy {middle(copies):.1f} foreign {middle(foreign):.1f} owned {middle(owned):.1f}", flush=True)
