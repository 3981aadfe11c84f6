"""Keeps the size of the global batch for any number of workers. Each rank gets its part in micro batches that fit
into its memory.

Elastic runs change their world size. With `GlobalBatches` the optimizer sees the same samples in the same steps at
any size, so neither the learning rate nor the number of steps changes with it.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Sized
from typing import Any

import torch
from torch.utils.data import Sampler

from rtrain._lazy import public_in
from rtrain.train.torch._place import place


@dataclasses.dataclass(frozen=True)
class MicroBatch:
    """One forward and backward pass of an optimizer step.

    step: the optimizer step in this epoch, from 0.
    weight: multiply the (mean) loss by it. The gradient, summed over micro batches and averaged over ranks, is then
    that of the mean over the whole global batch.
    last: step the optimizer after this one.
    """

    step: int
    weight: float
    last: bool

    def sync(self, model: Any) -> contextlib.AbstractContextManager[Any]:
        """Gives a context for forward and backward. Gradients are exchanged between ranks only in the last micro batch
        of a step.
        """
        quiet = getattr(model, "no_sync", None)
        return contextlib.nullcontext() if self.last or quiet is None else quiet()


class GlobalBatches(Sampler[list[int]]):
    """A batch sampler that keeps the size of the global batch, whatever the number of workers.

    Use it by `DataLoader(dataset, batch_sampler=GlobalBatches(dataset, size=256, micro_batch=32))`.

    dataset: the dataset, or its number of samples.
    size: samples per optimizer step, over all ranks.
    micro_batch: the largest number of samples of one forward pass on one rank.
    shuffle, seed: `seed` and the epoch determine the permutation, for all ranks and world sizes.
    drop_last: leaves out the last, smaller global batch; otherwise that batch is used with its own size.

    Raises ValueError if `size` is below the number of workers, so that a rank would have no sample in a step.
    """

    def __init__(
        self,
        dataset: Sized | int,
        size: int,
        micro_batch: int,
        *,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = True,
    ) -> None:
        here = place()
        if micro_batch < 1 or size < here.world_size:
            raise ValueError(
                f"GlobalBatches(size={size}, micro_batch={micro_batch}): micro_batch must be at least 1, and size at "
                f"least the number of workers ({here.world_size})"
            )
        self.samples = dataset if isinstance(dataset, int) else len(dataset)
        self.size, self.micro_batch = size, micro_batch
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        self.num_replicas, self.rank = here.world_size, here.world_rank
        self.epoch, self.first_step = 0, 0

    def set_epoch(self, epoch: int, first_step: int = 0) -> None:
        """Sets the epoch of the next iteration. first_step: the optimizer step to begin with, to resume within an
        epoch.
        """
        self.epoch, self.first_step = epoch, first_step

    @property
    def steps(self) -> int:
        """The number of optimizer steps of a whole epoch."""
        whole, rest = divmod(self.samples, self.size)
        return whole + (1 if rest >= self.num_replicas and not self.drop_last else 0)

    def __iter__(self) -> Iterator[list[int]]:
        return (samples for samples, _ in self.placed())

    def placed(self) -> Iterator[tuple[list[int], range]]:
        """Returns an iterator over the micro batches: the samples of each, and their positions in the epoch's order."""
        order = self._order()
        for step in range(self.first_step, self.steps):
            for micro in self._micro(step):
                # A rank without a sample of its own takes one more, with weight 0.
                chosen = micro or range(micro.start, micro.start + 1)
                yield order[chosen.start : chosen.stop], chosen

    def micro_batches(self, step: int) -> int:
        """Returns the number of micro batches that each rank has in a step."""
        return len(self._micro(step))

    def __len__(self) -> int:
        return sum(len(self._micro(step)) for step in range(self.first_step, self.steps))

    def over(self, loader: Iterable[Any]) -> Iterator[tuple[Any, MicroBatch]]:
        """Returns an iterator over a loader that uses this sampler: each batch with its MicroBatch."""
        batches = iter(loader)
        for step in range(self.first_step, self.steps):
            micros = self._micro(step)
            for number, micro in enumerate(micros):
                weight = len(micro) * self.num_replicas / len(self._samples_of(step))
                yield next(batches), MicroBatch(step, weight, last=number == len(micros) - 1)

    def _samples_of(self, step: int) -> range:
        return range(step * self.size, min((step + 1) * self.size, self.samples))

    def _micro(self, step: int) -> list[range]:
        """Returns this rank's samples of a step, in equally many parts on every rank (sharded models need that)."""
        whole = self._samples_of(step)
        first, own_rows = _part(whole, self.rank, self.num_replicas)
        largest = -(-len(whole) // self.num_replicas)
        parts = -(-largest // self.micro_batch)
        starts = [first + _part(range(own_rows), number, parts)[0] for number in range(parts)]
        return [range(start, stop) for start, stop in zip(starts, [*starts[1:], first + own_rows], strict=True)]

    def _order(self) -> list[int]:
        if not self.shuffle:
            return list(range(self.samples))
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        return torch.randperm(self.samples, generator=generator).tolist()


def _part(whole: range, number: int, parts: int) -> tuple[int, int]:
    """Returns begin and length of part number `number`, if `whole` is divided into `parts` parts. Lengths differ by at
    most one; later parts are longer.
    """
    start, stop = (whole.start + len(whole) * at // parts for at in (number, number + 1))
    return start, stop - start


public_in("rtrain.train.torch", GlobalBatches, MicroBatch)
