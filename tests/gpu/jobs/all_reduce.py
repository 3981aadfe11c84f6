"""The ranks connect and exchange values that prove each rank's identity."""

import time

import torch
import torch.distributed as dist
from rtrain.train.torch import TorchConfig, get_device, setup_process_group, shutdown_process_group
from worker_facts import RANK, tell

LENGTH = 1_000_000

begin = time.monotonic()
setup_process_group(TorchConfig(timeout_s=120))
device = get_device()
own = torch.arange(LENGTH, dtype=torch.float64, device=device) + RANK * 1000
world = dist.get_world_size()
total = own.clone()
dist.all_reduce(total)
gathered = [torch.empty(1, dtype=torch.float64, device=device) for _ in range(world)]
dist.all_gather(gathered, own[:1].clone())
sent = own[:3].clone()
dist.broadcast(sent, world - 1)
dist.barrier()
wanted = torch.arange(LENGTH, dtype=torch.float64) * world + 1000 * world * (world - 1) / 2
tell(
    "result",
    backend=dist.get_backend(),
    device=total.device.type,
    world=world,
    difference=float((total.cpu() - wanted).abs().max()),
    gathered=[float(one) for one in gathered],
    sent=sent.tolist(),
    seconds=time.monotonic() - begin,
)
shutdown_process_group()
