"""Pieces that several threads make: their order, their errors, their random numbers and their end."""

import gc
import random
import threading

import numpy as np
import pytest
from rtrain import data
from rtrain.data._making import _gain, _made
from rtrain.data._making._gain import Gain, pays

PIECES = 12


@pytest.fixture(autouse=True)
def _no_loops_of_other_tests():
    """Collects loops that other tests left unfinished, with their threads."""
    gc.collect()


@pytest.fixture
def eager(monkeypatch):
    """Lets four threads work from the first piece on, each with two rows at once."""
    monkeypatch.setattr(Gain, "chunk", lambda _self, rows: min(rows, 2))


def pause(seconds):
    """Works for so long, without the interpreter."""
    threading.Event().wait(seconds)


def slow(row):
    pause(random.random() * 0.002)
    return {"id": row["id"], "thread": threading.get_ident(), "drawn": data.generator().random()}


@pytest.fixture
def source(tmp_path):
    """Makes a dataset of 600 rows in 12 pieces, by their ids."""
    data.range(600).write_parquet(tmp_path, row_group_size=600 // PIECES)
    return lambda: data.read_parquet(tmp_path)


def rtrain_threads():
    return [thread for thread in threading.enumerate() if thread.name == "rtrain-data"]


@pytest.mark.usefixtures("eager")
def test_rows_that_threads_make_have_their_order_and_numbers(source):
    alone = source().map(slow, concurrency=1)
    beside = source().map(slow, concurrency=4)
    expected, rows = ([*each.iterator().iter_rows()] for each in (alone, beside))
    assert [row["id"] for row in rows] == list(range(600))
    assert len({row["thread"] for row in expected}) == 1
    assert len({row["thread"] for row in rows}) > 1
    batches = [*beside.iter_batches(batch_size=7)]
    assert np.concatenate([batch["id"] for batch in batches]).tolist() == list(range(600))
    assert rtrain_threads() == []


@pytest.mark.usefixtures("eager")
def test_random_numbers_do_not_depend_on_threads(source):
    def random_numbers(threads):
        share = source().map(slow, concurrency=threads).iterator()
        share.load_state_dict({**share.state_dict(), "seed": 5})
        return [row["drawn"] for row in share.iter_rows()]

    assert random_numbers(1) == random_numbers(4)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("ahead", [0, 2])
def test_an_error_comes_behind_the_rows_before_its_piece(source, ahead):
    def failing(row):
        pause(random.random() * 0.002)
        if row["id"] in (333, 330, 512):
            raise KeyError(int(row["id"]))
        return row

    seen = []
    with pytest.raises(data.UserCodeError, match=r"KeyError: 330"):
        for batch in source().map(failing, concurrency=4).iter_batches(batch_size=50, prefetch_batches=ahead):
            seen.extend(batch["id"].tolist())
    assert seen == list(range(300))
    assert rtrain_threads() == []


@pytest.mark.usefixtures("eager")
def test_a_loop_that_ends_early_leaves_no_thread_and_makes_few_pieces(source):
    calls = []

    def counted(row):
        calls.append(1)
        pause(0.0005)
        return row

    for _ in source().map(counted, concurrency=4).iter_batches(batch_size=10):
        break
    assert rtrain_threads() == []
    assert len(calls) < 600


@pytest.mark.usefixtures("eager")
def test_an_instance_of_a_class_is_used_by_one_thread_at_a_time(source):
    made, wrong = [], []

    class Tagger:
        def __init__(self):
            made.append(self)
            self.lock = threading.Lock()

        def __call__(self, row):
            if not self.lock.acquire(blocking=False):
                wrong.append(row)
                return row
            pause(0.0005)
            self.lock.release()
            return row

    four = source().map(Tagger, concurrency=4)
    for _ in range(2):
        assert [row["id"] for row in four.iter_rows()] == list(range(600))
    assert 1 < len(made) <= 5  # the reading thread may help with the first piece
    made.clear()
    assert source().map(Tagger).take_all() is not None
    assert len(made) == 1
    assert wrong == []


@pytest.mark.usefixtures("eager")
def test_pieces_made_ahead_are_bounded_by_their_bytes(source, monkeypatch):
    monkeypatch.setattr(data.DataContext.get_current(), "prefetch_bytes", 3_000_000)
    made_rows, given_rows, most = [0], 0, 0

    def grown(row):
        made_rows[0] += 1
        return {"id": row["id"], "image": np.zeros(20_000, np.uint8)}  # 50 rows of a piece are 1 MB

    for batch in source().map(grown, concurrency=8).iter_batches(batch_size=50, prefetch_batches=1):
        most = max(most, made_rows[0] - given_rows)
        given_rows += len(batch["id"])
        pause(0.02)
    assert given_rows == 600
    assert most <= 12 * 50 - 100
    assert _made._held_bytes == 0


def test_a_function_that_holds_the_interpreter_gets_one_thread(monkeypatch):
    monkeypatch.setattr(_gain, "most_threads", lambda: 4)
    gain = Gain()
    for _ in range(2):
        gain.made(10, 0.1, 1, 1)
    assert gain.threads == 2
    for _ in range(2):
        gain.made(10, 0.2, 2, 2)  # each thread takes twice the time
    assert gain.threads == 1
    assert not pays((1, 100.0), (2, 129.0))
    assert pays((1, 100.0), (2, 131.0))


def test_threads_grow_to_the_idle_cpus_while_they_gain(monkeypatch):
    monkeypatch.setattr(_gain, "most_threads", lambda: 16)
    clock = [0.0]
    monkeypatch.setattr(_gain.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(_gain.Idle, "now", lambda: _gain.Idle(clock[0], 5 * clock[0]))  # five CPUs are idle
    gain = Gain()
    seen = []
    for _ in range(400):
        clock[0] += 0.01
        gain.made(10, 0.1, gain.threads, gain.threads)
        if not seen or seen[-1] != gain.threads:
            seen.append(gain.threads)
    assert seen[:4] == [1, 2, 4, 8]
    assert max(seen) <= 16
