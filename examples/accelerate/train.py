"""A script for `accelerate launch`, with checkpoints that rtrain keeps: handwritten digits under Accelerate, DDP or FSDP2.

rtrain run -n 2 train.py [--shard] [--epochs 2]      in place of `accelerate launch --num_processes 2 train.py`
python train.py --fit [--shard] [--epochs 2] [--storage DIR]      the same loop in a TorchTrainer
"""

import argparse
import pathlib
from typing import Any

import rtrain.train
import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from rtrain.train import RunConfig, ScalingConfig
from rtrain.train.torch import TorchTrainer, prepare_model
from sklearn.datasets import load_digits
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.utils.data import DataLoader, TensorDataset


def train_loop(config: dict[str, Any]) -> None:
    on_gpus = torch.cuda.is_available()
    plugin = FullyShardedDataParallelPlugin(fsdp_version=2) if config["shard"] and on_gpus else None
    accelerator: Any = Accelerator(cpu=not on_gpus, fsdp_plugin=plugin)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    pixels, digits = (torch.from_numpy(array) for array in load_digits(return_X_y=True))
    loader = DataLoader(TensorDataset(pixels.float() / 16, digits), batch_size=32, shuffle=True)
    if config["shard"] and not on_gpus:  # Accelerate shards on GPUs alone: on the CPU it ignores the plugin
        model = prepare_model(network, parallel_strategy="fsdp2")
        optimizer, loader = accelerator.prepare(torch.optim.AdamW(model.parameters(), lr=3e-3), loader)
    else:
        model, optimizer, loader = accelerator.prepare(network, torch.optim.AdamW(network.parameters(), lr=3e-3), loader)
    first = 0
    if checkpoint := rtrain.train.get_checkpoint():
        weights, moments = get_state_dict(model, optimizer.optimizer)
        state: dict[str, Any] = {"model": weights, "optimizer": moments}
        with checkpoint.as_directory() as folder:
            load(state, checkpoint_id=folder)  # on any number of ranks
        set_state_dict(model, optimizer.optimizer, model_state_dict=weights, optim_state_dict=state["optimizer"])
        first = checkpoint.metrics["epoch"] + 1
        accelerator.print(f"goes on with epoch {first} on {accelerator.num_processes} ranks")
    for epoch in range(first, config["epochs"]):
        loader.set_epoch(epoch)
        right = 0.0
        for images, targets in loader:
            scores = model(images)
            accelerator.backward(nn.functional.cross_entropy(scores, targets))
            optimizer.step()
            optimizer.zero_grad()
            right += accelerator.gather_for_metrics((scores.argmax(1) == targets).float()).sum().item()
        metrics = {"epoch": epoch, "accuracy": right / len(digits), "kind": type(model).__name__}
        weights, moments = get_state_dict(model, optimizer.optimizer)
        with rtrain.train.checkpoint_dir() as folder:
            save({"model": weights, "optimizer": moments}, checkpoint_id=folder)
            rtrain.train.report(metrics, checkpoint=rtrain.train.Checkpoint.from_directory(folder))
        accelerator.print(f"epoch {epoch}: accuracy {metrics['accuracy']:.3f} by {metrics['kind']}")


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--epochs", type=int, default=2)
    options.add_argument("--shard", action="store_true", help="FSDP2 in place of DDP")
    options.add_argument("--fit", action="store_true", help="this process starts the ranks, and is none of them")
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--storage", type=lambda text: str(pathlib.Path(text).absolute()), default=None)
    given = options.parse_args()
    config = {"epochs": given.epochs, "shard": given.shard}
    if not given.fit:
        return train_loop(config)
    scaling = ScalingConfig(num_workers=given.workers, use_gpu=torch.cuda.is_available())
    run = RunConfig(name="accelerate", storage_path=given.storage)
    TorchTrainer(train_loop, train_loop_config=config, scaling_config=scaling, run_config=run).fit()


if __name__ == "__main__":
    main()
