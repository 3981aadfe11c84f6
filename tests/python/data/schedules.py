"""Schedules of kills and resizes, and the rows that the ranks of a run deliver under them.

A schedule is a list of attempts, each with its number of ranks and the number of global batches after which it is
killed. Each attempt resumes from the newest saved state, so batches after that state are delivered again. The test
compares the run's history: the batches up to each state from which an attempt started, then those of the last
attempt.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rtrain.data._dealing._lanes import Dealing

SIZES = (1, 2, 4, 8)
EPOCHS = 2


@dataclass(frozen=True)
class Attempt:
    world: int
    batches: int | None  # number of batches before the kill; None: the attempt reads to the end


@dataclass(frozen=True)
class Schedule:
    streams: int
    batch: int  # number of rows of a global batch
    saves: int  # a state is saved after each global batch whose number is a multiple of this
    attempts: tuple[Attempt, ...]


def random_schedule(numbers: random.Random, streams: int = 8) -> Schedule:
    """Returns a schedule whose numbers of ranks divide the number of streams and the batch."""
    batch = 8 * numbers.randint(1, 4)
    attempts = [Attempt(numbers.choice(SIZES), numbers.randint(0, 9)) for _ in range(numbers.randint(1, 5))]
    return Schedule(streams, batch, numbers.randint(1, 4), (*attempts, Attempt(numbers.choice(SIZES), None)))


class Ranks:
    """The ranks of one attempt. Subclasses implement how they read."""

    def load(self, state: dict[str, Any]) -> None:
        raise NotImplementedError

    def states(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def epochs(self) -> Iterator[Iterator[list[Any]]]:
        """Yields the remaining epochs. Each yields the rows of its global batches, those of rank 0 first."""
        raise NotImplementedError


class Readers(Ranks):
    """Ranks that read a dataset, in one process."""

    def __init__(
        self,
        dataset: Any,
        streams: int,
        world: int,
        each: int,
        ahead: int,
        options: dict[str, Any],
        rows: Callable[[Any], list[Any]] = lambda batch: batch["id"].tolist(),
    ) -> None:
        self.shares = [dataset.rtrain_share_of_run(rank, world, 7, equal=True, streams=streams) for rank in range(world)]
        self.each, self.ahead, self.options, self.rows = each, ahead, options, rows

    def load(self, state: dict[str, Any]) -> None:
        for share in self.shares:
            share.load_state_dict(state)

    def states(self) -> list[dict[str, Any]]:
        return [share.state_dict() for share in self.shares]

    def epochs(self) -> Iterator[Iterator[list[Any]]]:
        while self.shares[0].state_dict()["epoch"] < EPOCHS:
            yield self._batches()

    def _batches(self) -> Iterator[list[Any]]:
        parts = [iter(one.iter_batches(batch_size=self.each, prefetch_batches=self.ahead, **self.options)) for one in self.shares]
        try:
            for batches in zip(*parts, strict=True):
                yield [row for batch in batches for row in self.rows(batch)]
        finally:
            for part in parts:
                part.close()


def history(schedule: Schedule, ranks: Callable[[int, int], Ranks]) -> list[tuple[int, list[Any]]]:
    """Returns the epoch and the rows of each global batch that a run gives out. `ranks` makes those of an attempt, for so many rows a rank."""
    kept: list[tuple[int, list[Any]]] = []
    state: dict[str, Any] | None = None
    for attempt in schedule.attempts:
        group = ranks(attempt.world, schedule.batch // attempt.world)
        if state is not None:
            group.load(json.loads(json.dumps(state)))
        given, saved, state = _until_killed(group, attempt, schedule.saves, state)
        if saved is None:
            return kept + given
        kept += given[:saved]
    raise AssertionError("the last attempt reads to the end")


def _until_killed(
    group: Ranks, attempt: Attempt, saves: int, state: dict[str, Any] | None
) -> tuple[list[tuple[int, list[Any]]], int | None, dict[str, Any] | None]:
    """Returns the batches of an attempt, the number of them in its newest state (None: it reached the end), and that
    state.
    """
    given: list[tuple[int, list[Any]]] = []
    epoch, saved = 0 if state is None else state["epoch"], 0
    if attempt.batches == 0:
        return given, 0, state
    for batches in group.epochs():
        for rows in batches:
            given.append((epoch, rows))
            if len(given) == attempt.batches:
                return given, saved, state
            if len(given) % saves == 0:
                states = group.states()
                assert states == states[:1] * len(states)  # the states of all ranks are equal
                state, saved = states[0], len(given)
        epoch += 1
    return given, None, state


def same(schedule: Schedule, expected: list[Any], disturbed: list[Any], case: Any) -> None:
    """The full batches of an epoch are equal, and fewer rows than there are ranks are left out of its last batch."""
    for epoch in range(EPOCHS):
        wanted, given = ([batch for at, batch in one if at == epoch] for one in (expected, disturbed))
        full = [batch for batch in wanted if len(batch) == schedule.batch]
        assert given[: len(full)] == full, (case, schedule)
        end, given_end = ([row for batch in batches[len(full) :] for row in batch] for batches in (wanted, given))
        assert len(end) - max(SIZES) < len(given_end) <= len(end) and set(given_end) <= set(end), (case, schedule)


# -- faults that tests plant ------------------------------------------------------------------------------------------
def one_more(self: Any, given: int, stream: int) -> int:
    return (given + self.count - stream) // self.count


def made_ahead(blocks: Any, progress: Any, batch_of: Any, ahead: int, finish: Any = None) -> Iterator[Any]:
    """Counts a batch when it is made, not when the loop is given it."""
    waiting = []
    for block in blocks:
        progress.consumed += block.rows
        waiting.append(block)
        if len(waiting) > ahead:
            yield batch_of(waiting.pop(0))
    for block in waiting:
        yield batch_of(block)
    progress.ended = True


def of_no_epoch(self: Any, own: int | None, salt: int) -> Any:
    import numpy as np

    return np.random.default_rng([self.seed if own is None else own, salt])


def gives_one_more(self: Any, stream: int, rows: int, cuts: Any, give: Any = Dealing._give) -> None:
    give(self, stream, rows, cuts)
    if self.lanes[stream].given > 1:
        self.lanes[stream].given -= 1
