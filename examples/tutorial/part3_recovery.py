"""Part 3: a worker dies and the run continues. Then the run is extended by hand, and an actor uses its model.

python part3_recovery.py [--workers 2] [--epochs 3] [--width 64] [--storage DIR]
"""

import argparse
import os
import pathlib
import signal
from typing import Any

import rtrain
import rtrain.train
import torch
from digits import TEST_IMAGES, accuracy, images, resnet18
from rtrain.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from rtrain.train.torch import TorchTrainer, get_device, prepare_data_loader, prepare_model
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def resume(model: Any, optimizer: torch.optim.Optimizer) -> int:
    """Loads the newest checkpoint on every rank. Returns the first epoch to train."""
    checkpoint = rtrain.train.get_checkpoint()
    if checkpoint is None:
        return 0
    with checkpoint.as_directory() as directory:
        state = torch.load(f"{directory}/state.pt", weights_only=True, map_location=get_device())
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    print(f"goes on after epoch {state['epoch']}", flush=True)
    return int(state["epoch"]) + 1


def die_once(epoch: int) -> None:
    """Imitates a machine's failure: in the first attempt, the last rank exits after the first epoch."""
    context = rtrain.train.get_context()
    last = context.get_world_rank() == context.get_world_size() - 1
    if epoch == 1 and last and context.get_attempt() == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def train_loop(config: dict[str, Any]) -> None:
    torch.manual_seed(0)
    pixels, labels = images()
    test = pixels[-TEST_IMAGES:].to(get_device()), labels[-TEST_IMAGES:].to(get_device())
    data = TensorDataset(pixels[:-TEST_IMAGES], labels[:-TEST_IMAGES])
    loader = prepare_data_loader(DataLoader(data, batch_size=32, shuffle=True))
    model = prepare_model(resnet18(config["width"]))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(resume(model, optimizer), config["epochs"]):
        die_once(epoch)
        loader.sampler.set_epoch(epoch)
        for batch, names in loader:
            loss = nn.functional.cross_entropy(model(batch), names)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        metrics = {"epoch": epoch, "attempt": rtrain.train.get_context().get_attempt(), "accuracy": accuracy(model.module, *test)}
        with rtrain.train.checkpoint_dir() as directory:
            if rtrain.train.get_context().get_world_rank() == 0:
                state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
                torch.save(state, f"{directory}/state.pt")
                rtrain.train.report(metrics, checkpoint=rtrain.train.Checkpoint.from_directory(directory))
            else:
                rtrain.train.report(metrics)


class ModelWorker:
    """Holds the model of a checkpoint on some node, and answers."""

    def __init__(self, checkpoint: rtrain.train.Checkpoint, width: int) -> None:
        self.model = resnet18(width)
        with checkpoint.as_directory() as directory:
            state = torch.load(f"{directory}/state.pt", weights_only=True, map_location="cpu")
        self.model.load_state_dict(state["model"])
        self.model.eval()

    def predict(self, pixels: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            answers: torch.Tensor = self.model(pixels).argmax(1)
            return answers


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
        run_config=RunConfig(
            name="tutorial-3",
            storage_path=given.storage,
            failure_config=FailureConfig(max_failures=2),
            checkpoint_config=CheckpointConfig(num_to_keep=2, checkpoint_score_attribute="accuracy"),
        ),
    )
    result = trainer.fit()
    metrics = result.metrics or {}
    print(f"accuracy {metrics['accuracy']:.3f} in attempt {metrics['attempt']}")

    assert result.path is not None  # local mode may have none
    again = TorchTrainer.restore(result.path, train_loop_config={"epochs": given.epochs + 1, "width": given.width})
    longer = again.fit()
    metrics = longer.metrics or {}
    print(f"taken up again: epoch {metrics['epoch']}, accuracy {metrics['accuracy']:.3f}")

    pixels, labels = images()
    worker = rtrain.remote(num_cpus=1)(ModelWorker).remote(longer.checkpoint, given.width)
    answers = rtrain.get(worker.predict.remote(pixels[-TEST_IMAGES:]))
    print(f"the actor names {(answers == labels[-TEST_IMAGES:]).float().mean().item():.3f} of the test images right")
    rtrain.kill(worker)


if __name__ == "__main__":
    main()
