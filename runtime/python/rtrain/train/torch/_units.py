"""The units that a loader's iteration fetches, in their order, from the first one that was not delivered yet.

A unit is a row's index. With a custom batch sampler, a unit is a whole batch. `Dealt` computes the batches of an
order that is known as a whole. `Walked` draws from a sampler during the iteration, and skips units by drawing them.
"""

from __future__ import annotations

import contextlib
import itertools
import zlib
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DistributedSampler, RandomSampler, SequentialSampler

from rtrain.train.torch._deal import Deal, padded
from rtrain.train.torch._global_batch import GlobalBatches
from rtrain.train.torch._place import Place
from rtrain.train.torch._placed import Wanted
from rtrain.train.torch._samplers import RankShare, is_divided, seeded_alike


@dataclass(frozen=True)
class Shape:
    """How the units of a loader are grouped into batches."""

    each: int  # number of units in a batch of one rank
    drop_last: bool
    unit: str  # "row": a unit is a row's index; "batch": a unit is a batch; "item": the loader makes no batches

    def wanted(self, units: list[Any], prefix: tuple[int, ...], positions: range) -> Wanted:
        if self.unit == "row":
            return Wanted(units, prefix, positions)
        if self.unit == "item":
            return Wanted(units[0], prefix, positions)
        return Wanted(units[0], (*prefix, positions.start), range(len(units[0])))


@dataclass(frozen=True)
class Begin:
    """The position at which an iteration begins."""

    seed: int
    epoch: int
    delivered: int  # number of units of the epoch that were delivered in earlier iterations
    multiple: int  # the number of units of an epoch is padded to a multiple of this number
    # checksum of the units that the sampler had drawn for the loaded state; None: not compared
    check: int | None = None


def kind_of(loader: Any) -> Kind:
    """Returns the kind of order of a prepared loader whose units are already split among ranks."""
    batches = loader.batch_sampler
    own_batches = batches is not None and loader.batch_size is None
    source = loader.sampler if batches is None or not own_batches else batches
    if isinstance(batches, GlobalBatches):
        return Steps(batches)
    if own_batches:
        shape = Shape(1, drop_last=False, unit="batch")
    elif batches is None:
        shape = Shape(1, drop_last=False, unit="item")
    else:
        shape = Shape(batches.batch_size, batches.drop_last, "row")
    if type(source) is RankShare:
        known = hasattr(source.whole, "__len__")
        return Dealing(source, shape, source.num_replicas, source.rank) if known else Walking(source.whole, shape, source)
    if type(source) is DistributedSampler:
        return Dealing(source, shape, source.num_replicas, source.rank, drop=source.drop_last)
    if type(source) is SequentialSampler or (type(source) is RandomSampler and _is_permutation(source)):
        return Dealing(source, shape, 1, 0)
    return Walking(source, shape, None)


def _is_permutation(sampler: RandomSampler) -> bool:
    return not sampler.replacement and sampler.num_samples == len(sampler.data_source)


# -- an order that is known as a whole ----------------------------------------------------------------------------------
class Dealing:
    """Begins epochs of a loader whose order is computed, or drawn as a whole, before it is distributed to ranks."""

    def __init__(self, sampler: Any, shape: Shape, ranks: int, rank: int, *, drop: bool = False) -> None:
        self.sampler: Any = sampler
        self.shape, self.ranks, self.rank, self.drop = shape, ranks, rank, drop
        self.multiple = ranks
        self.name = f"{shape.unit}s of {'an own sampler' if type(sampler) is RankShare else 'the dataset'}"
        is_shuffled = type(sampler) is RandomSampler or (type(sampler) is DistributedSampler and sampler.shuffle)
        self.order_name = "shuffled" if is_shuffled else "in the sampler's order"

    @property
    def rows(self) -> int:
        sampler = self.sampler
        if type(sampler) is RankShare:
            return len(sampler.whole)  # type: ignore[arg-type]
        dataset: Any = sampler.dataset if type(sampler) is DistributedSampler else sampler.data_source
        return len(dataset)

    def deal(self, multiple: int, delivered: int = 0) -> Deal:
        total = padded(self.rows, multiple, drop=self.drop)
        return Deal(total, self.shape.each, self.ranks, self.rank, min(delivered, total), self.shape.drop_last)

    def whole(self, multiple: int) -> int:
        return len(self.deal(multiple))

    def begin(self, begin: Begin) -> Dealt:
        return Dealt(self, self.deal(begin.multiple, begin.delivered), begin)

    def order(self, seed: int) -> Sequence[Any] | torch.Tensor:
        if type(self.sampler) is RankShare:
            with seeded_alike(seed, self.sampler.whole):
                return list(self.sampler.whole)
        if type(self.sampler) is RandomSampler or (type(self.sampler) is DistributedSampler and self.sampler.shuffle):
            return torch.randperm(self.rows, generator=torch.Generator().manual_seed(seed % 2**63))
        return range(self.rows)


class Dealt:
    """The units of one epoch of a `Dealing`."""

    def __init__(self, kind: Dealing, deal: Deal, begin: Begin) -> None:
        self.kind, self.deal, self.begin = kind, deal, begin
        self.given = 0
        self._order: Any = None
        self._checked: tuple[int, int | None] = (0, 0)  # number of units, and their checksum
        if begin.check is not None and begin.delivered:
            _compare(begin.check, self.check, kind.sampler)

    def __len__(self) -> int:
        return len(self.deal)

    def __iter__(self) -> Iterator[Wanted]:
        prefix, shape = (self.begin.seed, self.begin.epoch), self.kind.shape
        for batch in range(len(self.deal)):
            positions = self.deal.positions(batch)
            yield shape.wanted(_taken(self.order, positions), prefix, positions)

    @property
    def order(self) -> Any:
        if self._order is None:
            self._order = self.kind.order(self.begin.seed + self.begin.epoch)
        return self._order

    def give(self) -> None:
        self.given += 1

    @property
    def delivered(self) -> int:
        return self.deal.after(self.given)

    @property
    def check(self) -> int | None:
        if type(self.kind.sampler) is not RankShare:
            return None
        done, checksum = self._checked
        upto = min(self.delivered, len(self.order))
        if checksum is not None and upto > done:
            self._checked = upto, _checksum(self.order[done:upto], checksum)
        return self._checked[1]


def _taken(order: Any, positions: range) -> list[Any]:
    """Returns the order's units at the positions. Padding repeats the order from its beginning."""
    rows = len(order)
    if positions.stop <= rows:
        taken = order[positions.start : positions.stop : positions.step]
        return taken.tolist() if isinstance(taken, torch.Tensor) else list(taken)
    return [unit.item() if isinstance(unit, torch.Tensor) else unit for unit in (order[place % rows] for place in positions)]


# -- an order that is drawn on the way ----------------------------------------------------------------------------------
class Walking:
    """Begins epochs of a loader from whose sampler this rank draws during the iteration, because the sampler has no
    length, or because no other rank shares it.
    """

    order_name = "in the sampler's order"

    def __init__(self, sampler: Any, shape: Shape, share: RankShare | None) -> None:
        self.sampler, self.shape = sampler, shape
        self.ranks, self.rank = (1, 0) if share is None else (share.num_replicas, share.rank)
        self.multiple = 1
        self.divides_itself = share is None and (is_divided(sampler) or is_divided(getattr(sampler, "sampler", None)))
        self.name = f"{shape.unit}s of an own sampler"

    @property
    def rows(self) -> int | None:
        return len(self.sampler) if self._is_a_whole() else None

    def _is_a_whole(self) -> bool:
        return self.ranks == 1 and not self.divides_itself and hasattr(self.sampler, "__len__")

    def _dealing(self) -> Dealing:
        """Returns a Dealing of the same units, for a state of several ranks, including their padding."""
        return Dealing(RankShare(self.sampler, Place(1, 0, 0, 1, 0)), self.shape, 1, 0)

    def whole(self, multiple: int) -> int | None:
        return self._dealing().whole(multiple) if multiple > 1 and self._is_a_whole() else None

    def begin(self, begin: Begin) -> Walked | Dealt:
        return self._dealing().begin(begin) if begin.multiple > 1 and self._is_a_whole() else Walked(self, begin)


class Walked:
    """The units of one epoch of a `Walking`."""

    def __init__(self, kind: Walking, begin: Begin) -> None:
        self.kind, self.begin = kind, begin
        self.delivered = begin.delivered
        self.check: int | None = None if kind.divides_itself else (begin.check if begin.delivered else 0)
        self._fetched: deque[tuple[int, int | None]] = deque()

    def __len__(self) -> int:
        raise TypeError(f"{type(self.kind.sampler).__name__} has no length")

    def give(self) -> None:
        self.delivered, self.check = self._fetched.popleft()

    def __iter__(self) -> Iterator[Wanted]:
        kind, begin = self.kind, self.begin
        self._fetched.clear()
        with contextlib.nullcontext() if kind.divides_itself else seeded_alike(begin.seed + begin.epoch, kind.sampler):
            turns, check = self._skipped()
            ahead = next(turns, None)  # most samplers draw their whole order together with the first unit
        left = iter(()) if ahead is None else itertools.chain([ahead], turns)
        sampled = begin.delivered
        while True:
            chosen = list(itertools.islice(left, kind.shape.each))
            own = [turn[kind.rank] for turn in chosen if kind.rank < len(turn)]
            if not own or (kind.shape.drop_last and len(own) < kind.shape.each):
                return
            positions = range(sampled + kind.rank, sampled + kind.rank + len(own) * kind.ranks, kind.ranks)
            sampled += sum(map(len, chosen))
            check = None if check is None else _checksum(itertools.chain.from_iterable(chosen), check)
            self._fetched.append((sampled, check))
            yield kind.shape.wanted(own, (begin.seed, begin.epoch), positions)

    def _skipped(self) -> tuple[Iterator[list[Any]], int | None]:
        """Returns the sampler's units that follow the delivered ones, in groups of one unit per rank. To get there,
        draws the delivered units and compares their checksum.
        """
        units = iter(self.kind.sampler)
        skipped = list(itertools.islice(units, self.begin.delivered))
        check = None if self.kind.divides_itself else _checksum(skipped, 0)
        if self.begin.check is not None and self.begin.delivered:
            _compare(self.begin.check, check, self.kind.sampler)
        return iter(lambda: list(itertools.islice(units, self.kind.ranks)), []), check


# -- steps of GlobalBatches ---------------------------------------------------------------------------------------------
class Steps:
    """Begins epochs whose units are the optimizer steps of a `GlobalBatches`. A state contains no gradients, so an
    unfinished step begins again.
    """

    name = "steps of GlobalBatches"
    ranks = 1
    multiple = 1
    shape = Shape(1, drop_last=False, unit="batch")

    def __init__(self, batches: GlobalBatches) -> None:
        self.sampler = batches

    @property
    def order_name(self) -> str:
        order = f"shuffled by seed {self.sampler.seed}" if self.sampler.shuffle else "in the dataset's order"
        return f"{order}, with a size of {self.sampler.size}"

    @property
    def rows(self) -> int:
        return self.sampler.samples

    def whole(self, multiple: int) -> None:
        return None

    def begin(self, begin: Begin) -> Stepped:
        return Stepped(self.sampler, begin)


class Stepped:
    """The units of one epoch of `Steps`, which are optimizer steps."""

    check = None

    def __init__(self, batches: GlobalBatches, begin: Begin) -> None:
        self.batches, self.begin = batches, begin
        batches.epoch, batches.first_step = begin.epoch, begin.delivered
        self.delivered = begin.delivered
        self._given = 0

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Wanted]:
        return (Wanted(rows, (self.begin.seed, self.begin.epoch), positions) for rows, positions in self.batches.placed())

    def give(self) -> None:
        self._given += 1
        if self._given == self.batches.micro_batches(self.delivered):
            self.delivered, self._given = self.delivered + 1, 0


# A Kind begins epochs. Units are one epoch: iterating them gives the units to fetch. `give` counts a batch that the
# loop got. `delivered` is the number of units that all ranks have delivered. `check` is a checksum of the units that a
# custom sampler drew, or None.
Kind = Dealing | Walking | Steps
Units = Dealt | Walked | Stepped


# -- checksums -----------------------------------------------------------------------------------------------------
def _checksum(units: Iterable[Any], before: int) -> int | None:
    """Returns a checksum of indices, or of lists of indices; None if a unit is of another type."""
    numbers = array("q")
    try:
        for unit in units:
            if hasattr(unit, "__index__"):
                numbers.append(unit)
            else:
                numbers.extend(unit)
    except (TypeError, OverflowError, ValueError, RuntimeError):
        return None
    return zlib.crc32(numbers.tobytes(), before)


def _compare(expected: int, checksum: int | None, sampler: Any) -> None:
    if checksum is not None and checksum != expected:
        own = sampler.whole if type(sampler) is RankShare else sampler
        raise ValueError(
            f"{type(own).__name__} drew other indices than in the epoch that the loader's state was taken in, so that what is left of the epoch is "
            "unknown. Have the sampler draw from the global generators of torch, random or NumPy when its iteration begins, or from the epoch "
            "that `set_epoch` names; then an epoch has one order. Without load_state_dict, the epoch starts from its beginning"
        )
