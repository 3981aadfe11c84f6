"""A DDP loop of deterministic steps with a checkpoint each 2 s. At the end rank 0 writes the hash of the weights into the
given folder. Two runs end with the same weights, however often they were interrupted.
"""

import hashlib
import os
import pathlib
import sys
import tempfile
import threading
import time

import torch
import torch.distributed as dist
from rtrain import train

folder, steps, pause = pathlib.Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
rank = int(os.environ["RANK"])
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
dist.init_process_group("gloo")
torch.manual_seed(1)
model = torch.nn.parallel.DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
step = 0
if (checkpoint := train.get_checkpoint()) is not None:
    with checkpoint.as_directory() as directory:
        saved = torch.load(pathlib.Path(directory) / "state.pt")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    step = saved["step"]
saved_at = torch.tensor(time.monotonic())
while step < steps:
    data = torch.randn(32, 64, generator=torch.Generator().manual_seed(step * 1000 + rank))
    optimizer.zero_grad()
    model(data).square().mean().backward()
    optimizer.step()
    step += 1
    threading.Event().wait(pause)
    due = torch.tensor(float(rank == 0 and time.monotonic() - float(saved_at) >= 2))
    dist.broadcast(due, 0)  # all ranks report a checkpoint in the same step
    if not due:
        train.report({"step": step})
        continue
    saved_at = torch.tensor(time.monotonic())
    with tempfile.TemporaryDirectory() as directory:
        if rank == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(state, pathlib.Path(directory) / "state.pt")
        train.report({"step": step}, checkpoint=train.Checkpoint.from_directory(directory) if rank == 0 else None)
if rank == 0:
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + tensor.numpy().tobytes())
    (folder / "weights").write_text(digest.hexdigest())
dist.destroy_process_group()
