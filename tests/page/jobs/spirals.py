"""Trains a small model by DistributedDataParallel to tell two spirals from each other. One rank is slow; another one is
killed in the first attempt, behind a checkpoint.

usage: spirals.py STEPS SLOW_RANK SLOWER_BY_S KILLED_RANK KILLED_AT_STEP
"""

import os
import pathlib
import signal
import sys
import threading

import torch
from rtrain import train
from rtrain.train import torch as rt

steps, slow = int(sys.argv[1]), int(sys.argv[2])
slower_by_s = float(sys.argv[3])
killed, killed_at = int(sys.argv[4]), int(sys.argv[5])
rank = train.get_context().get_world_rank()
torch.set_num_threads(1)
torch.manual_seed(0)


def batch(random, count=64):
    """Points of both spirals with some noise, shaped (count, 2), and which spiral each is from, shaped (count, 1)."""
    turn = torch.rand(count, generator=random)
    spiral = torch.randint(0, 2, (count,), generator=random)
    angle = 7 * turn + torch.pi * spiral
    points = turn[:, None] * torch.stack([angle.cos(), angle.sin()], 1) * 3 + 0.02 * torch.randn(count, 2, generator=random)
    return points, spiral[:, None].float()


plain = torch.nn.Sequential(
    torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)
)
first, checkpoint = 0, train.get_checkpoint()
if checkpoint is not None:
    with checkpoint.as_directory() as folder:
        state = torch.load(pathlib.Path(folder) / "state.pt", weights_only=True)
    plain.load_state_dict(state["model"])
    first = state["step"]
model = rt.prepare_model(plain)
optimizer = torch.optim.Adam(model.parameters(), lr=0.006)
random = torch.Generator().manual_seed(1000 * first + rank)
validation = batch(torch.Generator().manual_seed(1), 512)
for step in range(first + 1, steps + 1):
    points, spiral = batch(random)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(model(points), spiral)
    threading.Event().wait(0.1 + (slower_by_s if rank == slow else 0))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        right = ((plain(validation[0]) > 0) == (validation[1] > 0.5)).float().mean().item()
    metrics = {"step": step, "loss": loss.item(), "accuracy": right}
    if rank == killed and step == killed_at and checkpoint is None:
        os.kill(os.getpid(), signal.SIGKILL)
    if step % 20 != 0 or rank != 0:
        train.report(metrics)
        continue
    with train.checkpoint_dir() as directory:
        torch.save({"model": plain.state_dict(), "step": step}, pathlib.Path(directory) / "state.pt")
        train.report(metrics, checkpoint=train.Checkpoint.from_directory(directory))
