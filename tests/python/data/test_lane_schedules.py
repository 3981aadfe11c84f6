"""Kills and resizes change no global batch where only reading finds how many rows a stream has.

RTRAIN_SCHEDULES sets how many schedules of the arithmetic alone are tried, 10,000 in the nightly checks, and a fiftieth as many read
datasets.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import random

import pytest
import rtrain.data as data
import schedules
from rtrain.data import _batches
from rtrain.data._dealing import _progress
from rtrain.data._dealing._lanes import ChunkRows, Dealing, Lane, part_of
from rtrain.data._dealing._progress import OfLanes
from rtrain.data._in_streams import _packed, _sequences
from rtrain.data._plan import Order

SCHEDULES = int(os.environ.get("RTRAIN_SCHEDULES", "200"))


# -- arithmetic alone -------------------------------------------------------------------------------------------------
class Case:
    """Chunks of an epoch. listed: their number is known, and streams take chunks from each other."""

    def __init__(self, numbers, streams):
        self.streams, self.listed, self.least = streams, numbers.random() < 0.6, numbers.choice([1, 1, 5, 30])
        count = numbers.randint(0, 60)
        most = numbers.choice([1, 3, 12, 40])
        empty = numbers.choice([0, 0.3, 0.9])
        self.sizes = [[0 if numbers.random() < empty else numbers.randint(0, most) for _ in range(count)] for _ in range(2)]
        if numbers.random() < 0.3:  # all rows are in one stream
            self.sizes = [[rows if chunk < count // streams else 0 for chunk, rows in enumerate(sizes)] for sizes in self.sizes]

    def dealing(self, epoch, resumed):
        count, step = len(self.sizes[epoch]), 1 if self.listed else self.streams
        lanes = [
            Lane(stream * count // self.streams, (stream + 1) * count // self.streams) if self.listed else Lane(stream, None)
            for stream in range(self.streams)
        ]
        if resumed is not None and resumed.lanes:
            lanes = [dataclasses.replace(lane) for lane in resumed.lanes]

        def rows_of(stream, chunk, place):
            assert self.listed or chunk % self.streams == stream
            return ChunkRows(self.sizes[epoch][chunk], place) if chunk < count else None

        return Dealing(lanes, 0 if resumed is None else resumed.turn, step, self.least, rows_of)

    def rows(self, cut):
        """Returns the rows of a cut: each is its block's first chunk, and its number there."""
        return [(cut.first, row) for row in range(cut.start, cut.stop)]


class Simulated(schedules.Ranks):
    """Ranks that read nothing."""

    def __init__(self, case, world, each):
        self.case, self.world, self.each, self.epoch = case, world, each, 0
        self.resumed, self.progress = None, []

    def load(self, state):
        self.resumed, self.epoch = _progress.read(state), state["epoch"]

    def states(self):
        return [{"epoch": self.epoch, "seed": 0, **one.resumed().written()} for one in self.progress]

    def epochs(self):
        while self.epoch < schedules.EPOCHS:
            yield self._batches()
            self.epoch, self.resumed = self.epoch + 1, None

    def _batches(self):
        self.progress = [
            OfLanes(
                epoch=self.epoch,
                rows=None,
                dealing=self.case.dealing(self.epoch, self.resumed),
                world=self.world,
                equal=True,
                given=0 if self.resumed is None else self.resumed.given,
            )
            for _ in range(self.world)
        ]
        while True:
            batch = []
            for rank, progress in enumerate(self.progress):
                cuts = progress.dealing.take(self.each * self.world)
                part = part_of(cuts, self.world, rank, equal=True)
                rows = [row for cut in part for row in self.case.rows(cut)]
                progress.passed(len(rows), sum(cut.stop - cut.start for cut in cuts))
                progress.consumed += len(rows)
                batch += rows
            if not batch:
                assert not cuts or sum(cut.stop - cut.start for cut in cuts) < self.world
                return
            yield batch


def simulate(seed):
    numbers = random.Random(f"lanes {seed}")
    schedule = schedules.random_schedule(numbers, streams=numbers.choice([1, 2, 4, 8]))
    case = Case(numbers, schedule.streams)

    def ranks(world, each):
        return Simulated(case, world, each)

    quiet = schedules.Schedule(schedule.streams, schedule.batch, 1, (schedules.Attempt(1, None),))
    expected = schedules.history(quiet, ranks)
    schedules.same(schedule, expected, schedules.history(schedule, ranks), seed)
    for epoch in range(schedules.EPOCHS):
        rows = [row for at, batch in expected if at == epoch for row in batch]
        assert len(set(rows)) == len(rows) == sum(case.sizes[epoch]), seed


def test_ten_thousand_simulated_schedules_change_no_batch():
    for seed in range(SCHEDULES):
        simulate(seed)


def test_taking_rows_in_other_steps_deals_the_same_rows():
    for seed in range(200):
        numbers = random.Random(f"steps {seed}")
        case = Case(numbers, numbers.choice([1, 3, 4]))
        one, many = (case.dealing(0, None) for _ in range(2))
        rows_of_one = [row for _ in range(sum(case.sizes[0])) for cut in one.take(1) for row in case.rows(cut)]
        rows_of_many = []
        while cuts := many.take(numbers.randint(1, 30)):
            rows_of_many += [row for cut in cuts for row in case.rows(cut)]
        assert sorted(rows_of_one) == sorted(rows_of_many) and len(rows_of_one) == sum(case.sizes[0])


# -- datasets ---------------------------------------------------------------------------------------------------------
def kept(row):
    return row["id"] % 5 != 0


def doubled(row):
    return [{"id": 2 * row["id"]}, {"id": 2 * row["id"] + 1}] if row["id"] % 3 else []


def noisy(row):
    return {"id": row["id"], "noise": int(data.generator().integers(1_000_000))}


def half(batch):
    return {"id": batch["id"][: len(batch["id"]) // 2]}


class Items:
    features = None

    def __init__(self, stop):
        self.stop = stop

    def __iter__(self):
        return ({"id": number} for number in range(self.stop))


def source(numbers, folder):
    rows = numbers.randint(300, 900)
    kind = numbers.choice(["range", "iterable", "csv", "parquet"])
    if kind == "range":
        return data.range(rows)
    if kind == "parquet":
        return data.read_parquet(str(folder))
    if kind == "iterable":
        return data.from_huggingface(Items(rows))
    files = []
    for number in range(numbers.choice([1, 3, 11])):
        files.append(folder / f"{rows} {number}.csv")
        files[-1].write_text("id\n" + "".join(f"{1000 * number + row}\n" for row in range(rows // 8 + number)))
    return data.read_csv([str(file) for file in files])


def plan(numbers, folder):
    """Returns a dataset whose rows only reading finds."""
    rows = source(numbers, folder)
    if numbers.random() < 0.4:
        rows = rows.random_shuffle(seed=numbers.choice([None, 3]), window_bytes=1)
    for _ in range(numbers.randint(1, 2)):
        step = numbers.choice(["filter", "flat_map", "map_batches"])
        rows = rows.filter(kept) if step == "filter" else rows.flat_map(doubled) if step == "flat_map" else rows.map_batches(half)
    rows = rows.map(noisy)
    if numbers.random() < 0.3:
        rows = rows.random_shuffle(seed=numbers.choice([None, 3]), window_bytes=1)
    if numbers.random() < 0.3:
        rows = data.mix({rows: 2, source(numbers, folder).filter(kept).map(noisy): 1}, seed=1)
    return rows


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Streams of a few rows have several chunks."""
    monkeypatch.setattr(_sequences, "_CHUNKS", 8)
    monkeypatch.setattr(_packed, "_PIECE_BYTES", 400)


def written(batch):
    return list(zip(batch["id"].tolist(), batch["noise"].tolist(), strict=True))


def check(seed, folder, ahead=(0, 2), options=None):
    numbers = random.Random(f"read {seed}")
    schedule = schedules.random_schedule(numbers, streams=numbers.choice([1, 2, 4, 8]))
    local = numbers.choice([{}, {}, {"local_shuffle_buffer_size": 16}]) if options is None else options
    pickled = pickle.dumps(plan(numbers, folder))

    def ranks(world, each):
        return schedules.Readers(pickle.loads(pickled), schedule.streams, world, each, numbers.choice(ahead), local, written)

    quiet = schedules.Schedule(schedule.streams, schedule.batch, 1, (schedules.Attempt(1, None),))
    expected = schedules.history(quiet, ranks)
    schedules.same(schedule, expected, schedules.history(schedule, ranks), seed)
    return expected


def test_no_schedule_changes_a_batch(parquet):
    assert sum(len(check(seed, parquet.parent)) for seed in range(max(SCHEDULES // 50, 12))) > 60


# -- planted faults ---------------------------------------------------------------------------------------------------
FAULTS = {
    "an off-by-one in a stream's share": (Dealing, "_give", schedules.gives_one_more),
    "a state taken after prefetch": (_batches, "counted", schedules.made_ahead),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault, parquet, monkeypatch):
    monkeypatch.setattr(*FAULTS[fault])
    with pytest.raises((AssertionError, RuntimeError, ValueError, KeyError)):
        for seed in range(12):
            rows = [row for _, batch in check(seed, parquet.parent, ahead=(2,), options={}) for row in batch]
            assert len(set(rows)) == len(rows)


@pytest.mark.parametrize("fault", [(Dealing, "_give", schedules.gives_one_more)], ids=["share"])
def test_a_planted_fault_of_the_arithmetic_is_found(fault, monkeypatch):
    monkeypatch.setattr(*fault)
    with pytest.raises(AssertionError):
        for seed in range(40):
            simulate(seed)


@pytest.mark.parametrize("of", ["shuffle", "iterable", "noise"])
def test_a_seed_that_forgets_the_epoch_is_found(of, parquet, monkeypatch):
    def epochs():
        rows = data.from_huggingface(Items(900)) if of == "iterable" else data.read_parquet(str(parquet))
        rows = rows.filter(kept)
        rows = rows.map(noisy) if of == "noise" else rows.random_shuffle(seed=1, window_bytes=8 << 20)
        share = rows.rtrain_share_of_run(0, 1, 7, equal=True, streams=2)
        return [[json.dumps(row) for row in share.iter_rows()] for _ in range(2)]

    first, second = epochs()
    assert first != second and (of == "noise" or sorted(first) == sorted(second))
    begin = Order.__init__
    monkeypatch.setattr(Order, "__init__", lambda self, seed=0, epoch=0, *rest, **named: begin(self, seed, 0, *rest, **named))
    first, second = epochs()
    assert first == second
