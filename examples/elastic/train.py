"""Trains on one or two workers, as many as currently fit. Each optimizer step uses the same 64 samples.

python train.py [--least 1] [--most 2] [--epochs 6] [--storage DIR]
"""

import argparse
import pathlib
from typing import Any

import rtrain.train
import torch
from rtrain.train import RunConfig, ScalingConfig
from rtrain.train.torch import GlobalBatches, TorchTrainer, prepare_data_loader, prepare_model
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def resume(model: Any, optimizer: torch.optim.Optimizer) -> int:
    checkpoint = rtrain.train.get_checkpoint()
    if checkpoint is None:
        return 0
    with checkpoint.as_directory() as directory:
        state = torch.load(f"{directory}/state.pt", weights_only=True)
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["epoch"]) + 1


def train_loop(config: dict[str, Any]) -> None:
    """Trains with `GlobalBatches`, which gives every rank its part of each batch of 64, in micro batches of at most 16."""
    torch.manual_seed(0)
    pixels, labels = load_digits(return_X_y=True)
    data = TensorDataset(torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(labels))
    batches = GlobalBatches(data, size=64, micro_batch=16)
    loader = prepare_data_loader(DataLoader(data, batch_sampler=batches))
    model = prepare_model(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(resume(model, optimizer), config["epochs"]):
        batches.set_epoch(epoch)
        for (batch, names), micro in batches.over(loader):
            with micro.sync(model):
                loss = nn.functional.cross_entropy(model(batch), names)
                (loss * micro.weight).backward()
            if micro.last:
                optimizer.step()
                optimizer.zero_grad()
        context = rtrain.train.get_context()
        metrics = {"epoch": epoch, "loss": loss.item(), "ranks": context.get_world_size(), "steps": batches.steps}
        with rtrain.train.checkpoint_dir() as directory:
            if context.get_world_rank() == 0:
                state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
                torch.save(state, f"{directory}/state.pt")
                rtrain.train.report(metrics, checkpoint=rtrain.train.Checkpoint.from_directory(directory))
            else:
                rtrain.train.report(metrics)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--least", type=int, default=1)
    options.add_argument("--most", type=int, default=2)
    options.add_argument("--epochs", type=int, default=6)
    options.add_argument("--storage", type=lambda text: str(pathlib.Path(text).absolute()), default=None)
    given = options.parse_args()
    trainer = TorchTrainer(
        train_loop,
        train_loop_config={"epochs": given.epochs},
        scaling_config=ScalingConfig(num_workers=(given.least, given.most)),
        run_config=RunConfig(name="elastic", storage_path=given.storage),
    )
    metrics = trainer.fit().metrics or {}
    print(f"epoch {metrics['epoch']}: loss {metrics['loss']:.3f}, {metrics['steps']} steps of 64 on {metrics['ranks']} rank(s)")


if __name__ == "__main__":
    main()
