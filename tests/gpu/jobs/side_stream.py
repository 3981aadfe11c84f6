"""Batches through `prepare_data_loader`, copied while the device computes: are their values right, and does the copy overlap?
The host's batches lie in page-locked memory, so a copy can be asynchronous."""

import statistics
import time

import torch
from rtrain.train.torch import get_device, prepare_data_loader
from torch.utils.data import DataLoader, Dataset
from worker_facts import tell

device = get_device()
ON_GPU = device.type == "cuda"
COUNT, LENGTH = (48, 16 << 20) if ON_GPU else (8, 1 << 14)  # number of batches, and floats of each: 64 MiB on a GPU
ROUNDS = 5


class Batches(Dataset):
    """Yields batches from eight host buffers in turn. All places of a batch have one value, which differs between batches."""

    def __init__(self):
        self.buffers = [torch.full((LENGTH,), float(number)) for number in range(8)]
        if ON_GPU:
            self.buffers = [one.pin_memory() for one in self.buffers]

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return {"values": self.buffers[index % 8], "number": index}


def synchronize():
    if ON_GPU:
        torch.cuda.synchronize(device)


def epoch(loader, compute):
    """Returns (seconds of an epoch, the sums over each batch). Each batch is read only after the computation queued before
    it, and is dropped at once. If the side stream reused memory too early, the sums would be wrong.
    """
    sums = []
    synchronize()
    begin = time.perf_counter()
    for batch in loader:
        compute()
        sums.append(batch["values"].sum(dtype=torch.float64))
        del batch
    synchronize()
    return time.perf_counter() - begin, [float(one) for one in sums]


def computing(seconds):
    """Returns a function that keeps the device busy for about `seconds`."""
    square = torch.randn((2048, 2048) if ON_GPU else (64, 64), device=device)

    def products(count):
        for _ in range(count):
            square @ square

    products(3)
    synchronize()
    begin = time.perf_counter()
    products(20)
    synchronize()
    each = (time.perf_counter() - begin) / 20
    return lambda: products(max(1, round(seconds / each)))


def copy_seconds(batches):
    batches[0]["values"].to(device)
    synchronize()
    begin = time.perf_counter()
    for number in range(8):
        batches[number]["values"].to(device, non_blocking=True)
    synchronize()
    return (time.perf_counter() - begin) / 8


data = Batches()
one_copy = copy_seconds(data)
compute = computing(one_copy)
loaders = {
    ahead: prepare_data_loader(DataLoader(data, batch_size=None, shuffle=False), auto_transfer=ahead) for ahead in (True, False)
}
times, wrong = {True: [], False: []}, 0
wanted = [float(number % 8) * LENGTH for number in range(COUNT)]
for _ in range(ROUNDS):
    for ahead, loader in loaders.items():
        seconds, sums = epoch(loader, compute)
        times[ahead].append(seconds)
        wrong += sum(1 for a, b in zip(sums, wanted, strict=True) if a != b)
tell(
    "result",
    device=device.type,
    wrong=wrong,
    batches=COUNT * ROUNDS * 2,
    ahead=statistics.median(times[True]),
    plain=statistics.median(times[False]),
    copy=one_copy,
    bytes=LENGTH * 4,
)
