"""Handwritten digits under DeepSpeed's ZeRO. Goes on with any number of workers, by universal checkpoints.

python train.py [--stage 2] [--workers 2] [--epochs 2] [--name NAME] [--storage DIR]
"""

import argparse
import os
import subprocess
import sys
from typing import Any

import rtrain.train
import torch
from rtrain.train import RunConfig, ScalingConfig, collective
from rtrain.train.torch import TorchTrainer
from sklearn.datasets import load_digits


def universal(folder: str) -> str:
    """Returns the folder of the checkpoint in DeepSpeed's format for any number of ranks. A node converts it once."""
    target = os.path.join(rtrain.train.scratch_dir(), "universal")
    if rtrain.train.get_context().get_local_rank() == 0:
        folders = [f"--input_folder={folder}/zero", f"--output_folder={target}/zero", "--inject_missing_state"]
        subprocess.run([sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal", *folders], check=True)
    collective.barrier()
    return target


def train_loop(config: dict[str, Any]) -> None:
    import deepspeed  # reads DS_ACCELERATOR, which main() sets for the workers

    if not torch.cuda.is_available():  # gloo in place of a kernel that would be compiled for minutes
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # pyright: ignore
    context = rtrain.train.get_context()
    ranks, checkpoint, first = context.get_world_size(), rtrain.train.get_checkpoint(), 0
    other_size = checkpoint is not None and checkpoint.metrics["ranks"] != ranks and config["stage"] > 0
    settings = {
        "train_batch_size": 64,  # the sum over all ranks
        "optimizer": {"type": "Adam", "params": {"lr": 3e-3, "torch_adam": True}},
        "zero_optimization": {"stage": config["stage"]},
        "checkpoint": {"load_universal": other_size},
    }
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    engine, *_ = deepspeed.initialize(model=network, model_parameters=network.parameters(), config=settings)  # pyright: ignore
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            engine.load_checkpoint(universal(folder) if other_size else folder, tag="zero")
        first = checkpoint.metrics["epoch"] + 1
    pixels, digits = (torch.from_numpy(array).to(engine.device) for array in load_digits(return_X_y=True))
    for epoch in range(first, config["epochs"]):
        batches = torch.randperm(len(digits), generator=torch.Generator().manual_seed(epoch)).split(64)[:-1]
        total = torch.zeros(1, device=engine.device)
        for rows in batches:
            own = rows[context.get_world_rank() :: ranks]
            engine.backward(loss := torch.nn.functional.cross_entropy(engine(pixels[own].float() / 16), digits[own]))
            engine.step()
            total += loss.detach()
        torch.distributed.all_reduce(total)
        metrics = {"epoch": epoch, "loss": total.item() / ranks / len(batches), "ranks": ranks}
        with rtrain.train.checkpoint_dir() as folder:
            engine.save_checkpoint(folder, tag="zero")  # each rank its own files
            rtrain.train.report(metrics, checkpoint=rtrain.train.Checkpoint.from_directory(folder))


def main() -> None:
    options = argparse.ArgumentParser()
    for name in ("--stage", "--workers", "--epochs"):
        options.add_argument(name, type=int, default=2)
    options.add_argument("--name", default="deepspeed")
    options.add_argument("--storage", type=os.path.abspath, default=None)
    given, on_gpus = options.parse_args(), torch.cuda.is_available()
    scaling = ScalingConfig(num_workers=given.workers, use_gpu=on_gpus)
    run = RunConfig(given.name, given.storage, env={} if on_gpus else {"DS_ACCELERATOR": "cpu"})
    result = TorchTrainer(train_loop, train_loop_config=vars(given), scaling_config=scaling, run_config=run).fit()
    print("loss {loss:.5f} in epoch {epoch} on {ranks} ranks".format(**result.metrics or {}))


if __name__ == "__main__":
    main()
