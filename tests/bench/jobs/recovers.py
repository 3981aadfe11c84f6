"""Trains with DDP until it is killed. Each rank writes its pid and the time of its first step into the given folder. With a
second argument it reports through rtrain, with a checkpoint each half second, and resumes from the newest one.
"""

import os
import pathlib
import sys
import tempfile
import threading
import time

import torch
import torch.distributed as dist

folder = pathlib.Path(sys.argv[1])
start = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
rank = int(os.environ["RANK"])
checkpoints = "checkpoints" in sys.argv[2:]
torch.manual_seed(1)
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
step = 0
if checkpoints:
    from rtrain import train

    if (checkpoint := train.get_checkpoint()) is not None:
        with checkpoint.as_directory() as directory:
            saved = torch.load(pathlib.Path(directory) / "state.pt")
            model.load_state_dict(saved["model"])
            step = saved["step"]


def note(what, text):
    """Writes a file atomically: it is complete once it has its name."""
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
        file.write(text)
    os.rename(file.name, folder / f"{what}-{start}-{rank}")


def save():
    with tempfile.TemporaryDirectory() as directory:
        if rank == 0:
            torch.save({"model": model.state_dict(), "step": step}, pathlib.Path(directory) / "state.pt")
        train.report({"step": step}, checkpoint=train.Checkpoint.from_directory(directory) if rank == 0 else None)


first, saved_at = True, 0.0
while True:
    optimizer.zero_grad()
    model(torch.ones(4, 64)).square().mean().backward()
    optimizer.step()
    step += 1
    if first:
        note("step", f"{time.time():.6f} {step}")
        note("pid", str(os.getpid()))
        first = False
    if checkpoints and step % 25 == 0:
        save()
    threading.Event().wait(0.02)
