"""`prepare_data_loader`: each rank its share, on its device, with every option of the loader kept."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
)

from rtrain._lazy import public_in
from rtrain._waits import measured
from rtrain.train.torch import _reproducible
from rtrain.train.torch._place import get_device, place
from rtrain.train.torch._samplers import EpochSampler, RankShare, is_divided, with_set_epoch
from rtrain.train.torch._transfer import batches_on

_Batch_co = TypeVar("_Batch_co", covariant=True)


def prepare_data_loader(
    data_loader: DataLoader[_Batch_co],
    add_dist_sampler: bool = True,
    move_to_device: bool = True,
    auto_transfer: bool = True,
) -> PreparedDataLoader[_Batch_co]:
    """Returns a loader like `data_loader` that gives this rank its share of the data, on this worker's device.

    add_dist_sampler: with several workers a plain sampler becomes a DistributedSampler, which shuffles unless the sampler was
    sequential. A sampler or batch sampler of the user's own is kept, and each rank gets every world-th of what it draws. A
    loader that is divided already, an IterableDataset, and what `get_dataset_shard` returned are left as they are.
    move_to_device: batches come on `get_device()`, however their tensors are nested.
    auto_transfer: on a GPU the next batch is copied while the present one is used; pin the loader's memory for that.

    All options of the loader are kept. `len`, `.sampler`, `.dataset`, `.batch_size` are there as before, and
    `.sampler.set_epoch(epoch)` works with any number of workers. The given loader is not changed.
    """
    if not isinstance(data_loader, DataLoader):
        raise TypeError(f"prepare_data_loader needs a torch.utils.data.DataLoader, not {type(data_loader).__name__}")
    source = getattr(data_loader, "prepared_from", data_loader)
    loader = _copy(source)
    whole = not isinstance(loader.dataset, IterableDataset) and not getattr(loader.dataset, "rtrain_share", False)
    if add_dist_sampler and place().world_size > 1 and whole:
        _divide(loader)
    _reproducible.seed_loader(loader, place().world_rank)
    _epochs(loader)
    return PreparedDataLoader(loader, get_device() if move_to_device else None, auto_transfer)


class PreparedDataLoader(DataLoader[_Batch_co]):
    """A loader whose batches are moved; in all else the one that it was made from."""

    if TYPE_CHECKING:
        sampler: EpochSampler

    def __init__(self, loader: DataLoader[Any], device: torch.device | None, ahead: bool) -> None:
        self.__dict__.update(loader.__dict__)
        self.__dict__.update(prepared_from=loader, _device=device, _ahead=ahead)

    def __iter__(self) -> Any:
        batches: Iterator[Any] = iter(self.__dict__["prepared_from"])
        device = self.__dict__["_device"]
        return measured(batches if device is None else batches_on(device, batches, self.__dict__["_ahead"]))

    def __len__(self) -> int:
        return len(self.__dict__["prepared_from"])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "prepared_from" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.__dict__["prepared_from"], name)


def _copy(loader: DataLoader[Any]) -> DataLoader[Any]:
    """The same loader with every option it has, those of later torch releases and of subclasses too; no worker is
    shared."""
    twin = copy.copy(loader)
    twin.__dict__["_iterator"] = None
    return twin


def _divide(loader: DataLoader[Any]) -> None:
    """Replaces the sampler of a copy, behind the guard that stops users from doing so on a loader in use."""
    here = place()
    batches = loader.batch_sampler
    if is_divided(loader.sampler) or is_divided(batches) or is_divided(getattr(batches, "sampler", None)):
        return
    if batches is not None and (type(batches) is not BatchSampler or loader.batch_size is None):
        loader.__dict__["batch_sampler"] = RankShare(batches, here)
        return
    sampler = _share_of(loader.sampler, loader.dataset)
    loader.__dict__["sampler"] = sampler
    if batches is not None:
        loader.__dict__["batch_sampler"] = BatchSampler(sampler, batches.batch_size, batches.drop_last)


def _share_of(sampler: Any, dataset: Any) -> Any:
    here = place()
    plain = type(sampler) is SequentialSampler or (
        type(sampler) is RandomSampler and not sampler.replacement and sampler.num_samples == len(dataset)
    )
    if not plain:
        return RankShare(sampler, here)
    shuffled = type(sampler) is RandomSampler
    return DistributedSampler(dataset, here.world_size, here.world_rank, shuffle=shuffled, seed=_reproducible.seed() or 0)


def _epochs(loader: DataLoader[Any]) -> None:
    """`loader.sampler.set_epoch` reaches what really draws: the sampler, or the user's own batch sampler."""
    if isinstance(loader.dataset, IterableDataset) and hasattr(loader.dataset, "set_epoch"):
        sampler: Any = loader.sampler
        sampler.set_epoch = loader.dataset.set_epoch
        return
    batches = loader.batch_sampler
    own = batches is not None and type(batches) is not BatchSampler
    if not own:
        with_set_epoch(loader.sampler)
        return
    with_set_epoch(batches)
    sampler = getattr(batches, "sampler", None) or batches
    loader.__dict__["sampler"] = sampler if hasattr(sampler, "set_epoch") else batches


public_in("rtrain.train.torch", prepare_data_loader)
