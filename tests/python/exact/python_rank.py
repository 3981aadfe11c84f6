"""The training of tests/unit/torch/probe.cpp in PyTorch's own DistributedDataParallel: one rank of a mixed group.

usage: python_rank.py OUT LAST
"""

import sys

import torch
import torch.distributed as dist
from rtrain.train import tensors
from torch.nn.parallel import DistributedDataParallel

SAMPLES, PIXELS, HIDDEN, CLASSES, GLOBAL_BATCH = 320, 64, 512, 10, 32

out, last = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
data = torch.sin(torch.arange(SAMPLES * PIXELS, dtype=torch.float64).reshape(SAMPLES, PIXELS) * 0.37)
labels = torch.arange(SAMPLES) * 7 % CLASSES
torch.manual_seed(rank + 1)
net = torch.nn.Sequential(
    torch.nn.Linear(PIXELS, HIDDEN),
    torch.nn.Tanh(),
    torch.nn.Linear(HIDDEN, HIDDEN),
    torch.nn.Tanh(),
    torch.nn.Linear(HIDDEN, CLASSES),
).double()
parallel = DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
for step in range(last):
    begin = step * GLOBAL_BATCH % SAMPLES
    rows = torch.arange(begin + rank, begin + GLOBAL_BATCH, world)
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(parallel(data[rows]), labels[rows]).backward()
    optimizer.step()
state = {f"model.{name}": value for name, value in net.state_dict().items()}
tensors.save(f"{out}/rank{rank}", "state", state, {"step": last})
dist.barrier()
dist.destroy_process_group()
