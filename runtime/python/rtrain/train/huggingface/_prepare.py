"""Lets a `transformers.Trainer` train on what `get_dataset_shard` gave, without sharding it a second time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader, Dataset, IterableDataset
from transformers import Trainer


class _Batches(IterableDataset[Any]):
    """Batches that are made already, each a dict of tensors."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def __iter__(self) -> Iterator[Any]:
        return iter(self.source)


def prepare_trainer(trainer: Trainer) -> Trainer:
    """The trainer, ready to run in a worker.

    A dataset that is a stream of batches (`shard.iter_torch_batches(...)`, or a shard, whose batches then have the
    trainer's own batch size) is read as it is, on every rank its own. Datasets of torch or of `datasets` are divided
    by the trainer.
    """
    for dataset, method in (("train_dataset", "get_train_dataloader"), ("eval_dataset", "get_eval_dataloader")):
        if _is_stream(getattr(trainer, dataset, None)):
            setattr(trainer, method, _loader_of(trainer, dataset))
    return trainer


def _is_stream(dataset: Any) -> bool:
    if dataset is None or isinstance(dataset, Dataset | dict):
        return False
    return hasattr(dataset, "iter_torch_batches") or (hasattr(dataset, "__iter__") and not hasattr(dataset, "__getitem__"))


def _loader_of(trainer: Trainer, name: str) -> Any:
    def loader(dataset: Any = None) -> DataLoader[Any]:
        source = getattr(trainer, name) if dataset is None or isinstance(dataset, str) else dataset
        if hasattr(source, "iter_torch_batches"):
            size = trainer.args.train_batch_size if name == "train_dataset" else trainer.args.eval_batch_size
            return DataLoader(_Batches(_Each(source, size)), batch_size=None)
        return DataLoader(_Batches(source), batch_size=None)

    return loader


class _Each:
    """A shard as batches of one size, from its beginning each time it is iterated."""

    def __init__(self, shard: Any, size: int) -> None:
        self.shard, self.size = shard, size

    def __iter__(self) -> Iterator[Any]:
        return iter(self.shard.iter_torch_batches(batch_size=self.size))
