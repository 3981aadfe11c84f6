"""Samplers that give each rank its share of the items of the user's own sampler, and `set_epoch` for every sampler."""

from __future__ import annotations

import contextlib
import itertools
import random
import sys
from collections.abc import Iterable, Iterator, Sized
from typing import Any

import torch
from torch.utils.data import DistributedSampler, Sampler

from rtrain.train.torch._place import Place


class EpochSampler(Sampler[Any]):
    """The type of a prepared loader's sampler for type checkers. It has `set_epoch`, whatever sampler it is."""

    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration shuffle as in `epoch`."""


class RankShare(Sampler[Any]):
    """Every world-th item of `whole` (an index, or a batch of them). Items from its front pad it, so that every rank
    has the same number.

    The ranks must draw the same order. While `whole` draws, torch's generator has a seed that all ranks share and
    that differs by epoch. A sampler without a length (an endless one) draws during the iteration, with its own
    generators.
    """

    def __init__(self, whole: Iterable[Any], place: Place, seed: int = 0) -> None:
        self.whole = whole
        self.num_replicas, self.rank = place.world_size, place.world_rank
        self.seed, self.epoch = seed, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        onward = getattr(self.whole, "set_epoch", None)
        if callable(onward):
            onward(epoch)

    def __iter__(self) -> Iterator[Any]:
        if not isinstance(self.whole, Sized):
            return itertools.islice(iter(self.whole), self.rank, None, self.num_replicas)
        with seeded_alike(self.seed + self.epoch, None):
            items = list(self.whole)
        if items:
            missing = -len(items) % self.num_replicas
            items += list(itertools.islice(itertools.cycle(items), missing))
        return iter(items[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        if not isinstance(self.whole, Sized):
            raise TypeError(f"{type(self.whole).__name__} has no length")
        return (len(self.whole) + self.num_replicas - 1) // self.num_replicas

    def __getattr__(self, name: str) -> Any:
        if name in ("whole", "__setstate__"):
            raise AttributeError(name)
        return getattr(self.whole, name)


@contextlib.contextmanager
def seeded_alike(seed: int, sampler: Any) -> Iterator[None]:
    """Seeds the generators of a sampler: its own one permanently, those of torch, `random` and NumPy during the
    block.
    """
    own = own_generator(sampler)
    if own is not None:
        own.manual_seed(seed % 2**63)
    numpy = sys.modules.get("numpy")
    kept, kept_by_numpy = random.getstate(), None if numpy is None else numpy.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed % 2**63)
        random.seed(seed)
        if numpy is not None:
            numpy.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(kept)
            if numpy is not None:
                numpy.random.set_state(kept_by_numpy)


def own_generator(sampler: Any) -> torch.Generator | None:
    """Returns the torch generator that a sampler, or the sampler of a batch sampler, was given; None if there is
    none.
    """
    for each in (getattr(sampler, "sampler", None), sampler):
        generator = getattr(each, "generator", None)
        if isinstance(generator, torch.Generator):
            return generator
    return None


class Reseed:
    """Implements `set_epoch` for a sampler that has none. Seeds the sampler's generator from the epoch, so that an
    epoch has the same order after any number of restarts. Does nothing for a sampler without a generator.
    """

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler
        own = getattr(sampler, "generator", None)
        self.seed = own.initial_seed() if isinstance(own, torch.Generator) else 0

    def __call__(self, epoch: int) -> None:
        if not hasattr(self.sampler, "generator"):
            return
        if self.sampler.generator is None:
            self.sampler.generator = torch.Generator()
        self.sampler.generator.manual_seed((self.seed + epoch) % 2**63)


def is_divided(sampler: Any) -> bool:
    """Returns whether a sampler already gives this rank its share."""
    return isinstance(sampler, DistributedSampler | RankShare) or hasattr(sampler, "num_replicas")


def with_set_epoch(sampler: Any) -> None:
    """Adds `set_epoch` to a sampler that lacks it, if Python allows that."""
    if hasattr(sampler, "set_epoch"):
        return
    inner = getattr(sampler, "sampler", None)  # in a batch sampler, the inner sampler draws the order
    try:
        sampler.set_epoch = Reseed(sampler if inner is None else inner)
    except AttributeError:  # the sampler has __slots__, so it cannot get the method
        return
