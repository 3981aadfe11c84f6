"""A rank's share of the datasets given to a trainer: torch Datasets by a strided Subset, iterables by every n-th item,
`rtrain.data`'s by neighbouring rows. Shares are of one size unless `DataConfig(equal=False)` says otherwise: the items that are
over (fewer than the ranks) are nobody's, since ranks that take unequal numbers of steps wait for each other for ever."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from rtrain.train import _session
from rtrain.train._configs import DataConfig
from rtrain.train._session import Facts

TRAIN_DATASET_KEY = "train"  # the name that most scripts give


class Shards:
    """The datasets of a run, split when first asked for. A callable is called once per attempt to make its dataset."""

    def __init__(self, datasets: Mapping[str, Any], config: DataConfig | None, facts: Facts) -> None:
        self._datasets = dict(datasets)
        self._config = config or DataConfig()
        self._facts = facts
        self._made: dict[str, Any] = {}
        self._configured: list[dict[str, Any]] | None = None

    def shard(self, name: str | None, state_dict: Mapping[str, Any] | None = None) -> Any:
        found = self._found(name)
        if state_dict is not None:
            if not hasattr(found, "load_state_dict"):
                raise TypeError(
                    f"get_dataset_shard(state_dict=): a share of type {type(found).__name__} has no load_state_dict; rtrain.data's have"
                )
            found.load_state_dict(state_dict)
        return found

    def _found(self, name: str | None) -> Any:
        asked = name or ("train" if "train" in self._datasets or len(self._datasets) != 1 else next(iter(self._datasets)))
        if asked not in self._datasets:
            there = ", ".join(sorted(self._datasets)) or "none"
            raise KeyError(f"there is no dataset {asked!r}; the trainer was given: {there}")
        if asked not in self._made:
            self._made[asked] = self._make(asked)
        return self._made[asked]

    def _make(self, name: str) -> Any:
        if type(self._config).configure is not DataConfig.configure:
            if self._configured is None:
                built = {key: _built(value) for key, value in self._datasets.items()}
                self._configured = self._config.configure(built, self._facts.world_size, None, None)
            return self._configured[self._facts.world_rank][name]
        whole = _built(self._datasets[name])
        if not self._config.splits(name):
            return _given_whole(whole)
        if hasattr(whole, "rtrain_share_of_run"):
            return self._agreed(whole)
        return split(whole, self._facts, equal=self._config.equal)

    def _agreed(self, dataset: Any) -> Any:
        """Of `rtrain.data`: the ranks count together what must be counted, and see the same rows. A barrier."""
        facts = self._facts
        seed = zlib.crc32(facts.run_id.encode())
        share = dataset.rtrain_share_of_run(facts.world_rank, facts.world_size, seed, equal=self._config.equal)
        if facts.world_size > 1:
            share._agree(_session.current("get_dataset_shard").exchange)
        return share


def split(dataset: Any, facts: Facts, *, equal: bool = True) -> Any:
    """This rank's share; with `equal` every rank has as many items. A dataset that knows how (`rtrain_shard`) does it itself."""
    if hasattr(dataset, "rtrain_shard"):
        return dataset.rtrain_shard(facts.world_rank, facts.world_size)
    if facts.world_size == 1:
        return _given_whole(dataset)
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


def _built(dataset: Any) -> Any:
    return (
        dataset() if callable(dataset) and not hasattr(dataset, "__iter__") and not hasattr(dataset, "__getitem__") else dataset
    )


def _given_whole(dataset: Any) -> Any:
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

    rtrain_share = True  # it is this rank's already: neither a loader nor a Trainer divides it again

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
    """Items rank, rank + n, rank + 2n ... of an iterable; each rank reads all and keeps its own. With `equal` an item is given
    once there is one for every rank."""

    rtrain_share = True

    def __init__(self, items: Any, rank: int, count: int, *, equal: bool = True) -> None:
        self._items = items
        self._rank, self._count, self._equal = rank, count, equal

    def __iter__(self) -> Iterator[Any]:
        items = iter(self._items)
        while turn := list(itertools.islice(items, self._count)):
            if self._rank < len(turn) and (len(turn) == self._count or not self._equal):
                yield turn[self._rank]
