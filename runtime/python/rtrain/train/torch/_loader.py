"""`prepare_data_loader` gives each rank its share, on its device. Every option of the loader is kept."""

from __future__ import annotations

import copy
from collections.abc import Mapping
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
from rtrain.train.torch._progress import Progress, progress_of, why_not
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

    add_dist_sampler: with several workers a plain sampler becomes a DistributedSampler, which shuffles unless the
    sampler was sequential. A custom sampler or batch sampler is kept, and each rank gets every world-th of its
    items. A loader that is split already, an IterableDataset, and a dataset of `get_dataset_shard` are not split.
    move_to_device: batches are moved to `get_device()`, with all nested tensors.
    auto_transfer: on a GPU the next batch is copied while the present one is used; pin the loader's memory for that.

    Every iteration is another epoch with another order. The epoch is that of `.sampler.set_epoch(epoch)`, otherwise
    the next one. `state_dict` and `load_state_dict` resume within an epoch.

    All options of the loader are kept, and so are `len`, `.sampler`, `.dataset` and `.batch_size`.
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
    kind = PreparedDataLoader if why_not(loader) else ResumableDataLoader
    return kind(loader, get_device() if move_to_device else None, auto_transfer, progress_of(loader, whole=whole))


class PreparedDataLoader(DataLoader[_Batch_co]):
    """A loader that moves its batches and records its position. Otherwise it is like the loader from which it was
    made.
    """

    if TYPE_CHECKING:
        sampler: EpochSampler

        def state_dict(self) -> dict[str, Any]: ...
        def load_state_dict(self, state: Mapping[str, Any]) -> None: ...

    def __init__(self, loader: DataLoader[Any], device: torch.device | None, ahead: bool, progress: Progress) -> None:
        self.__dict__.update(loader.__dict__)
        self.__dict__.update(prepared_from=loader, _device=device, _ahead=ahead, _progress=progress)

    def __iter__(self) -> Any:
        batches, given = self.__dict__["_progress"].begin()
        device = self.__dict__["_device"]
        return measured(given(batches if device is None else batches_on(device, batches, self.__dict__["_ahead"])))

    def __len__(self) -> int:
        length: int = self.__dict__["_progress"].length()
        return length

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_iterator": None}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "prepared_from" not in self.__dict__:
            raise AttributeError(name)
        if name in ("state_dict", "load_state_dict"):
            raise AttributeError(f"this loader has no {name}: {why_not(self.__dict__['prepared_from'])}")
        return getattr(self.__dict__["prepared_from"], name)


class ResumableDataLoader(PreparedDataLoader[_Batch_co]):
    """A prepared loader with a state. A loader that cannot have one lacks `state_dict`, so that libraries do not
    call it.
    """

    def state_dict(self) -> dict[str, Any]:
        """Returns the loader's position as plain numbers. They are equal on all ranks whose loops got the same
        number of batches.

        Taken in the body of a loop, the state belongs to that epoch and counts the present batch as delivered. After
        the loop's end it belongs to the next epoch.
        """
        state: dict[str, Any] = self.__dict__["_progress"].state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next iteration give the rest of the epoch in `state`. Skipped items are not fetched.

        Later iterations are whole epochs. The number of ranks may differ from that of the state. If batch size times
        ranks is equal, the global batches stay the same. Raises ValueError for a state of another kind of loader.
        """
        self.__dict__["_progress"].load_state_dict(state)


def _copy(loader: DataLoader[Any]) -> DataLoader[Any]:
    """Returns a copy of the loader with all its options, including those of later torch releases and of subclasses.
    It shares no worker process.
    """
    twin = copy.copy(loader)
    twin.__dict__["_iterator"] = None
    return twin


def _divide(loader: DataLoader[Any]) -> None:
    """Replaces the sampler of a copied loader. PyTorch forbids users to do so on a loader in use; this bypasses that
    check.
    """
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
    """Makes `loader.sampler.set_epoch` call the `set_epoch` of the object that draws the order: the sampler, or a
    custom batch sampler.
    """
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
