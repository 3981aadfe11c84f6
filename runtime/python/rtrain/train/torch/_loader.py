"""`prepare_data_loader`: each rank its share, on its device, with every option of the loader kept."""

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

    add_dist_sampler: with several workers a plain sampler becomes a DistributedSampler, which shuffles unless the sampler was
    sequential. A sampler or batch sampler of the user's own is kept, and each rank gets every world-th of what it draws. A
    loader that is divided already, an IterableDataset, and what `get_dataset_shard` returned are left as they are.
    move_to_device: batches come on `get_device()`, however their tensors are nested.
    auto_transfer: on a GPU the next batch is copied while the present one is used; pin the loader's memory for that.

    Every iteration is another epoch, and shuffles in another order: of the epoch that `.sampler.set_epoch(epoch)` named, else of
    the next one. `state_dict` and `load_state_dict` resume in the middle of an epoch.

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
    kind = PreparedDataLoader if why_not(loader) else ResumableDataLoader
    return kind(loader, get_device() if move_to_device else None, auto_transfer, progress_of(loader, whole=whole))


class PreparedDataLoader(DataLoader[_Batch_co]):
    """A loader whose batches are moved, and which knows where it is; in all else the one that it was made from."""

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
    """A prepared loader that can say where it is. One that cannot has no `state_dict`, so that libraries do not call it."""

    def state_dict(self) -> dict[str, Any]:
        """Returns where the loader is: plain numbers, the same on every rank that the loop gave as many batches.

        Taken in the body of a loop, the state belongs to that epoch and counts the present batch as delivered. After the loop's
        end it belongs to the next epoch.
        """
        state: dict[str, Any] = self.__dict__["_progress"].state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next iteration give what `state` says is left of its epoch. No item is fetched to get there.

        Later iterations are whole epochs. The number of ranks may be another one than when the state was taken: with the same
        batch size times ranks, the global batches stay the same. ValueError for a state that is not of such a loader.
        """
        self.__dict__["_progress"].load_state_dict(state)


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
