"""Trains with DDP up to the first optimizer step, on GPUs if there are any. Rank 0 prints the wall time of that step."""

import os
import time

import torch
import torch.distributed as dist

on_gpu = torch.cuda.is_available()
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
if on_gpu:
    torch.cuda.set_device(device)
dist.init_process_group("nccl" if on_gpu else "gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8).to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(4, 8, device=device)).sum().backward()
optimizer.step()
if on_gpu:
    torch.cuda.synchronize()
if dist.get_rank() == 0:
    print(f"first_step {time.time():.6f}", flush=True)
dist.destroy_process_group()
os._exit(0)
