"""Runs the iterations of a prepared loader: records which items were fetched, which the loop has received, and the
state in between.

`OfItems` is for datasets whose items have indices, `OfStream` for an IterableDataset with a state of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import torch
from torch.utils.data import DataLoader, IterableDataset, Sampler
from torch.utils.data.distributed import DistributedSampler

from rtrain.train.torch._loader_state import VERSION, EpochHook, Position
from rtrain.train.torch._place import place
from rtrain.train.torch._placed import placed
from rtrain.train.torch._samplers import own_generator
from rtrain.train.torch._streams import Streams
from rtrain.train.torch._units import Units, Walking, kind_of

_STREAM = "a stream"
Given = Callable[[Iterator[Any]], Iterator[Any]]  # type of a function that counts batches when the loop receives them


class Progress(Protocol):
    """The interface by which a prepared loader runs its iterations and keeps its state."""

    def begin(self) -> tuple[Iterator[Any], Given]:
        """Begins an iteration. Returns its batches, and a function that counts them on delivery."""
        ...

    def length(self) -> int: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


def progress_of(loader: DataLoader[Any], *, whole: bool) -> Progress:
    """Returns the progress of a prepared loader. whole: True if its dataset is not only this rank's share."""
    return OfStream(loader) if isinstance(loader.dataset, IterableDataset) else OfItems(loader, whole=whole)


class _Index(Sampler[Any]):
    """The index sampler of the loader that fetches. Yields the indices of the current iteration."""

    def __init__(self) -> None:
        self.units: Units | None = None

    def __iter__(self) -> Iterator[Any]:
        return iter(() if self.units is None else self.units)

    def __len__(self) -> int:
        return 0 if self.units is None else len(self.units)


class OfItems:
    """Progress of a loader whose dataset's items have indices."""

    def __init__(self, loader: DataLoader[Any], *, whole: bool) -> None:
        self.loader = loader
        kind = kind_of(loader)
        own = not whole or (isinstance(kind, Walking) and kind.divides_itself)
        generator = own_generator(kind.sampler)
        seed = None if generator is None else generator.initial_seed()
        if type(kind.sampler) is DistributedSampler:
            seed = kind.sampler.seed
        self.position = Position(kind, seed, place().world_size if own else None)
        if type(kind.sampler) is DistributedSampler:
            self.position.epoch = kind.sampler.epoch
        for sampler in {id(each): each for each in (loader.sampler, kind.sampler)}.values():
            if hasattr(sampler, "__dict__"):
                vars(sampler)["set_epoch"] = EpochHook(sampler, self.position)
        self._fetching: DataLoader[Any] | None = None
        self._index = _Index()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_fetching": None, "_index": _Index()}

    def begin(self) -> tuple[Iterator[Any], Given]:
        units, resumes = self.position.begin()
        self._index.units = units
        if self._fetching is None:
            self._fetching = self._that_fetches()
        if resumes:
            # An earlier start of this epoch has already drawn from torch's generator, so its state is restored
            # afterwards.
            with torch.random.fork_rng(devices=[]):
                batches = iter(self._fetching)
        else:
            batches = iter(self._fetching)
        return batches, lambda moved: self._given(moved, units)

    def _that_fetches(self) -> DataLoader[Any]:
        fetching = copy.copy(self.loader)
        batched = fetching.batch_sampler is not None
        fetching.__dict__.update({"_iterator": None, "batch_sampler" if batched else "sampler": self._index})
        placed(fetching)
        return fetching

    def _given(self, batches: Iterator[Any], units: Units) -> Iterator[Any]:
        give = units.give
        for batch in batches:
            give()
            yield batch
        self.position.ended(units)

    def length(self) -> int:
        own = type(self.loader).__len__ is not DataLoader.__len__
        whole = None if own else self.position.kind.whole(self.position.multiple)
        return len(self.loader) if whole is None else whole

    def state_dict(self) -> dict[str, Any]:
        return self.position.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.position.load_state_dict(state)


# -- an IterableDataset -------------------------------------------------------------------------------------------------
def why_not(loader: DataLoader[Any]) -> str:
    """Returns why the loader has no state; empty if it has one."""
    dataset = loader.dataset
    name = type(dataset).__name__
    if loader.num_workers > 1 and not getattr(loader, "in_order", True):
        return "with in_order=False the batches that the loop was given are not the first ones of the epoch. Leave in_order out"
    if not isinstance(dataset, IterableDataset):
        return ""
    if not (hasattr(dataset, "state_dict") and hasattr(dataset, "load_state_dict")):
        return (
            f"{name} is an IterableDataset without state_dict and load_state_dict, so that only fetching its items again could find the place. "
            "Give it both methods, or use a dataset with __getitem__ and __len__, or rtrain.data"
        )
    if getattr(dataset, "rtrain_share", False) and loader.num_workers:
        return (
            f"the {loader.num_workers} processes of the loader each read a part of a share of rtrain.data, whose state counts one reader. Use "
            "num_workers=0, or shard.iter_torch_batches(...) and shard.state_dict()"
        )
    return ""


class OfStream:
    """Progress of a loader of an IterableDataset. The state contains the dataset's own state in each process of the
    loader.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.loader = loader
        self.knows = not why_not(loader)
        self.world = None if getattr(loader.dataset, "rtrain_share", False) else place().world_size
        self.epoch = 0  # the epoch of the next iteration
        self.streams = Streams(loader)
        self._loaded: Mapping[str, Any] | None = None
        self._ended = True
        self._fetching: DataLoader[Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_fetching": None}

    def begin(self) -> tuple[Iterator[Any], Given]:
        loaded, self._loaded, self._ended = self._loaded, None, False
        self.epoch = 1 + (self.epoch if loaded is None else int(loaded["epoch"]))
        if not self.knows:
            return iter(self.loader), lambda batches: batches
        self.streams = Streams(self.loader)
        if loaded is not None:
            self.streams.load(loaded)
            self._fetching = None  # made anew, since persistent worker processes do not have the loaded state
        if self._fetching is None:
            self._fetching = self.streams.that_fetches(self.loader)
        fetched = self.streams.fetched(iter(self._fetching))
        if loaded is not None and not self.loader.persistent_workers:
            self._fetching = None  # made anew, since the processes of the next epoch must not load the state again
        return fetched, self._given

    def _given(self, batches: Iterator[Any]) -> Iterator[Any]:
        streams = self.streams
        for batch in batches:
            streams.give()
            yield batch
        self._ended = self._ended or streams is self.streams

    def length(self) -> int:
        return len(self.loader)

    def state_dict(self) -> dict[str, Any]:
        if self._loaded is not None:
            return dict(self._loaded)
        state = {"version": VERSION, "kind": _STREAM, "world": self.world, "workers": self.loader.num_workers}
        if not self._ended:
            return {**state, "epoch": self.epoch - 1, **self.streams.state()}
        own: Any = self.loader.dataset if getattr(self.loader.dataset, "rtrain_share", False) else None
        return {**state, "epoch": self.epoch, "states": {} if own is None else {0: own.state_dict()}, "next": 0}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if not isinstance(state, Mapping) or not state.keys() >= {"version", "kind", "epoch"}:
            raise ValueError("this is no state of a prepared loader: it is what loader.state_dict() returned")
        if (state["version"], state["kind"]) != (VERSION, _STREAM):
            raise ValueError(
                f"the state (version {state['version']}, {state['kind']}) is not of a loader over an IterableDataset (version {VERSION})"
            )
        now = {"world": self.world, "workers": self.loader.num_workers}
        for name, words in (("world", "ranks"), ("workers", "num_workers")):
            if state["states"] and state[name] != now[name]:
                raise ValueError(
                    f"the state is of a loader with {words}={state[name]}, and this one has {now[name]}: each rank and each process of a loader "
                    "reads its own part of an IterableDataset, so that an epoch goes on with as many. rtrain.data's shares take any number of ranks"
                )
        self._loaded = dict(state)
