"""Ranks connect over the network by torch.distributed (gloo, MASTER_ADDR) and sum one number each."""

import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(total)
print(f"at {os.environ['MASTER_ADDR']} over {os.environ['GLOO_SOCKET_IFNAME']}: {total.item()}", flush=True)
dist.destroy_process_group()
