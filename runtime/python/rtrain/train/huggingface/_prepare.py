"""Lets a `transformers.Trainer` train on a dataset of `get_dataset_shard` without splitting it a second time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, IterableDataset
from transformers import Trainer

from rtrain._lazy import public_in
from rtrain.train.torch._place import get_device


class _Stream(IterableDataset[Any]):
    """A dataset that yields the items of a source unchanged: samples, or finished batches."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def __iter__(self) -> Iterator[Any]:
        return iter(self.source)


class _AsLong(Dataset[Any]):
    """A rank's share, padded to the length of the longest share. Shares differ by at most one item, and every rank must
    take the same number of steps.
    """

    def __init__(self, share: Any) -> None:
        self.share = share
        self.length = _longest(len(share))

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, place: int) -> Any:
        return self.share[place % len(self.share)]


def prepare_trainer(trainer: Trainer) -> Trainer:
    """Returns the trainer, ready to run in a worker.

    A dataset from `get_dataset_shard` is this rank's share, and is not split again. A stream of batches
    (`shard.iter_torch_batches(...)`) is read unchanged on every rank. The trainer splits other datasets, of torch or
    of `datasets`.
    """
    for dataset, method in (("train_dataset", "get_train_dataloader"), ("eval_dataset", "get_eval_dataloader")):
        if _is_ours(getattr(trainer, dataset, None)):
            setattr(trainer, method, _loader_of(trainer, dataset))
    return trainer


def _is_ours(dataset: Any) -> bool:
    if dataset is None or isinstance(dataset, dict):
        return False
    if hasattr(dataset, "rtrain_share") or hasattr(dataset, "iter_torch_batches"):
        return True
    return not isinstance(dataset, Dataset) and hasattr(dataset, "__iter__") and not hasattr(dataset, "__getitem__")


def _loader_of(trainer: Trainer, name: str) -> Any:
    training = name == "train_dataset"

    def loader(dataset: Any = None) -> DataLoader[Any]:
        source = getattr(trainer, name) if dataset is None or isinstance(dataset, str) else dataset
        size = trainer.args.train_batch_size if training else trainer.args.eval_batch_size
        if hasattr(source, "iter_torch_batches"):
            return DataLoader(_Stream(_Each(source, size)), batch_size=None)
        if not hasattr(source, "rtrain_share"):
            return DataLoader(_Stream(source), batch_size=None)
        if hasattr(source, "__getitem__"):
            return DataLoader(_AsLong(source), size, shuffle=training, collate_fn=trainer.data_collator)
        return DataLoader(_Stream(source), size, collate_fn=trainer.data_collator)

    return loader


def _longest(length: int) -> int:
    if not (dist.is_available() and dist.is_initialized()):
        return length
    longest = torch.tensor(length, device=get_device())
    dist.all_reduce(longest, dist.ReduceOp.MAX)
    return int(longest.item())


class _Each:
    """A shard as an iterable of batches of one size. Each iteration starts at the shard's beginning."""

    def __init__(self, shard: Any, size: int) -> None:
        self.shard, self.size = shard, size

    def __iter__(self) -> Iterator[Any]:
        return iter(self.shard.iter_torch_batches(batch_size=self.size))


public_in("rtrain.train.huggingface.transformers", prepare_trainer)
