"""Part 1: ResNet-18 on images, data-parallel on two workers.

python part1_images.py [--workers 2] [--epochs 3] [--width 64] [--storage DIR]
"""

import argparse
import pathlib
from typing import Any

import rtrain.train
import torch
from digits import TEST_IMAGES, accuracy, images, resnet18
from rtrain.train import RunConfig, ScalingConfig
from rtrain.train.torch import TorchTrainer, get_device, prepare_data_loader, prepare_model
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train_loop(config: dict[str, Any]) -> None:
    """Runs on every worker. `prepare_model` and `prepare_data_loader` are all that data-parallel training needs."""
    torch.manual_seed(0)
    pixels, labels = images()
    test = pixels[-TEST_IMAGES:].to(get_device()), labels[-TEST_IMAGES:].to(get_device())
    data = TensorDataset(pixels[:-TEST_IMAGES], labels[:-TEST_IMAGES])
    loader = prepare_data_loader(DataLoader(data, batch_size=32, shuffle=True))
    model = prepare_model(resnet18(config["width"]))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(config["epochs"]):
        loader.sampler.set_epoch(epoch)
        for batch, names in loader:
            loss = nn.functional.cross_entropy(model(batch), names)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        metrics = {"epoch": epoch, "loss": loss.item(), "accuracy": accuracy(model.module, *test)}
        with rtrain.train.checkpoint_dir() as directory:
            if rtrain.train.get_context().get_world_rank() == 0:
                torch.save(model.module.state_dict(), f"{directory}/model.pt")
                rtrain.train.report(metrics, checkpoint=rtrain.train.Checkpoint.from_directory(directory))
            else:
                rtrain.train.report(metrics)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--epochs", type=int, default=3)
    options.add_argument("--width", type=int, default=64)
    options.add_argument("--storage", type=lambda text: str(pathlib.Path(text).absolute()), default=None)
    given = options.parse_args()
    trainer = TorchTrainer(
        train_loop,
        train_loop_config={"epochs": given.epochs, "width": given.width},
        scaling_config=ScalingConfig(num_workers=given.workers, use_gpu=torch.cuda.is_available()),
        run_config=RunConfig(name="tutorial-1", storage_path=given.storage),
    )
    result = trainer.fit()
    metrics = result.metrics or {}
    print(f"accuracy {metrics['accuracy']:.3f} after {metrics['epoch'] + 1} epochs; {result.checkpoint}")


if __name__ == "__main__":
    main()
