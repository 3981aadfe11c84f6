"""DDP that makes one step; in the first start the last rank then dies. For rtrain and for torchrun: how long from a death to the
first step of the next start. The group is made by rtrain's call under both: torchrun keeps one store for all its starts, and a rank
that PyTorch's own call makes may find a dead peer's address there."""

import os
import signal
import time

begun = time.time()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from rtrain.train.torch import TorchConfig, get_device, setup_process_group  # noqa: E402
from worker_facts import ATTEMPT, RANK, tell  # noqa: E402

imported = time.time()

setup_process_group(TorchConfig(timeout_s=120))
grouped = time.time()
device = get_device()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8).to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(4, 8, device=device)).sum().backward()
optimizer.step()
if device.type == "cuda":
    torch.cuda.synchronize(device)
stepped = time.time()
dist.barrier()
if ATTEMPT == 1 and dist.get_world_size() - 1 == RANK:
    tell("died", at=time.time())
    os.kill(os.getpid(), signal.SIGKILL)
if ATTEMPT == 1:
    signal.pause()  # the process that started this one ends it
if RANK == 0:
    tell("stepped", begun=begun, imported=imported, grouped=grouped, at=stepped, backend=dist.get_backend())
dist.destroy_process_group()
os._exit(0)
