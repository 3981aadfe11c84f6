"""Handwritten digits with PyTorch Lightning on two workers; resumes from the last epoch."""

import os
from typing import Any

import lightning.pytorch as pl
import rtrain.train
import torch
from rtrain.train.lightning import RayDDPStrategy, RayLightningEnvironment, RTrainReportCallback, prepare_trainer
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

EPOCHS = int(os.environ.get("EPOCHS", "4"))


class Digits(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def training_step(self, batch: list[torch.Tensor], number: int) -> torch.Tensor:
        loss = nn.functional.cross_entropy(self.network(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: list[torch.Tensor], number: int) -> None:
        right = (self.network(batch[0]).argmax(1) == batch[1]).float().mean()
        self.log("accuracy", right, sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=3e-3)


def loaders() -> tuple[DataLoader[Any], DataLoader[Any]]:
    pixels, labels = load_digits(return_X_y=True)
    whole = TensorDataset(torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(labels))
    train, test = random_split(whole, [0.8, 0.2], generator=torch.Generator().manual_seed(0))
    return DataLoader(train, 32, shuffle=True), DataLoader(test, 64)


def train_loop(config: dict[str, Any]) -> None:
    pl.seed_everything(0)
    trainer = prepare_trainer(
        pl.Trainer(
            max_epochs=config["epochs"], accelerator="auto", devices="auto",
            strategy=RayDDPStrategy(), plugins=[RayLightningEnvironment()], callbacks=[RTrainReportCallback()],
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, logger=False,
        )
    )  # fmt: skip
    train, test = loaders()
    checkpoint = rtrain.train.get_checkpoint()
    if checkpoint is None:
        trainer.fit(Digits(), train, test)
        return
    with checkpoint.as_directory() as directory:
        trainer.fit(Digits(), train, test, ckpt_path=os.path.join(directory, "checkpoint.ckpt"), weights_only=False)


if __name__ == "__main__":
    train_loop({"epochs": EPOCHS})
