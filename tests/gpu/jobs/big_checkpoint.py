"""Saves a large checkpoint from the device, copies the same file plainly, reports it, and dies once it is committed. The
next attempt compares its checkpoint with the saved data byte for byte. usage: big_checkpoint.py BYTES
"""

import os
import pathlib
import shutil
import signal
import sys
import time

import torch
from rtrain import train
from rtrain.train.torch import get_device
from worker_facts import FOLDER, tell

TOTAL = int(sys.argv[1])
PIECE = min(250_000_000, TOTAL)
PIECES = TOTAL // PIECE
device = get_device()


def piece(number):
    """Bytes that no other piece has, the same in every process."""
    chance = torch.Generator(device=device).manual_seed(number)
    return torch.randint(0, 256, (PIECE,), dtype=torch.uint8, device=device, generator=chance)


def timed(action):
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def plain_copy(file):
    """Makes a copy that is on disk, as a committed checkpoint is."""
    target = FOLDER / "copy.pt"
    shutil.copyfile(file, target)
    with open(target, "rb") as copied:
        os.fsync(copied.fileno())


def save():
    state = {f"piece-{number}": piece(number) for number in range(PIECES)}
    with train.checkpoint_dir() as folder:
        file = pathlib.Path(folder) / "state.pt"
        saving = timed(lambda: torch.save(state, file))
        os.sync()
        copying = timed(lambda: plain_copy(file))
        (FOLDER / "copy.pt").unlink()
        checkpoint = train.Checkpoint.from_directory(folder)
        blocked = timed(lambda: train.report({"piece": PIECES}, checkpoint=checkpoint))
    committing = timed(train.flush)
    tell("saved", bytes=PIECES * PIECE, save=saving, copy=copying, blocked=blocked, commit=committing, device=device.type)
    os.kill(os.getpid(), signal.SIGKILL)


def restore(checkpoint):
    begin = time.perf_counter()
    with checkpoint.as_directory() as folder:
        state = torch.load(f"{folder}/state.pt", map_location="cpu", mmap=True, weights_only=True)
        equal = 0
        for number in range(PIECES):
            back = state[f"piece-{number}"].to(device)
            equal += PIECE if torch.equal(back, piece(number)) else int((back == piece(number)).sum())
    tell("result", equal=equal, pieces=len(state), seconds=time.perf_counter() - begin, metrics=checkpoint.metrics)


checkpoint = train.get_checkpoint()
if checkpoint is None:
    save()
else:
    restore(checkpoint)
