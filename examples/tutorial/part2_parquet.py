"""Part 2: the same training, with the images in Parquet files that the workers read: by rtrain.data, or by a torch Dataset of one's own.

python part2_parquet.py [--reader data|dataset] [--workers 2] [--epochs 3] [--width 64] [--storage DIR] [--data DIR]
"""

import argparse
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy
import pyarrow
import rtrain.data
import rtrain.train
import torch
from digits import TEST_IMAGES, accuracy, images, resnet18
from pyarrow import parquet
from rtrain.train import RunConfig, ScalingConfig
from rtrain.train.torch import TorchTrainer, get_device, prepare_data_loader, prepare_model
from torch import nn
from torch.utils.data import DataLoader, Dataset

ROWS_PER_FILE = 400


def write_files(folder: pathlib.Path) -> None:
    """Writes the training images as Parquet. A row is 64 pixels and a label."""
    folder.mkdir(parents=True, exist_ok=True)
    pixels, labels = images()
    for number, start in enumerate(range(0, len(labels) - TEST_IMAGES, ROWS_PER_FILE)):
        rows = slice(start, min(start + ROWS_PER_FILE, len(labels) - TEST_IMAGES))
        columns = {"pixels": list(pixels[rows].flatten(1).numpy()), "label": labels[rows].numpy()}
        parquet.write_table(pyarrow.table(columns), folder / f"part-{number:03}.parquet")


Batches = Callable[[int], Iterable[Any]]  # returns the batches of an epoch


class ParquetImages(Dataset[tuple[torch.Tensor, int]]):
    """The rows of all files of a folder. Only the folder's name is pickled; each worker reads the files at its first access
    to a row.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = str(folder)
        self.rows: int = sum(parquet.read_metadata(path).num_rows for path in self._paths())
        self.table: tuple[Any, Any] | None = None

    def _paths(self) -> list[pathlib.Path]:
        return sorted(pathlib.Path(self.folder).glob("*.parquet"))

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
        if self.table is None:
            table = pyarrow.concat_tables(parquet.read_table(path) for path in self._paths())
            self.table = numpy.stack(table["pixels"].to_numpy()).reshape(-1, 1, 8, 8), table["label"].to_numpy()
        pixels, labels = self.table
        return torch.from_numpy(pixels[row]), int(labels[row])


def of_data(shard: rtrain.data.DataIterator) -> Batches:
    """Returns epochs of this rank's rows from rtrain.data, which shuffles them and keeps only a few in memory."""

    def batches(epoch: int) -> Iterator[Any]:
        for batch in shard.iter_torch_batches(batch_size=32):
            yield batch["pixels"].reshape(-1, 1, 8, 8), batch["label"]

    return batches


def of_dataset(shard: Dataset[Any]) -> Batches:
    """Returns epochs of this rank's part of the torch Dataset. The loader does not divide it again."""
    loader = prepare_data_loader(DataLoader(shard, batch_size=32, shuffle=True))

    def batches(epoch: int) -> Iterable[Any]:
        loader.sampler.set_epoch(epoch)
        return loader

    return batches


def train_loop(config: dict[str, Any]) -> None:
    """Trains on this rank's rows, which `get_dataset_shard` returns for both kinds of dataset."""
    torch.manual_seed(0)
    shard = rtrain.train.get_dataset_shard("train")
    batches = of_data(shard) if config["reader"] == "data" else of_dataset(shard)
    pixels, labels = images()
    test = pixels[-TEST_IMAGES:].to(get_device()), labels[-TEST_IMAGES:].to(get_device())
    model = prepare_model(resnet18(config["width"]))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(config["epochs"]):
        rows = 0
        for batch, names in batches(epoch):
            rows += len(names)
            loss = nn.functional.cross_entropy(model(batch), names)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        metrics = {"epoch": epoch, "rows": rows, "loss": loss.item(), "accuracy": accuracy(model.module, *test)}
        with rtrain.train.checkpoint_dir() as directory:
            if rtrain.train.get_context().get_world_rank() == 0:
                torch.save(model.module.state_dict(), f"{directory}/model.pt")
                rtrain.train.report(metrics, checkpoint=rtrain.train.Checkpoint.from_directory(directory))
            else:
                rtrain.train.report(metrics)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--reader", choices=["data", "dataset"], default="data")
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--epochs", type=int, default=3)
    options.add_argument("--width", type=int, default=64)
    options.add_argument("--storage", type=lambda text: str(pathlib.Path(text).absolute()), default=None)
    options.add_argument("--data", type=lambda text: pathlib.Path(text).absolute(), default=pathlib.Path("/tmp/digits"))
    given = options.parse_args()
    write_files(given.data)
    files = rtrain.data.read_parquet(given.data).random_shuffle() if given.reader == "data" else ParquetImages(given.data)
    trainer = TorchTrainer(
        train_loop,
        train_loop_config={"epochs": given.epochs, "width": given.width, "reader": given.reader},
        datasets={"train": files},
        scaling_config=ScalingConfig(num_workers=given.workers, use_gpu=torch.cuda.is_available()),
        run_config=RunConfig(name="tutorial-2", storage_path=given.storage),
    )
    result = trainer.fit()
    metrics = result.metrics or {}
    print(f"accuracy {metrics['accuracy']:.3f} from {metrics['rows']} rows on each worker; {result.checkpoint}")


if __name__ == "__main__":
    main()
