"""Kills and resizes change no global batch: the batches are those of an undisturbed run.

RTRAIN_SCHEDULES sets the number of schedules that test the arithmetic alone: 10,000 in the nightly checks.
"""

from __future__ import annotations

import os
import random

import pytest
import rtrain.data as data
import schedules
from rtrain.data import _batches, _position
from rtrain.data._dealing import _progress
from rtrain.data._dealing._progress import Given
from rtrain.data._dealing._streams import Streams
from rtrain.data._plan import Order


class Arithmetic(schedules.Ranks):
    """Ranks that read nothing. A row is its position."""

    def __init__(self, rows, streams, equal, world, each):
        self.streams, self.world, self.each, self.epoch = Streams(streams, rows, equal), world, each, 0
        self.resumed = None
        self.progress = []

    def load(self, state):
        self.resumed, self.epoch = _progress.read(state), state["epoch"]
        assert self.resumed.streams == self.streams

    def states(self):
        return [{"epoch": self.epoch, "seed": 0, **one.resumed().written()} for one in self.progress]

    def epochs(self):
        while self.epoch < schedules.EPOCHS:
            yield self._batches()
            self.epoch, self.resumed = self.epoch + 1, None

    def _batches(self):
        begun = 0 if self.resumed is None else self.resumed.given
        ranks = range(self.world)
        self.progress = [
            Given(epoch=self.epoch, rows=self.streams.rows, streams=self.streams, world=self.world, begun=begun) for _ in ranks
        ]
        for parts in zip(*(self.streams.batches(begun, self.each, self.world, rank) for rank in ranks), strict=True):
            for cuts, progress in zip(parts, self.progress, strict=True):
                progress.consumed += sum(cut.stop - cut.start for cut in cuts)
            starts = [self.streams.range_of(stream)[0] for stream in range(self.streams.count)]
            yield [starts[cut.stream] + row for cuts in parts for cut in cuts for row in range(cut.start, cut.stop)]


def test_ten_thousand_schedules_give_out_the_same_batches():
    numbers = random.Random(1)
    for _ in range(int(os.environ.get("RTRAIN_SCHEDULES", "500"))):
        schedule, rows = schedules.random_schedule(numbers), numbers.randint(0, 400)

        def ranks(world, each, rows=rows, schedule=schedule):
            return Arithmetic(rows, schedule.streams, True, world, each)

        quiet = schedules.Schedule(schedule.streams, schedule.batch, 1, (schedules.Attempt(1, None),))
        expected = schedules.history(quiet, ranks)
        assert schedules.history(schedule, ranks) == expected, schedule
        every = [row for _, batch in expected for row in batch]
        assert sorted(every) == sorted(2 * [*range(rows - rows % schedule.streams)])


def odd(row):
    return row["id"] % 3 != 0


PLANS = {
    "shuffled files": lambda d: d.random_shuffle(window_bytes=1),
    "one window": lambda d: d.random_shuffle().map(lambda row: {"id": row["id"]}),
    "filter, map, shuffle": lambda d: d.filter(odd).map(lambda row: {"id": row["id"]}).random_shuffle(window_bytes=1),
    "in order": lambda d: d,
}


def check(dataset, plan, number, options=None, ahead=(0, 2)):
    numbers = random.Random(f"{plan} {number}")
    schedule = schedules.random_schedule(numbers)

    def ranks(world, each):
        return schedules.Readers(dataset, schedule.streams, world, each, numbers.choice(ahead), options or {})

    quiet = schedules.Schedule(schedule.streams, schedule.batch, 1, (schedules.Attempt(1, None),))
    expected = schedules.history(quiet, ranks)
    schedules.same(schedule, expected, schedules.history(schedule, ranks), number)
    by_epoch = [[row for at, batch in expected if at == epoch for row in batch] for epoch in range(schedules.EPOCHS)]
    assert all(len(set(rows)) == len(rows) > 600 for rows in by_epoch)
    assert by_epoch[0] != by_epoch[1] or plan == "in order"


@pytest.mark.parametrize("options", [{}, {"local_shuffle_buffer_size": 16}], ids=["in order", "local shuffle"])
@pytest.mark.parametrize("plan", PLANS)
def test_readers_give_out_the_same_batches_after_kills_and_resizes(plan, options, parquet):
    dataset = PLANS[plan](data.read_parquet(str(parquet)))
    for number in range(6):
        check(dataset, plan, number, options)


# -- planted faults ---------------------------------------------------------------------------------------------------
FAULTS = {
    "an off-by-one in a stream's share": (Streams, "of_stream", schedules.one_more),
    "a state taken after prefetch": (_batches, "counted", schedules.made_ahead),
    "a seed that forgets the epoch": (Order, "random", schedules.of_no_epoch),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault, parquet, monkeypatch):
    monkeypatch.setattr(*FAULTS[fault])
    dataset = PLANS["shuffled files"](data.read_parquet(str(parquet)))
    with pytest.raises((AssertionError, RuntimeError, ValueError)):
        for number in range(6):
            check(dataset, "shuffled files", number, ahead=(2,))


def test_a_local_shuffle_that_forgets_the_epoch_is_found(parquet, monkeypatch):
    permutation = _position.permutation
    monkeypatch.setattr(_position, "permutation", lambda seed, epoch, *rest: permutation(seed, 0, *rest))
    dataset = PLANS["in order"](data.read_parquet(str(parquet)))
    with pytest.raises(AssertionError):
        check(dataset, "shuffled", 0, {"local_shuffle_buffer_size": 16})


# -- what a state says ------------------------------------------------------------------------------------------------
def shares(dataset, world, **options):
    return [dataset.rtrain_share_of_run(rank, world, 7, equal=True, **options) for rank in range(world)]


def test_each_number_of_ranks_that_divides_the_batch_has_the_same_batches(parquet):
    dataset = data.read_parquet(str(parquet)).random_shuffle(seed=2, window_bytes=1)
    for streams, sizes in ((4, (1, 2, 3, 4, 6, 8, 12)), (3, (1, 2, 4, 8))):
        by_size = []
        for world in sizes:
            parts = [
                iter(one.iter_batches(batch_size=24 // world, drop_last=True)) for one in shares(dataset, world, streams=streams)
            ]
            by_size.append([sum((batch["id"].tolist() for batch in batches), []) for batches in zip(*parts, strict=True)])
        assert len(by_size[0]) == 41 and all(batches == by_size[0] for batches in by_size)


def test_each_rank_carries_functions_out_on_its_own_rows_alone(parquet):
    for source in (data.read_parquet(str(parquet)), data.range(1000)):
        for shuffled in (True, False):
            calls = []
            dataset = source.map(lambda row, calls=calls: calls.append(row["id"]) or row)
            dataset = dataset.random_shuffle(seed=1) if shuffled else dataset
            for one in shares(dataset, 4):
                assert len(list(one)) == 250
            assert sorted(calls) == list(range(1000))
    dataset = data.read_parquet(str(parquet)).random_shuffle(seed=1).map_batches(lambda batch: batch, batch_size=10)
    assert [len(list(one)) for one in shares(dataset, 4)] == [250] * 4


def test_the_epoch_of_a_state_keeps_its_local_shuffle_and_says_so():
    begun = data.range(1000).rtrain_share_of_run(0, 1, 7, equal=True)
    first = next(iter(begun.iter_batches(batch_size=10, local_shuffle_buffer_size=16)))["id"].tolist()
    state = begun.state_dict()
    later = data.range(1000).rtrain_share_of_run(0, 1, 7, equal=True)
    later.load_state_dict(state)
    with pytest.warns(
        UserWarning, match="with local_shuffle_buffer_size=16, seed 7: that epoch ends so, and the next ones are without"
    ):
        rest = [row for batch in later.iter_batches() for row in batch["id"].tolist()]
    assert sorted(first + rest) == list(range(1000))
    assert [row["id"] for row in later] == list(range(1000))


def test_a_resize_that_changes_the_global_batch_is_said_once(capfd):
    begun = shares(data.range(1000), 4)
    for one in begun:
        next(iter(one.iter_batches(batch_size=8)))
    state = begun[0].state_dict()
    assert (state["version"], state["streams"], state["given"], state["batch"]) == (2, 4, 32, 32)
    for world, lines in ((2, 1), (4, 0)):
        later = shares(data.range(1000), world)
        for one in later:
            one.load_state_dict(state)
            next(iter(one.iter_batches(batch_size=8)))
        text = capfd.readouterr().err
        assert text.count("has 16 rows, and had 32 before") == lines and text.count("rtrain:") == lines


def test_the_loop_may_name_the_rows_of_a_global_batch():
    torch = pytest.importorskip("torch")
    pair = shares(data.range(1000), 2)
    assert [len(next(iter(one.iter_torch_batches(global_batch_size=64)))["id"]) for one in pair] == [32, 32]
    assert isinstance(next(iter(pair[0].iter_torch_batches(global_batch_size=64)))["id"], torch.Tensor)
    with pytest.raises(ValueError, match="global_batch_size is 65, which 2 ranks cannot share evenly; 64 and 66 fit"):
        pair[0].iter_batches(global_batch_size=65)
    with pytest.raises(ValueError, match="give either batch_size or global_batch_size"):
        pair[0].iter_batches(global_batch_size=64, batch_size=32)


def test_streams_that_a_config_sets_begin_with_the_next_whole_epoch():
    begun = shares(data.range(100), 2)
    for one in begun:
        next(iter(one.iter_batches(batch_size=10)))
    state = begun[0].state_dict()
    later = shares(data.range(100), 2, streams=4)
    for one in later:
        one.load_state_dict(state)
    assert [[row["id"] for row in one] for one in later] == [[*range(10, 50)], [*range(60, 100)]]
    assert {one.state_dict()["streams"] for one in later} == {4}
    usual = data.range(100).rtrain_share_of_run(0, 2, 7, equal=True, usual_streams=8)
    assert usual.state_dict()["streams"] == 8
    usual.load_state_dict(state)
    assert usual.state_dict()["streams"] == 2


OLD = {
    "version": 1,
    "pieces": 2,
    "epoch": 0,
    "seed": 7,
    "rows": 1000,
    "stages": [{"world": 4, "consumed": 40, "equal": True, "buffer": 0, "seed": 7, "window": 0}],
}


def test_an_epoch_that_version_0_1_0_began_ends_by_its_rule():
    ranks = shares(data.range(1000), 2)
    for one in ranks:
        one.load_state_dict(OLD)
    parts = [[row["id"] for row in one] for one in ranks]
    given = [row for rank in range(4) for row in range(250 * rank, 250 * rank + 40)]
    assert sum(parts, []) == [row for row in range(1000) if row not in given]
    assert ranks[0].state_dict()["version"] == 2
    assert [[row["id"] for row in one] for one in ranks] == [[*range(500)], [*range(500, 1000)]]
    again = shares(data.range(1000), 2)[0]
    again.load_state_dict(OLD)
    next(iter(again.iter_batches(batch_size=10)))
    inside = again.state_dict()
    assert inside["version"] == 1 and [one["consumed"] for one in inside["stages"]] == [40, 10]
