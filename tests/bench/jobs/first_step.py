"""Two-worker DDP up to the first optimizer step; rank 0 prints the wall time of that step."""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(4, 8)).sum().backward()
optimizer.step()
if dist.get_rank() == 0:
    print(f"first_step {time.time():.6f}", flush=True)
dist.destroy_process_group()
os._exit(0)
