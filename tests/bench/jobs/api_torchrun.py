"""The loop of api_driver.py's `first` as a torchrun script; rank 0 prints the wall time after its first collective."""

import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
ones = torch.ones(1)
dist.all_reduce(ones)
dist.barrier()
if dist.get_rank() == 0:
    print(f"first_report {time.time():.6f}", flush=True)
dist.destroy_process_group()
