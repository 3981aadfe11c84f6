"""Trains a small model by DistributedDataParallel; one rank takes longer for each step. It reports rarely and writes no
files.

usage: slow_rank.py SLOW_RANK SLOWER_BY_S STEPS_A_REPORT
"""

import itertools
import sys
import threading

import torch
from rtrain import train
from rtrain.train import torch as rt

slow, slower_by_s, steps = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
rank = train.get_context().get_world_rank()
torch.set_num_threads(1)
model = rt.prepare_model(torch.nn.Linear(16, 1))
for step in itertools.count(1):
    loss = model(torch.ones(4, 16)).mean()
    threading.Event().wait(0.02 + (slower_by_s if rank == slow else 0))
    loss.backward()
    if step % steps == 0:
        train.report({"step": step})
