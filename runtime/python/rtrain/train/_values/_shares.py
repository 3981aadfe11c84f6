"""Splits a dataset into one share per rank: a strided Subset of a torch Dataset, every n-th item of an iterable,
neighbouring rows of `rtrain.data`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from rtrain.train._values._facts import Facts


def split(dataset: Any, facts: Facts, *, equal: bool = True) -> Any:
    """Returns this rank's share. With `equal` every rank has the same number of items. A dataset with `rtrain_shard`
    splits itself.
    """
    if hasattr(dataset, "rtrain_shard"):
        return dataset.rtrain_shard(facts.world_rank, facts.world_size)
    if facts.world_size == 1:
        return given_whole(dataset)
    if _is_torch_map(dataset):
        from torch.utils.data import Subset

        share = Subset(dataset, _places(len(dataset), facts.world_rank, facts.world_size, equal=equal))
        share.rtrain_share = True  # type: ignore[attr-defined]
        return share
    if hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__") and not isinstance(dataset, Mapping):
        return Strided(dataset, facts.world_rank, facts.world_size, equal=equal)
    if hasattr(dataset, "__iter__"):
        return EveryNth(dataset, facts.world_rank, facts.world_size, equal=equal)
    raise TypeError(f"a dataset is an iterable, a sequence or a torch Dataset, not {type(dataset).__name__}")


def built(dataset: Any) -> Any:
    return (
        dataset() if callable(dataset) and not hasattr(dataset, "__iter__") and not hasattr(dataset, "__getitem__") else dataset
    )


def given_whole(dataset: Any) -> Any:
    return dataset.rtrain_shard(0, 1) if hasattr(dataset, "rtrain_shard") else dataset


def _is_torch_map(dataset: Any) -> bool:
    import sys

    torch_data = sys.modules.get("torch.utils.data")
    if torch_data is None or not isinstance(dataset, torch_data.Dataset):
        return False
    return not isinstance(dataset, torch_data.IterableDataset) and hasattr(dataset, "__len__")


def _places(items: int, rank: int, count: int, *, equal: bool) -> range:
    return range(rank, items // count * count if equal else items, count)


class Strided:
    """Items rank, rank + n, rank + 2n ... of a sequence."""

    rtrain_share = True  # marks the object as this rank's share, so that neither a loader nor a Trainer splits it again

    def __init__(self, items: Any, rank: int, count: int, *, equal: bool = True) -> None:
        self._items = items
        self._places = _places(len(items), rank, count, equal=equal)

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, place: int) -> Any:
        return self._items[self._places[place]]

    def __iter__(self) -> Iterator[Any]:
        return (self._items[place] for place in self._places)


class EveryNth:
    """The items rank, rank + n, rank + 2n ... of an iterable. Each rank reads all items and skips those of other
    ranks. With `equal` an item is yielded only if there is one for every rank.
    """

    rtrain_share = True

    def __init__(self, items: Any, rank: int, count: int, *, equal: bool = True) -> None:
        self._items = items
        self._rank, self._count, self._equal = rank, count, equal

    def __iter__(self) -> Iterator[Any]:
        items = iter(self._items)
        while turn := list(itertools.islice(items, self._count)):
            if self._rank < len(turn) and (len(turn) == self._count or not self._equal):
                yield turn[self._rank]
