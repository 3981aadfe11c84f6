"""Rows that only reading finds (filter, flat_map, iterables) are dealt without being counted, and each rank calls functions on its own
rows alone."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import time

import pytest
import rtrain.data as data
from rtrain.data._dealing import _board


def kept(row):
    return row["id"] % 7 != 3


def doubled(row):
    return [{"id": 2 * row["id"]}, {"id": 2 * row["id"] + 1}] if row["id"] % 3 else []


class Items:
    """An iterable without a length, which notes how many items were fetched; stop None: it has no end."""

    features = None

    def __init__(self, stop=None):
        self.stop, self.fetched = stop, 0

    def __iter__(self):
        for number in itertools.count() if self.stop is None else range(self.stop):
            self.fetched += 1
            yield {"id": number}


def batches(share, _rank):
    return [batch["id"].tolist() for batch in share.iter_batches(batch_size=8)]


# -- ranks in processes of their own -----------------------------------------------------------------------------------
def together(dataset, loop, world, streams, *, dies=None):
    """Returns what `loop(share, rank)` returned on each rank. dies: the rank that ends without reading; it returns None."""
    context = multiprocessing.get_context("fork")
    pipes = [context.Pipe() for _ in range(world)]
    ranks = [
        context.Process(target=_rank, args=(pipe[1], dataset, loop, rank, world, streams, dies))
        for rank, pipe in enumerate(pipes)
    ]
    for rank in ranks:
        rank.start()
    values = [pipe[0].recv() for pipe in pipes]
    for pipe in pipes:
        pipe[0].send(values)
    returned = [None if rank == dies else pipe[0].recv() for rank, pipe in enumerate(pipes)]
    for pipe in pipes:
        pipe[0].send("all have returned")
    for rank in ranks:
        rank.join(30)
    for value in returned:
        if isinstance(value, str):
            raise AssertionError(value)
    return returned


def _rank(pipe, dataset, loop, rank, world, streams, dies):
    try:
        share = dataset().rtrain_share_of_run(rank, world, 7, equal=True, streams=streams)

        def exchange(value):
            pipe.send(value)
            values = pipe.recv()
            return values

        share._agree(exchange)
        if rank == dies:
            return
        pipe.send(loop(share, rank))
    except BaseException as error:
        pipe.send(f"rank {rank}: {error!r}")
    pipe.recv()


SOURCES = {
    "filter": lambda: data.range(4000).filter(kept),
    "flat_map": lambda: data.range(2000).filter(kept).flat_map(doubled),
    "shuffle": lambda: data.range(4000).filter(kept).random_shuffle(seed=3),
    "iterable": lambda: data.from_huggingface(Items(9000)).filter(kept),
    "iterable, shuffle": lambda: data.from_huggingface(Items(9000)).random_shuffle(seed=3).flat_map(doubled),
    "skewed": lambda: data.range(4000).filter(lambda row: row["id"] < 900),
    "pack": lambda: data.range(3000).filter(kept).map(lambda row: {"id": [row["id"]] * (row["id"] % 5)}).pack(6, "id"),
}


@pytest.mark.parametrize("source", SOURCES)
def test_ranks_in_processes_have_the_batches_of_one_reader(source):
    parts = together(SOURCES[source], batches, 4, 4)
    shares = [SOURCES[source]().rtrain_share_of_run(rank, 4, 7, equal=True, streams=4) for rank in range(4)]
    assert parts == [batches(share, 0) for share in shares]
    rows = [str(row) for part in parts for batch in part for row in batch]
    assert len(rows) > 400 and (len(set(rows)) == len(rows) or source == "pack")
    assert len({len(part) for part in parts}) == 1


def test_each_function_is_called_on_the_rows_of_one_rank():
    def loop(share, _rank):
        rows = sum(len(batch["id"]) for batch in share.iter_batches(batch_size=8, prefetch_batches=0))
        return rows, len(calls)

    calls = []

    def counting(row):
        calls.append(row["id"])
        return row["id"] % 7 != 3

    returned = together(lambda: data.range(20_000).filter(counting), loop, 4, 4)
    assert sum(rows for rows, _ in returned) > 20_000 * 6 / 7 - 32
    window = 20_000 // 16  # a chunk of this dataset
    assert sum(made for _, made in returned) <= 20_000 + 4 * window


def test_processes_of_a_loader_share_the_calls(capfd):
    torch_data = pytest.importorskip("torch.utils.data")
    calls = multiprocessing.Value("i", 0)

    def counting(row):
        with calls:
            calls.value += 1
        return row["id"] % 7 != 3

    rows = data.range(20_000).filter(counting).iterator().to_torch(batch_size=16)
    loader = torch_data.DataLoader(rows, batch_size=None, num_workers=2)
    for _ in range(2):
        calls.value = 0
        ids = [row for features, _ in loader for row in features.flatten().tolist()]
        assert len(set(ids)) == len(ids) > 20_000 * 6 // 7 - 32
        assert calls.value <= 20_000 + 2 * 20_000 // 8
    assert "does not read" not in capfd.readouterr().err


def test_an_endless_iterable_begins_at_once():
    def loop(share, rank):
        begun = time.monotonic()
        first = next(iter(share.iter_batches(batch_size=8)))["id"].tolist()
        return first, time.monotonic() - begun, items.fetched

    items = Items()
    returned = together(lambda: data.from_huggingface(items).filter(kept), loop, 2, 2)
    rows = [row for first, _, _ in returned for row in first]
    assert len(set(rows)) == 16
    assert all(seconds < 5 and fetched < 2000 for _, seconds, fetched in returned)


def test_the_end_of_an_epoch_does_not_iterate_anew():
    def loop(share, rank):
        fetched = []
        for _ in range(2):
            before = items.fetched
            rows = sum(len(batch["id"]) for batch in share.iter_batches(batch_size=8))
            fetched.append((rows, items.fetched - before))
        return fetched

    items = Items(100_000)
    dataset = data.from_huggingface(items).filter(lambda row: (row["id"] * 2654435761 >> 7) % 5 < 2)
    returned = together(lambda: dataset, loop, 4, 4)
    assert returned == [[(10_000, 100_000)] * 2] * 4


def test_a_resumed_epoch_makes_no_chunk_that_was_given_out():
    calls = []

    def counting(row):
        calls.append(row["id"])
        return True

    dataset = data.range(1 << 18).filter(counting)
    begun = dataset.iterator()
    given = []
    for batch in begun.iter_batches(batch_size=1000, prefetch_batches=0):
        given += batch["id"].tolist()
        if len(given) == 200_000:
            break
    state = begun.state_dict()
    calls.clear()
    later = dataset.iterator()
    later.load_state_dict(state)
    rest = [row["id"] for row in later.iter_rows()]
    assert given + rest == list(range(1 << 18))
    assert len(calls) <= len(rest) + (1 << 16)


def test_a_rank_that_does_not_read_holds_nobody_up(monkeypatch, capfd):
    monkeypatch.setattr(_board, "PATIENCE_S", 0.3)
    parts = together(SOURCES["filter"], batches, 3, 3, dies=1)
    shares = [SOURCES["filter"]().rtrain_share_of_run(rank, 3, 7, equal=True, streams=3) for rank in range(3)]
    assert [parts[0], parts[2]] == [batches(shares[0], 0), batches(shares[2], 0)]
    assert "rank 1 does not read its part of range(4000) -> filter(kept)" in capfd.readouterr().err


def test_ranks_that_see_other_rows_are_told():
    with pytest.raises(AssertionError, match="rank . sees other files of range"):
        together(lambda: data.range(100 + os.getpid() % 97).filter(kept), batches, 2, 2)


def test_a_state_of_counted_rows_finishes_its_epoch_by_positions():
    share = data.range(1000).filter(kept).rtrain_share_of_run(0, 1, 7, equal=True, streams=2)
    counted = {"rows": 857, "streams": 2, "equal": True, "given": 400, "local": None, "batch": 8}
    share.load_state_dict({"pieces": 3, "epoch": 0, "seed": 7, "version": 2, **counted})
    ids = [number for number in range(1000) if kept({"id": number})]
    assert sorted(row["id"] for row in share.iter_rows()) == ids[200:428] + ids[628:856]
    batches(share, 0)
    assert share.state_dict()["epoch"] == 2
