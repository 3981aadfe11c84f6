"""Simulated schedules of kills and resizes: the global batches of a plain loader equal those of the undisturbed run.

No process is started and no item is fetched. The fetched indices are computed from the loader's state, for each rank
of each attempt. RTRAIN_TEST_SCHEDULES=10000 tests more schedules.
"""

import itertools
import os
import random

import pytest
import torch
from rtrain.train.torch import _units
from rtrain.train.torch._deal import Deal
from rtrain.train.torch._loader_state import Position
from rtrain.train.torch._place import Place
from rtrain.train.torch._samplers import RankShare
from rtrain.train.torch._units import Dealing, Shape
from torch.utils.data import DistributedSampler

GLOBAL_SIZES = (8, 12, 24, 40)


class Backwards:
    """A custom sampler that draws from the generator of torch or of `random`."""

    def __init__(self, rows, draws):
        self.rows, self.draws = rows, draws

    def __len__(self):
        return self.rows

    def __iter__(self):
        order = list(range(self.rows))
        if self.draws == "torch":
            return iter(torch.randperm(self.rows).tolist())
        random.shuffle(order)
        return iter(order)


class Case:
    """One run: its number of rows, its shuffling, and its global batches."""

    def __init__(self, chance):
        self.rows = chance.randint(1, 160)
        self.together = chance.choice(GLOBAL_SIZES)
        self.sizes = [ranks for ranks in range(1, 9) if self.together % ranks == 0]
        self.kind = chance.choice(["in order", "shuffled", "own torch", "own random"])
        self.drop_last, self.seed = chance.random() < 0.3, chance.randrange(1000)
        self.drop_rows = self.kind in ("in order", "shuffled") and chance.random() < 0.2
        self.first = chance.choice(self.sizes)

    def positions(self, ranks, state):
        """Returns the position of each rank's loader."""
        made = []
        for rank in range(ranks):
            shape = Shape(self.together // ranks, self.drop_last, "row")
            if self.kind.startswith("own"):
                sampler = RankShare(Backwards(self.rows, self.kind[4:]), Place(ranks, rank, 0, 1, 0))
            else:
                sampler = DistributedSampler(
                    range(self.rows), ranks, rank, shuffle=self.kind == "shuffled", drop_last=self.drop_rows
                )
            position = Position(Dealing(sampler, shape, ranks, rank, drop=self.drop_rows), None, None)
            position.seed = self.seed
            if state is not None:
                position.load_state_dict(state)
            made.append(position)
        return made

    def total(self):
        return self.rows // self.first * self.first if self.drop_rows else -(-self.rows // self.first) * self.first


def batches_of(ranks):
    """Returns an iterator over global batches: the rows, without the padding to one row for each rank, and a count of the padding."""
    units = [position.begin()[0] for position in ranks]
    for turn in itertools.zip_longest(*units):
        assert None not in turn, "a rank has fewer batches than another one: the ranks would wait for ever"
        for one in units:
            one.give()
        placed = sorted((place, index) for wanted in turn for place, index in zip(wanted.positions, wanted.indices, strict=True))
        yield placed
    for position, one in zip(ranks, units, strict=True):
        position.ended(one)


def undisturbed(case, epochs):
    ranks = case.positions(case.first, None)
    return [list(batches_of(ranks)) for _ in range(epochs)]


def disturbed(case, chance, epochs):
    """Returns the batches of a run that is killed and resized. Batches after its newest state are delivered again."""
    size, state = case.first, None  # the padding is that of the attempt that begins without a state
    kept = [[] for _ in range(epochs)]
    for _ in range(chance.randint(1, 4)):
        ranks = case.positions(size, state)
        epoch = 0 if state is None else state["epoch"]
        saved, kills_at, steps = None, chance.randint(0, 40), 0
        for number in range(epoch, epochs):
            for placed in batches_of(ranks):
                kept[number].append(placed)
                steps += 1
                if chance.random() < 0.5:
                    states = [position.state_dict() for position in ranks]
                    assert all(one == states[0] for one in states), "the ranks' states differ"
                    saved = states[0]
                if steps > kills_at:
                    break
            else:
                continue
            break
        if saved is not None:
            state = saved
        at = 0 if state is None else state["epoch"]
        done = 0 if state is None else -(-state["delivered"] // case.together)
        kept[at] = kept[at][:done]
        kept[at + 1 :] = [[] for _ in kept[at + 1 :]]
        size = chance.choice(case.sizes)
        case.first = size if state is None else case.first
    ranks = case.positions(size, state)
    for number in range(0 if state is None else state["epoch"], epochs):
        kept[number].extend(batches_of(ranks))
    return kept


def check(seed):
    chance = random.Random(seed)
    case = Case(chance)
    delivered = disturbed(case, chance, 3)
    expected, total = undisturbed(case, 3), case.total()
    for epoch, (wanted, given) in enumerate(zip(expected, delivered, strict=True)):
        plain = [[pair for pair in batch if pair[0] < total] for batch in given]
        assert plain == wanted, f"schedule {seed}, epoch {epoch}: {case.__dict__}"
        for batch, rows in zip(given[:-1], plain[:-1], strict=True):
            assert batch == rows
        assert all(len(batch) <= 8 or batch == rows for batch, rows in zip(given, plain, strict=True))


def test_every_schedule_delivers_the_undisturbed_runs_batches():
    for seed in range(int(os.environ.get("RTRAIN_TEST_SCHEDULES") or 1000)):
        check(seed)


def found_by_schedules():
    for seed in range(200):
        try:
            check(seed)
        except (AssertionError, ValueError):
            return True
    return False


def test_a_state_that_counts_what_was_fetched_ahead_is_found(monkeypatch):
    monkeypatch.setattr(_units.Dealt, "delivered", property(lambda self: self.deal.after(self.given + 2)))
    assert found_by_schedules()


def test_a_state_that_is_one_row_off_is_found(monkeypatch):
    after = Deal.after
    monkeypatch.setattr(Deal, "after", lambda self, batches: min(after(self, batches) + 1, self.total))
    assert found_by_schedules()


def test_a_share_that_is_one_row_off_is_found(monkeypatch):
    positions = Deal.positions

    def moved(self, batch):
        right = positions(self, batch)
        return range(right.start, right.stop + (self.rank == 0 and batch == 1), right.step)

    monkeypatch.setattr(Deal, "positions", moved)
    assert found_by_schedules()


def test_a_seed_that_forgets_the_epoch_is_found():
    case = Case(random.Random(0))
    case.rows, case.kind, case.together, case.sizes, case.first, case.drop_rows = 64, "shuffled", 8, [2], 2, False
    first, second, _ = undisturbed(case, 3)
    assert first != second  # the order differs between epochs
    with pytest.MonkeyPatch.context() as patch:
        order = Dealing.order
        patch.setattr(Dealing, "order", lambda self, seed: order(self, case.seed))
        first, second, _ = undisturbed(case, 3)
        assert first == second


def test_a_million_rows_resume_in_milliseconds_without_an_item():
    state = {"version": 1, "kind": "rows of the dataset", "epoch": 3, "seed": 5, "delivered": 640_000, "rows": 1_000_000}
    sampler = DistributedSampler(range(1_000_000), 8, 3)
    position = Position(Dealing(sampler, Shape(32, drop_last=False, unit="row"), 8, 3), None, None)
    position.load_state_dict({**state, "multiple": 8, "world": None, "check": None})
    units, resumes = position.begin()
    wanted = next(iter(units))
    order = torch.randperm(1_000_000, generator=torch.Generator().manual_seed(8))
    assert resumes and wanted.indices == order[640_003 : 640_003 + 256 : 8].tolist()
