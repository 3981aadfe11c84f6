"""Trains a small network in float64 on shares of the same batches, once by each strategy. Reports the losses of every step
and the final weights. usage: sharded.py STEPS STRATEGY ...     STRATEGY: none, ddp, fsdp, fsdp2
"""

import sys
import traceback

import torch
import torch.distributed as dist
from rtrain.train.torch import TorchConfig, get_device, prepare_model, setup_process_group, shutdown_process_group
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from worker_facts import FOLDER, RANK, RUN, tell

STEPS = int(sys.argv[1])
ROWS, WIDTH, CLASSES, BATCH = 384, 64, 10, 48  # 1, 2, 3, 4, 6 or 8 ranks divide a batch evenly


def network():
    torch.manual_seed(0)
    layers = [nn.Linear(WIDTH, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, CLASSES)]
    return nn.Sequential(*layers).double()


def wrapped(model, strategy, device, world):
    """Wraps the model like `prepare_model`, which does not shard the model of a single worker: that one is sharded by
    torch's own calls.
    """
    if world > 1 or not strategy.startswith("fsdp"):
        kwargs = {"modules": nn.Linear} if strategy == "fsdp2" else None
        return prepare_model(model, parallel_strategy=None if strategy == "none" else strategy, parallel_strategy_kwargs=kwargs)
    model = model.to(device)
    if strategy == "fsdp":
        from torch.distributed.fsdp import FullyShardedDataParallel

        return FullyShardedDataParallel(model, device_id=device)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(device.type, (1,))
    for layer in (one for one in model if isinstance(one, nn.Linear)):
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def is_sharded(parameter):
    return type(parameter).__name__ in ("DTensor", "FlatParameter") or getattr(parameter, "_is_flat_param", False)


def train(strategy):
    device, world = get_device(), dist.get_world_size()
    data = torch.sin(torch.arange(ROWS * WIDTH, dtype=torch.float64).reshape(ROWS, WIDTH) * 0.37).to(device)
    labels = (torch.arange(ROWS) * 7 % CLASSES).to(device)
    model = wrapped(network(), strategy, device, world)
    sharded = sum(1 for one in model.parameters() if is_sharded(one))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    losses = []
    for step in range(STEPS):
        own = torch.arange(RANK, BATCH, world, device=device) + step * BATCH % ROWS
        loss = nn.functional.cross_entropy(model(data[own]), labels[own])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / world)
    weights = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if RANK == 0:
        torch.save({name: value.cpu() for name, value in weights.items()}, FOLDER / f"{RUN}-{strategy}.pt")
    tell(strategy, losses=losses, device=device.type, backend=dist.get_backend(), sharded=sharded, kind=type(model).__name__)


setup_process_group(TorchConfig(timeout_s=120))
for name in sys.argv[2:]:
    try:
        train(name)
    except Exception as error:
        traceback.print_exc()
        tell(name, error=f"{type(error).__name__}: {error}")
shutdown_process_group()
