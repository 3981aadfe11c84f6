"""Each function runs on both ranks, in this order. The program prints their results as one JSON line."""

import json
import os
import random

import accelerate
import numpy
import torch
import torch.distributed as dist
from rtrain.train import _session, torch as rt
from rtrain.train._values import _shares
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, Sampler, TensorDataset, WeightedRandomSampler

SAMPLES = 10


def numbers(count=SAMPLES):
    return TensorDataset(torch.arange(count))


def delivered(loader):
    return [batch[0].tolist() for batch in loader]


class Noise(torch.utils.data.Dataset):
    """A dataset whose items depend on the worker process that made them."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return index, random.random(), float(numpy.random.rand()), torch.rand(()).item()


class Endless(IterableDataset):
    def __iter__(self):
        return iter(range(3))


class Pairs(Sampler):
    """A custom batch sampler: pairs of neighbours, in a random order."""

    def __iter__(self):
        for place in torch.randperm(5).tolist():
            yield [2 * place, 2 * place + 1]

    def __len__(self):
        return 5


def group():
    rt.setup_process_group(rt.TorchConfig(timeout_s=60))
    return [dist.get_world_size(), dist.get_rank(), dist.get_backend(), os.environ["ACCELERATE_TORCH_DEVICE"]]


def model_strategies():
    kinds = {}
    for strategy in ("DDP", "Fsdp2", None):
        torch.manual_seed(dist.get_rank())
        network = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
        inner = {"modules": nn.Linear} if strategy == "Fsdp2" else {}
        try:
            model = rt.prepare_model(network, parallel_strategy=strategy, parallel_strategy_kwargs=inner)
        except RuntimeError as refused:
            kinds[str(strategy)] = [str(refused)]
            continue
        model(torch.full((3, 4), 1.0 + dist.get_rank())).sum().backward()
        gradient = next(model.parameters()).grad
        whole = gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient
        kinds[str(strategy)] = [type(model).__name__, list(model.module.state_dict()), round(whole.sum().item(), 5)]
    return kinds


def ddp_options():
    model = rt.prepare_model(nn.Linear(2, 2), parallel_strategy_kwargs={"find_unused_parameters": True})
    return [model.find_unused_parameters, isinstance(model.module, nn.Linear)]


def plain_and_shuffled():
    plain = rt.prepare_data_loader(DataLoader(numbers(), 2))
    shuffled = rt.prepare_data_loader(DataLoader(numbers(), 2, shuffle=True, drop_last=True))
    epochs = []
    for epoch in (0, 1, 0):
        shuffled.sampler.set_epoch(epoch)
        epochs.append(delivered(shuffled))
    return {"plain": delivered(plain), "len": len(plain), "epochs": epochs, "batch_size": plain.batch_size}


def own_samplers():
    weights = [0.0] * 5 + [1.0] * 5
    weighted = rt.prepare_data_loader(DataLoader(numbers(), 5, sampler=WeightedRandomSampler(weights, SAMPLES)))
    pairs = rt.prepare_data_loader(DataLoader(numbers(), batch_sampler=Pairs()))
    grouped = rt.prepare_data_loader(DataLoader(numbers(), batch_sampler=BatchSampler(range(SAMPLES), 3, drop_last=False)))
    first = delivered(pairs)
    pairs.sampler.set_epoch(1)
    again = delivered(pairs)
    pairs.sampler.set_epoch(0)
    return {
        "weighted": delivered(weighted), "pairs": first, "other epoch": again, "first again": delivered(pairs),
        "grouped": delivered(grouped), "lengths": [len(weighted), len(pairs), len(grouped)],
    }  # fmt: skip


def shares():
    """A dataset of `get_dataset_shard` is split only once."""
    facts = _session.Facts(world_size=2, world_rank=dist.get_rank())
    loader = rt.prepare_data_loader(DataLoader(_shares.split(numbers(5), facts), 2))
    return delivered(loader)


def accelerated():
    """Accelerate finds the ranks by the variables that `setup_process_group` has set."""
    accelerator = accelerate.Accelerator()
    loader = accelerator.prepare(DataLoader(numbers(4), 1))
    total = accelerator.reduce(torch.tensor(1.0 + accelerator.process_index))
    return [accelerator.num_processes, str(accelerator.device), delivered(loader), total.item()]


def left_alone():
    stream = rt.prepare_data_loader(DataLoader(Endless(), 2))
    whole = rt.prepare_data_loader(DataLoader(numbers(4), 2), add_dist_sampler=False)
    twice = rt.prepare_data_loader(rt.prepare_data_loader(DataLoader(numbers(4), 2)))
    return [[batch.tolist() for batch in stream], delivered(whole), delivered(twice)]


def global_batches():
    batches = rt.GlobalBatches(11, size=5, micro_batch=2, drop_last=False)
    loader = rt.prepare_data_loader(DataLoader(numbers(11), batch_sampler=batches))
    model = rt.prepare_model(nn.Linear(1, 1))
    seen, gradients = [], []
    for (batch,), micro in batches.over(loader):
        with micro.sync(model):
            loss = (batch.float() * model(torch.ones(len(batch), 1)).squeeze(1)).mean()
            (loss * micro.weight).backward()
        if micro.weight:
            seen.append([micro.step, batch.tolist()])
        if micro.last:
            gradients.append(next(model.parameters()).grad.item())
            model.zero_grad()
    return {"seen": seen, "gradients": gradients, "len": len(loader), "order": batches._order()}


def reproducible():
    rounds = []
    for _ in range(2):
        rt.enable_reproducibility(3)
        loader = rt.prepare_data_loader(DataLoader(Noise(), 1, num_workers=2))
        rounds.append([[[value.item() for value in item] for item in loader] for _ in range(2)])
        torch.rand(7)
    torch.use_deterministic_algorithms(False)
    return rounds


def end():
    rt.shutdown_process_group()
    return dist.is_initialized()


STEPS = (
    group, model_strategies, ddp_options, plain_and_shuffled, own_samplers, left_alone, shares, accelerated, global_batches, reproducible, end,
)  # fmt: skip

if __name__ == "__main__":
    print(json.dumps({step.__name__: step() for step in STEPS}))
