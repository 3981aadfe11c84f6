"""Finds a good learning rate and width for digits. Each trial is a run of its own. ASHA ends the trials that are
behind.

   python tune_digits.py [--samples 6] [--epochs 9] [--storage DIR]
"""

import argparse
from typing import Any

import torch
from rtrain import train, tune
from rtrain.tune.schedulers import ASHAScheduler
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn


def train_digits(config: dict[str, Any], data: list[Any]) -> None:
    """Trains with one config. `data` was uploaded to the cluster once for all trials. A moved trial resumes from its
    checkpoint.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)
    train_x, test_x, train_y, test_y = (torch.tensor(part) for part in data)
    model = nn.Sequential(nn.Linear(64, config["width"]), nn.ReLU(), nn.Linear(config["width"], 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
    begun = 0
    if checkpoint := tune.get_checkpoint():
        state = checkpoint.to_dict()
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        begun = state["epoch"] + 1
    for epoch in range(begun, config["epochs"]):
        for rows in torch.randperm(len(train_x)).split(64):
            loss = nn.functional.cross_entropy(model(train_x[rows]), train_y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        accuracy = (model(test_x).argmax(dim=1) == test_y).float().mean().item()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        tune.report({"accuracy": accuracy, "loss": loss.item()}, checkpoint=train.Checkpoint.from_dict(state))


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--samples", type=int, default=6)
    options.add_argument("--epochs", type=int, default=9)
    options.add_argument("--storage")
    given = options.parse_args()
    pixels, labels = load_digits(return_X_y=True)
    data = train_test_split((pixels / 16).astype("float32"), labels, test_size=0.25, random_state=0)
    tuner = tune.Tuner(
        tune.with_resources(tune.with_parameters(train_digits, data=data), {"cpu": 1}),
        param_space={"lr": tune.loguniform(1e-5, 1e-1), "width": tune.choice([16, 64]), "epochs": given.epochs},
        tune_config=tune.TuneConfig(
            metric="accuracy",
            mode="max",
            num_samples=given.samples,
            scheduler=ASHAScheduler(max_t=given.epochs, grace_period=1, reduction_factor=3),
            seed=1,
        ),
        run_config=tune.RunConfig(
            storage_path=given.storage,
            checkpoint_config=tune.CheckpointConfig(num_to_keep=1, checkpoint_score_attribute="accuracy"),
        ),
    )
    results = tuner.fit()
    best = results.get_best_result()
    epochs = sum((result.metrics or {})["training_iteration"] for result in results)
    assert best.metrics is not None and best.checkpoint is not None
    accuracy, config = best.metrics["accuracy"], best.config
    print(f"best of {len(results)}: accuracy {accuracy:.3f} with lr {config['lr']:.2g}, width {config['width']}")
    print(f"{epochs} epochs were trained of {given.samples * given.epochs}")
    print(f"the best model was saved after epoch {best.checkpoint.to_dict()['epoch']} in {best.checkpoint.path}")


if __name__ == "__main__":
    main()
