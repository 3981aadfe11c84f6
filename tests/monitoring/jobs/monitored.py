"""A run with data for every panel. Each rank holds memory of its GPU (tests/gpu/stand_in), computes, sends bytes to itself
over TCP and writes files. Rank 1 fails once, after a checkpoint. Reports until it is stopped.

usage: monitored.py FOLDER
"""

import os
import pathlib
import socket
import sys
import threading
import time

from rtrain import data, train

STEP_BYTES = 1 << 20
folder = pathlib.Path(sys.argv[1])
rank = train.get_context().get_world_rank()
failed = folder / "failed"

uuids = os.environ["CUDA_VISIBLE_DEVICES"].split(",")  # UUIDs of the GPUs of all ranks on this node
gpu = pathlib.Path(os.environ["GPU_CHECK_STAND_IN"]) / uuids[train.get_context().get_local_rank()]
gpu.mkdir(exist_ok=True)
(gpu / str(os.getpid())).write_text(str(8 << 30))

listener = socket.create_server(("127.0.0.1", 0))
sender = socket.create_connection(listener.getsockname())
receiver, _ = listener.accept()


def carry():
    sender.sendall(bytes(STEP_BYTES // 16))
    left = STEP_BYTES // 16
    while left:
        left -= len(receiver.recv(left))


def slowly(row):
    threading.Event().wait(0.01)
    return row


batches = data.range(4).map(slowly)  # makes a rank wait for data


def checkpoint(step):
    with train.checkpoint_dir() as place:
        (pathlib.Path(place) / f"rank-{rank}.txt").write_text(str(step))
        train.report({"loss": 1 / step, "step": step}, checkpoint=train.Checkpoint.from_directory(place))


step = 0
while True:
    step += 1
    until = time.monotonic() + 0.05 * (rank + 1)
    while time.monotonic() < until:
        sum(range(1000))
    for _ in range(16):
        carry()
    for _ in batches.iter_batches(batch_size=4):
        pass
    with open(folder / f"written-by-{rank}", "wb") as file:
        file.write(os.urandom(STEP_BYTES))
        os.fsync(file.fileno())
    if rank == 1 and step == 8 and not failed.exists():
        failed.touch()
        sys.exit(3)
    if step % 4 == 0:
        checkpoint(step)
    else:
        train.report({"loss": 1 / step, "step": step})
    threading.Event().wait(0.1)
