"""A rank's share of the trainer's datasets: a strided Subset of a torch Dataset, every n-th item of an iterable,
neighbouring rows of `rtrain.data`. Shares have equal sizes unless `DataConfig(equal=False)` is set. The remaining
items (fewer than the ranks) are left out, since ranks with unequal numbers of steps would wait for each other for
ever.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from rtrain.train import _session
from rtrain.train._configs import DataConfig
from rtrain.train._values._facts import Facts
from rtrain.train._values._shares import built, given_whole, split

TRAIN_DATASET_KEY = "train"  # name of the dataset that scripts usually use


class Shards:
    """The datasets of a run, split at their first use. A callable is called once per attempt to make its dataset."""

    def __init__(self, datasets: Mapping[str, Any], config: DataConfig | None, facts: Facts) -> None:
        self._datasets = dict(datasets)
        self._config = config or DataConfig()
        self._facts = facts
        self._made: dict[str, Any] = {}
        self._configured: list[dict[str, Any]] | None = None
        self._most: int | None = None

    def shard(self, name: str | None, state_dict: Mapping[str, Any] | None = None) -> Any:
        share = self._dataset_named(name)
        if state_dict is not None:
            if not hasattr(share, "load_state_dict"):
                raise TypeError(
                    f"get_dataset_shard(state_dict=): a share of type {type(share).__name__} has no load_state_dict; rtrain.data's have"
                )
            share.load_state_dict(state_dict)
        return share

    def _dataset_named(self, name: str | None) -> Any:
        dataset_name = name or ("train" if "train" in self._datasets or len(self._datasets) != 1 else next(iter(self._datasets)))
        if dataset_name not in self._datasets:
            there = ", ".join(sorted(self._datasets)) or "none"
            raise KeyError(f"there is no dataset {dataset_name!r}; the trainer was given: {there}")
        if dataset_name not in self._made:
            self._made[dataset_name] = self._make(dataset_name)
        return self._made[dataset_name]

    def _make(self, name: str) -> Any:
        if type(self._config).configure is not DataConfig.configure:
            if self._configured is None:
                whole = {key: built(value) for key, value in self._datasets.items()}
                self._configured = self._config.configure(whole, self._facts.world_size, None, None)
            return self._configured[self._facts.world_rank][name]
        whole = built(self._datasets[name])
        if not self._config.splits(name):
            return given_whole(whole)
        if hasattr(whole, "rtrain_share_of_run"):
            return self._agreed(whole)
        return split(whole, self._facts, equal=self._config.equal)

    def _agreed(self, dataset: Any) -> Any:
        """Lets the ranks agree on a dataset of `rtrain.data`: on its counts, its rows and its number of streams. It
        is a barrier.
        """
        facts = self._facts
        seed = zlib.crc32(facts.run_id.encode())
        equal, streams = self._config.equal, self._config.streams
        usual = None if streams is not None or facts.world_rank else self._most_ranks()
        share = dataset.rtrain_share_of_run(
            facts.world_rank, facts.world_size, seed, equal=equal, streams=streams, usual_streams=usual
        )
        if facts.world_size > 1:
            share._agree(_session.current("get_dataset_shard").exchange)
        return share

    def _most_ranks(self) -> int:
        """Returns the largest number of ranks that the run may have."""
        if self._most is None:
            self._most = _session.current("get_dataset_shard").resize_info().max_workers
        return self._most
