"""Handwritten digits with PyTorch DDP: data-parallel, one checkpoint per epoch. A restarted run resumes from the newest one.

Runs under rtrain (`rtrain submit job.yaml`). EPOCHS (default 30) sets the length.
"""

import os
from typing import Any

import rtrain.train
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS = int(os.environ.get("EPOCHS", "30"))
BATCH = 16
TEST_IMAGES = 360


def data(device: torch.device) -> tuple[TensorDataset, TensorDataset]:
    """Returns the 1,797 images of scikit-learn, shuffled once. The last ones are for the test."""
    images, labels = load_digits(return_X_y=True)
    pixels = torch.tensor(images / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    whole = TensorDataset(pixels[order].to(device), torch.tensor(labels)[order].to(device))
    train = len(whole) - TEST_IMAGES
    return TensorDataset(*whole[:train]), TensorDataset(*whole[train:])


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 16, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def accuracy(model: nn.Module, test: TensorDataset) -> float:
    model.eval()
    with torch.no_grad():
        pixels, labels = test.tensors
        right = float((model(pixels).argmax(1) == labels).float().mean())
    model.train()
    return right


def save(directory: str, model: nn.Module, optimizer: torch.optim.Optimizer, epoch: int) -> None:
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
    torch.save(state, f"{directory}/state.pt")


def resume(model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device) -> int:
    """Loads the newest committed checkpoint on every rank. Returns the first epoch to train."""
    checkpoint = rtrain.train.get_checkpoint()
    if checkpoint is None:
        return 0
    with checkpoint.as_directory() as directory:
        state = torch.load(f"{directory}/state.pt", weights_only=True, map_location=device)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    print(f"resumed after epoch {state['epoch']} from {checkpoint.name}", flush=True)
    return int(state["epoch"]) + 1


def train_epoch(model: nn.Module, optimizer: torch.optim.Optimizer, loader: DataLoader[Any]) -> float:
    total = 0.0
    for pixels, labels in loader:
        loss = nn.functional.cross_entropy(model(pixels), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def main() -> None:
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    train, test = data(device)
    network_here = network().to(device)
    optimizer = torch.optim.SGD(network_here.parameters(), lr=0.02, momentum=0.9)
    start = resume(network_here, optimizer, device)
    model = DistributedDataParallel(network_here)
    sampler: DistributedSampler[Any] = DistributedSampler(train, shuffle=True, seed=1)
    loader = DataLoader(train, BATCH, sampler=sampler)
    for epoch in range(start, EPOCHS):
        sampler.set_epoch(epoch)
        loss = train_epoch(model, optimizer, loader)
        metrics = {"epoch": epoch, "loss": loss, "accuracy": accuracy(network_here, test)}
        if rank != 0:
            rtrain.train.report(metrics)
            continue
        with rtrain.train.checkpoint_dir() as directory:
            save(directory, network_here, optimizer, epoch)
            rtrain.train.report(metrics, checkpoint=directory)
        print(f"epoch {epoch}: loss {loss:.4f} accuracy {metrics['accuracy']:.4f}", flush=True)
    if rank == 0:
        print(f"final accuracy: {accuracy(network_here, test):.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
