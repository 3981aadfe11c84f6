"""Kills and resizes change no global batch of mixed and packed rows.

RTRAIN_SCHEDULES sets the number of schedules that test the arithmetic alone: 10,000 in the nightly checks. A
fiftieth as many read datasets. Each has its own sources, weights and lengths. The ranks of an attempt get only a
state from the attempts before.
"""

from __future__ import annotations

import collections
import itertools
import os
import pickle
import random

import pytest
import rtrain.data as data
import schedules
from rtrain.data import _batches
from rtrain.data._dealing import _progress
from rtrain.data._dealing._lanes import Dealing
from rtrain.data._dealing._progress import Given
from rtrain.data._dealing._streams import Streams
from rtrain.data._in_streams import _packed
from rtrain.data._in_streams._mixed import Mixed
from rtrain.data._in_streams._turns import Mixing, fitting, whole_numbers


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Streams of a few rows have several pieces, so that ranks begin in the middle of a stream."""
    monkeypatch.setattr(Mixed, "each", 7)
    monkeypatch.setattr(_packed, "_PIECE_BYTES", 400)


SCHEDULES = int(os.environ.get("RTRAIN_SCHEDULES", "100"))
STRATEGIES = ("first_exhausted", "all_exhausted", "all_exhausted_without_replacement")


def kept(row):
    return row["id"] % 5 != 0


def noisy(row):
    return {"id": row["id"], "input_ids": [*row["input_ids"], int(data.generator().integers(1_000_000))]}


def source(numbers, first):
    """Returns a dataset of documents with numbers from `first` on."""
    count = numbers.choice([9, 16, numbers.randint(8, 400)])
    rows = [{"id": first + row, "input_ids": [100 * (first + row)] * numbers.randint(0, 9)} for row in range(count)]
    dataset = data.from_items(rows)
    if numbers.random() < 0.3:
        dataset = dataset.filter(kept)
    if numbers.random() < 0.5:
        dataset = dataset.map(noisy)
    return dataset.random_shuffle(seed=numbers.choice([None, 3])) if numbers.random() < 0.5 else dataset


def packed(dataset, numbers):
    whole = numbers.random() < 0.4
    return dataset.pack(numbers.randint(2, 12), split_documents=not whole, drop_last=not whole and numbers.random() < 0.3)


def plan(numbers, streams):
    """Returns a dataset that mixes, then packs, or packs its sources and mixes them."""
    after = numbers.random() < 0.5
    sources = [source(numbers, 1000 * number) for number in range(numbers.randint(1, 3))]
    if not after:
        length = numbers.randint(2, 12)
        sources = [one.pack(length, split_documents=numbers.random() < 0.6) for one in sources]
    strategy = STRATEGIES[2] if any(one.count() < 2 * streams for one in sources) else numbers.choice(STRATEGIES)
    weights, later = ({one: numbers.choice([0.1, 1, 2.5]) for one in sources} for _ in range(2))
    mixed = data.mix(
        weights, seed=numbers.choice([None, 9]), stopping_strategy=strategy, schedule={numbers.randint(1, 60): later}
    )
    return packed(mixed, numbers) if after else mixed


def written(batch):
    columns = zip(batch["input_ids"].tolist(), batch["document_ids"].tolist(), batch["position_ids"].tolist(), strict=True)
    return [tuple(map(tuple, row)) for row in columns]


def check(seed, ahead=(0, 2)):
    numbers = random.Random(f"packed {seed}")
    schedule = schedules.random_schedule(numbers, streams=numbers.choice([1, 2, 4, 8]))
    pickled = pickle.dumps(plan(numbers, schedule.streams))

    def ranks(world, each):
        return schedules.Readers(pickle.loads(pickled), schedule.streams, world, each, numbers.choice(ahead), {}, written)

    quiet = schedules.Schedule(schedule.streams, schedule.batch, 1, (schedules.Attempt(1, None),))
    expected = schedules.history(quiet, ranks)
    disturbed = schedules.history(schedule, ranks)
    schedules.same(schedule, expected, disturbed, seed)
    return expected


def test_no_schedule_changes_a_batch():
    assert sum(len(check(seed)) for seed in range(max(SCHEDULES // 50, 10))) > 30


# -- arithmetic alone -------------------------------------------------------------------------------------------------
class Simulated(schedules.Ranks):
    """Ranks that read nothing. A row is a list of its parts of documents. A rank computes the place at which it
    begins each stream.
    """

    def __init__(self, case, streams, world, each):
        self.case, self.count, self.world, self.each = case, streams, world, each
        self.epoch, self.begun, self.progress = 0, 0, []

    def load(self, state):
        self.epoch, self.begun = state["epoch"], _progress.read(state).given

    def states(self):
        return [{"epoch": self.epoch, "seed": 0, **one.resumed().written()} for one in self.progress]

    def epochs(self):
        while self.epoch < schedules.EPOCHS:
            yield self._batches()
            self.epoch, self.begun = self.epoch + 1, 0

    def _batches(self):
        lengths = [self.case.rows(self.epoch, stream) for stream in range(self.count)]
        streams = Streams(self.count, sum(lengths))
        self.progress = [
            Given(epoch=self.epoch, rows=streams.rows, streams=streams, world=self.world, begun=self.begun)
            for _ in range(self.world)
        ]
        open_streams = {}
        batches = (streams.batches(self.begun, self.each, self.world, rank) for rank in range(self.world))
        for parts in zip(*batches, strict=True):
            batch = []
            for rank, cuts in enumerate(parts):
                for cut in cuts:
                    if (rank, cut.stream) not in open_streams:
                        first = streams.range_of(cut.stream)[0] + cut.start
                        open_streams[rank, cut.stream] = cut.start, self.case.onward(self.epoch, lengths, first)
                    at, coming = open_streams[rank, cut.stream]
                    batch += itertools.islice(coming, cut.start - at, cut.stop - at)
                    open_streams[rank, cut.stream] = cut.stop, coming
                self.progress[rank].consumed += sum(cut.stop - cut.start for cut in cuts)
            yield batch


class Case:
    """Sources of documents, which are mixed and then packed. lengths: of the documents of each stream of each source."""

    def __init__(self, numbers, streams):
        self.length, self.strategy = numbers.randint(2, 12), numbers.choice(STRATEGIES)
        sources = range(numbers.randint(1, 3))
        self.documents = [
            [[numbers.randint(0, 9) for _ in range(numbers.randint(1, 25))] for _ in sources] for _ in range(streams)
        ]
        weights = [whole_numbers([numbers.choice([0.1, 1, 2.5]) for _ in sources]) for _ in range(2)]
        self.weights = ((0, weights[0]), (numbers.randint(1, 30), weights[1]))
        self.tables = {}

    def mixing(self, epoch, stream):
        return Mixing(self.weights, (7, epoch, stream), self.strategy)

    def mixed(self, epoch, stream, first):
        """Yields the documents of a stream from one on."""
        mixing, lengths = self.mixing(epoch, stream), [len(of_source) for of_source in self.documents[stream]]
        turn = mixing.at(first, lengths)
        while True:
            turn, chosen = mixing.choices(turn)
            if not len(chosen):
                return
            places = [turn.place(source) for source in range(len(lengths))]
            fits = fitting(chosen, [length - place for length, place in zip(lengths, places, strict=True)])
            for source in chosen[:fits].tolist():
                yield source, places[source], self.documents[stream][source][places[source]]
                places[source] += 1
            turn = mixing.after(turn, chosen[:fits])
            if fits < len(chosen):
                turn = mixing.without(turn, int(chosen[fits]))

    def packed(self, epoch, stream, place):
        """Yields the rows from a place on, each with the place behind it: a document of the mix, and its tokens before."""
        first, skipped = place
        row, room = [], self.length
        for number, (source, index, tokens) in enumerate(self.mixed(epoch, stream, first), first):
            while skipped < tokens:
                stop = min(tokens, skipped + room)
                row.append((source, index, skipped, stop))
                room, skipped = room - stop + skipped, stop
                if not room:
                    yield tuple(row), (number, skipped)
                    row, room = [], self.length
            skipped = 0
        if row:
            yield tuple(row), None

    def places(self, epoch, stream):
        key = (epoch, stream)
        if key not in self.tables:
            self.tables[key] = [(0, 0), *(place for _, place in self.packed(epoch, stream, (0, 0)))]
        return self.tables[key]

    def rows(self, epoch, stream):
        return len(self.places(epoch, stream)) - 1

    def onward(self, epoch, lengths, position):
        """Yields the rows from a position on. The streams follow each other."""
        for stream, rows in enumerate(lengths):
            if position < rows:
                yield from (row for row, _ in self.packed(epoch, stream, self.places(epoch, stream)[position]))
            position = max(position - rows, 0)


def simulate(seed):
    numbers = random.Random(f"simulated {seed}")
    schedule = schedules.random_schedule(numbers, streams=numbers.choice([1, 2, 4, 8]))
    case = Case(numbers, schedule.streams)

    def ranks(world, each):
        return Simulated(case, schedule.streams, world, each)

    quiet = schedules.Schedule(schedule.streams, schedule.batch, 1, (schedules.Attempt(1, None),))
    expected = schedules.history(quiet, ranks)
    schedules.same(schedule, expected, schedules.history(schedule, ranks), seed)
    for epoch in range(schedules.EPOCHS):
        given = collections.Counter(row for at, batch in expected if at == epoch for row in batch)
        every = collections.Counter(row for stream in range(schedule.streams) for row, _ in case.packed(epoch, stream, (0, 0)))
        assert given <= every and (every - given).total() < schedule.streams, seed


def test_ten_thousand_simulated_schedules_change_no_batch():
    for seed in range(SCHEDULES):
        simulate(seed)


# -- planted faults ---------------------------------------------------------------------------------------------------
def one_row_more(self, row, lengths, at=Mixing.at):
    return at(self, row + (row > 0), lengths)


FAULTS = {
    "an off-by-one in a stream's share": (Dealing, "_give", schedules.gives_one_more),
    "a state taken after prefetch": (_batches, "counted", schedules.made_ahead),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault, monkeypatch):
    monkeypatch.setattr(*FAULTS[fault])
    with pytest.raises((AssertionError, RuntimeError, ValueError)):
        for seed in range(40):
            check(seed, ahead=(2,))


@pytest.mark.parametrize(
    "fault", [(Mixing, "at", one_row_more), (Streams, "of_stream", schedules.one_more)], ids=["place", "share"]
)
def test_a_planted_fault_of_the_arithmetic_is_found(fault, monkeypatch):
    monkeypatch.setattr(*fault)
    with pytest.raises((AssertionError, RuntimeError, ValueError, IndexError)):
        for seed in range(40):
            simulate(seed)


def choices_of_two_epochs():
    rows = [data.from_items([{"of": name}] * 200) for name in "ab"]
    share = data.mix({one: 1 for one in rows}).rtrain_share_of_run(0, 1, 7, equal=True, streams=2)
    return [[row["of"] for row in share.iter_rows()][:300] for _ in range(2)]


def test_a_mix_that_forgets_the_epoch_is_found(monkeypatch):
    first, second = choices_of_two_epochs()
    assert first != second
    key = Mixed._key
    monkeypatch.setattr(Mixed, "_key", lambda self, order, stream: (*key(self, order, stream)[:2], stream))
    first, second = choices_of_two_epochs()
    assert first == second
