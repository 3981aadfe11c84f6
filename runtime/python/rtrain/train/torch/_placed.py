"""Wraps a loader's dataset so that the position of each item is known while the item is made. This works in the rank's
process and in the loader's processes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch.utils.data import Subset, TensorDataset, default_collate, default_convert, get_worker_info

from rtrain import _chance


class Wanted(NamedTuple):
    """The request of a loader for a batch: `indices` for the dataset, and the position of each item."""

    indices: Any
    prefix: tuple[int, ...]  # the values with which all positions begin: seed, epoch and others
    positions: range


class Placed:
    """The dataset of a loader, which is indexed by `Wanted`. If the dataset has `__getitems__`, it makes a whole batch
    at once, at the position of the batch's first item.
    """

    def __init__(self, dataset: Any, *, draws: bool) -> None:
        self.dataset = dataset
        self.draws = draws  # False: no random number can be drawn while an item is made
        self.newest = Wanted((), (), range(0))

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, wanted: Wanted) -> Any:
        """Returns one item, for a loader without batches."""
        self.newest = wanted
        return self._made(wanted, self.dataset.__getitem__)

    def __getitems__(self, wanted: Wanted) -> Any:
        """Returns the items of a batch."""
        self.newest = wanted
        at_once = getattr(self.dataset, "__getitems__", None)
        if at_once:
            return self._made(wanted, at_once)
        here, item = _chance.here, self.dataset
        here.prefix = wanted.prefix
        try:
            if self.draws and get_worker_info() is not None:
                return self._seeded(wanted)
            return [item[index] for here.place, index in zip(wanted.positions, wanted.indices, strict=True)]
        finally:
            here.prefix = None

    def _seeded(self, wanted: Wanted) -> list[Any]:
        items = []
        for _chance.here.place, index in zip(wanted.positions, wanted.indices, strict=True):
            _chance.seed_global_generators()
            items.append(self.dataset[index])
        return items

    def _made(self, wanted: Wanted, make: Callable[[Any], Any]) -> Any:
        here = _chance.here
        here.prefix, here.place = wanted.prefix, wanted.positions.start
        try:
            if self.draws and get_worker_info() is not None:
                _chance.seed_global_generators()
            return make(wanted.indices)
        finally:
            here.prefix = None


class PlacedCollate:
    """A user's `collate_fn` that may draw random numbers. Its position is that of the batch's first item, but
    differs from the item's own.
    """

    def __init__(self, dataset: Placed, onward: Callable[[Any], Any]) -> None:
        self.dataset, self.onward = dataset, onward

    def __call__(self, items: Any) -> Any:
        here, wanted = _chance.here, self.dataset.newest
        here.prefix, here.place = (*wanted.prefix, wanted.positions.start), -1
        try:
            if get_worker_info() is not None:
                _chance.seed_global_generators()
            return self.onward(items)
        finally:
            here.prefix = None


class ShowsDataset:
    """A `worker_init_fn` that makes `get_worker_info()` return the user's dataset, and then calls the user's function."""

    def __init__(self, onward: Callable[[int], None] | None) -> None:
        self.onward = onward

    def __call__(self, worker: int) -> None:
        info: Any = get_worker_info()
        # set in this way, since the object's own __setattr__ forbids changes
        object.__setattr__(info, "dataset", info.dataset.dataset)
        if self.onward is not None:
            self.onward(worker)


def placed(loader: Any) -> None:
    """Makes a loader, which must be a copy, fetch its items by `Wanted`."""
    collate = loader.collate_fn
    plain = collate is default_collate or collate is default_convert
    dataset = Placed(loader.dataset, draws=not (plain and _holds_tensors(loader.dataset)))
    own = {"collate_fn": collate if plain else PlacedCollate(dataset, collate)}
    loader.__dict__.update(dataset=dataset, worker_init_fn=ShowsDataset(loader.worker_init_fn), **own)


def _holds_tensors(dataset: Any) -> bool:
    """Returns whether the dataset holds tensors in memory, whose items need no random numbers."""
    while type(dataset) is Subset:
        dataset = dataset.dataset
    return type(dataset) is TensorDataset
