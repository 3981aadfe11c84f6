"""One script, three places: in this process, under torchrun, on a cluster.

python train.py                                        in this process (local mode)
torchrun --nproc-per-node 2 train.py                   two processes of torchrun
python train.py --workers 2                            two workers on a cluster
"""

import argparse
from typing import Any

import rtrain.train
import torch
from rtrain.train import RunConfig, ScalingConfig
from rtrain.train.torch import TorchTrainer, prepare_data_loader, prepare_model
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train_loop(config: dict[str, Any]) -> None:
    """Fits y = 3x + 1 and reports the number of ranks."""
    torch.manual_seed(0)
    x = torch.linspace(-1, 1, 256).unsqueeze(1)
    loader = prepare_data_loader(DataLoader(TensorDataset(x, 3 * x + 1), batch_size=16, shuffle=True))
    model = prepare_model(nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for epoch in range(config["epochs"]):
        loader.sampler.set_epoch(epoch)
        for batch, wanted in loader:
            loss = nn.functional.mse_loss(model(batch), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        weight = model.module.weight.item()
        rtrain.train.report({"epoch": epoch, "weight": weight, "ranks": rtrain.train.get_context().get_world_size()})


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--workers", type=int, default=0)
    options.add_argument("--epochs", type=int, default=5)
    options.add_argument("--storage", default=None)
    given = options.parse_args()
    trainer = TorchTrainer(
        train_loop,
        train_loop_config={"epochs": given.epochs},
        scaling_config=ScalingConfig(num_workers=given.workers),
        run_config=RunConfig(name="anywhere", storage_path=given.storage),
    )
    metrics = trainer.fit().metrics or {}
    print(f"weight {metrics['weight']:.2f} after {metrics['epoch'] + 1} epochs on {metrics['ranks']} rank(s)")


if __name__ == "__main__":
    main()
