"""Functions in processes of the rank: the same rows, errors and random numbers as in threads; kills; nothing left behind."""

import contextlib
import gc
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from rtrain import data
from rtrain.data._making._processes import _crew, _pool, _rule
from rtrain.data._making._processes._crew import State

ROWS = 800
PACKAGE = pathlib.Path(data.__file__).parents[2]


@pytest.fixture(autouse=True)
def _no_processes_of_other_tests(monkeypatch):
    """Lets two processes begin with the first rows, and ends them. The rank waits until they are ready, as a dataset here is short."""
    begin = _crew.Crew._start

    def begin_and_wait(crew, wanted):
        begin(crew, wanted)
        until(lambda: crew.state != State.STARTING)

    monkeypatch.setattr(_crew.Crew, "_start", begin_and_wait)
    monkeypatch.setattr(data.DataContext.get_current(), "processes", 2)
    monkeypatch.setattr(_rule, "PART_S", 0.01)
    monkeypatch.setattr(_crew, "_RANK_PART_S", 0.01)
    before = descriptors()
    yield
    _pool.close_all()
    gc.collect()
    assert children() == set()
    assert descriptors() <= before


def until(condition, within_s=60):
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end
        pause(0.01)


def pause(seconds):
    """Works for so long, without the interpreter."""
    threading.Event().wait(seconds)


def descriptors():
    gc.collect()
    kinds = [
        os.readlink(f"/proc/self/fd/{number}")
        for number in os.listdir("/proc/self/fd")
        if os.path.lexists(f"/proc/self/fd/{number}")
    ]
    return sum(kind.startswith(("socket:", "/memfd:")) for kind in kinds)


def children(pid="self"):
    pids = set()
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended
            pids.update(map(int, (task / "children").read_text().split()))
    return pids


@pytest.fixture
def source(tmp_path):
    """Makes a dataset of 800 rows in 20 pieces, by their ids."""
    table = pa.table({"id": np.arange(ROWS), "text": [f"row {row}" for row in range(ROWS)]})
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=ROWS // 20)
    return lambda: data.read_parquet(tmp_path)


def busy(seconds=0.0003):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def with_random(row):
    busy()
    return {**row, "drawn": data.generator().random(), "image": np.full((2, 3), row["id"], np.int16), "pid": os.getpid()}


def several(row):
    busy()
    return [{"id": row["id"], "number": number, "pid": os.getpid()} for number in range(int(row["id"]) % 3)]


class Tagger:
    def __init__(self, tag):
        self.tag, self.calls = tag, 0

    def __call__(self, row):
        busy()
        self.calls += 1
        return {**row, "tag": f"{self.tag}{row['id']}", "instance": f"{os.getpid()} {id(self)}", "pid": os.getpid()}


def odd(row):
    busy()
    return row["id"] % 2 == 1


def batch_of(batch):
    busy(0.002)
    return {**batch, "drawn": data.generator().random(len(batch["id"])), "pid": np.full(len(batch["id"]), os.getpid())}


def halves(batch):
    busy(0.005)
    yield {"id": batch["id"][::2], "pid": np.full(len(batch["id"][::2]), os.getpid())}
    yield {"id": batch["id"][1::2], "pid": np.full(len(batch["id"][1::2]), os.getpid())}


PLANS = {
    "map": lambda rows: rows.map(with_random),
    "flat_map": lambda rows: rows.flat_map(several),
    "filter and map": lambda rows: rows.filter(odd).map(with_random),
    "map and filter": lambda rows: rows.map(with_random).filter(odd),
    "map_batches": lambda rows: rows.map_batches(batch_of, batch_size=16, udf_modifying_row_count=False),
    "whole pieces": lambda rows: rows.map_batches(halves),
    "class": lambda rows: rows.map(Tagger, concurrency=2, fn_constructor_args=["t"]),
    "behind a shuffle": lambda rows: rows.random_shuffle(seed=1).map(with_random),
    "before a shuffle": lambda rows: rows.map(with_random).random_shuffle(seed=1),
    "in memory": lambda rows: data.from_items(rows.take_all()).random_shuffle(seed=3).map(with_random),
}


def rows_of(dataset, seed=5, apart=("pid", "instance")):
    share = dataset.iterator()
    share.load_state_dict({**share.state_dict(), "seed": seed})
    rows, left = [], {name: set() for name in apart}
    for batch in share.iter_batches(batch_size=64):
        for name in apart:
            left[name] |= set(batch.pop(name, np.array([])).tolist())
        columns = {name: column.tolist() for name, column in batch.items()}
        rows.extend(zip(*columns.values(), strict=True))
    return rows, left


@pytest.mark.parametrize("plan", PLANS)
def test_rows_and_random_numbers_are_those_of_one_thread(source, plan):
    dataset = PLANS[plan](source())
    rows, apart = rows_of(dataset)
    data.DataContext.get_current().processes = 0
    expected, here = rows_of(PLANS[plan](source()))
    assert rows == expected
    assert here["pid"] == {os.getpid()}
    assert len(apart["pid"] - {os.getpid()}) == 2
    if plan == "class":
        assert len(apart["instance"]) == len(apart["pid"])  # one a process


def test_a_function_of_the_script_and_its_globals_travel(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent("""
        import os, threading, time
        import rtrain.data as data
        import beside
        print("the script runs", flush=True)
        FACTOR = 3
        def tripled(row):
            threading.Event().wait(0.0005)
            return {"id": row["id"] * FACTOR + beside.ONE, "pid": os.getpid()}
        data.DataContext.get_current().processes = 2
        rows = data.range(1000).map_batches(lambda batch: batch, batch_size=50).map(tripled)  # no guard
        end = time.monotonic() + 60
        got = list(rows.iter_rows())
        while {row["pid"] for row in got} == {os.getpid()} and time.monotonic() < end:
            got = list(rows.iter_rows())
        assert [row["id"] for row in got] == [3 * number + 1 for number in range(1000)]
        print(len({row["pid"] for row in got} - {os.getpid()}) > 0)
        """)
    )
    (tmp_path / "beside.py").write_text("ONE = 1\n")
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "the script runs\nTrue\n"), done.stderr


def test_an_error_has_its_traceback_and_comes_in_its_place(source):
    rank = os.getpid()

    def failing(row):
        busy()
        if row["id"] == 730:
            raise KeyError(f"{row['id']} in the rank: {os.getpid() == rank}")
        return {"id": row["id"], "pid": os.getpid()}

    seen = []
    with pytest.raises(
        data.UserCodeError, match=r"map\(failing\) failed: KeyError: '730 in the rank: True' .*test_processes.py"
    ) as caught:
        for batch in source().map(failing).iter_batches(batch_size=50):
            seen.extend(batch["id"].tolist())
    assert isinstance(caught.value.__cause__, KeyError)
    assert "failing" in {entry.name for entry in caught.traceback} | {frame.name for frame in frames(caught.value.__cause__)}
    assert seen == list(range(700))


def frames(error):
    import traceback

    return traceback.extract_tb(error.__traceback__)


def test_a_function_that_needs_the_rank_stays_there(source):
    rank = os.getpid()

    def only_here(row):
        busy()
        if os.getpid() != rank:
            raise RuntimeError("there is no session")
        return row

    with pytest.warns(UserWarning, match=r"map\(only_here\) stays in the rank: it failed in a process(.|\n)*there is no session"):
        assert [row["id"] for row in source().map(only_here).iter_rows()] == list(range(ROWS))


def test_a_function_that_cannot_be_sent_stays_in_the_rank(source):
    lock = __import__("threading").Lock()

    def locked(row):
        with lock:
            return row

    with pytest.warns(UserWarning, match="stays in the rank: it cannot be sent to a process: TypeError"):
        assert source().map(locked).count() == ROWS
        assert [row["id"] for row in source().map(locked).iter_rows()] == list(range(ROWS))


def test_a_result_that_cannot_be_sent_is_made_in_the_rank(source):
    def with_a_generator(row):
        busy()
        return {"id": row["id"], "rest": (one for one in ())}

    with pytest.warns(UserWarning, match="stays in the rank: it failed in a process"):
        assert [row["id"] for row in source().map(with_a_generator).iter_rows()] == list(range(ROWS))


def test_kills_of_processes_lose_no_row(source):
    dataset = source().map(with_random)
    killed = 0
    ids = []
    for number, batch in enumerate(dataset.iter_batches(batch_size=20)):
        ids.extend(batch["id"].tolist())
        if number % 10 == 5 and children():
            os.kill(min(children()), signal.SIGKILL)
            killed += 1
    assert ids == list(range(ROWS))
    assert killed >= 3


def test_rows_that_end_their_process_once_are_made_in_a_fresh_one(source, tmp_path):
    rank, mark = os.getpid(), tmp_path / "mark"

    def ends_once(row):
        busy()
        if row["id"] == 600 and os.getpid() != rank and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGSEGV)
        return {"id": row["id"]}

    assert [row["id"] for row in source().map(ends_once).iter_rows()] == list(range(ROWS))
    assert mark.exists()


def test_rows_that_end_two_processes_are_named(source):
    rank = os.getpid()

    def ends(row):
        busy()
        if row["id"] == 670:
            assert os.getpid() != rank
            os.kill(os.getpid(), signal.SIGSEGV)
        return {"id": row["id"]}

    seen = []
    with pytest.raises(data.UserCodeError) as caught:
        for batch in source().map(ends).iter_batches(batch_size=40):
            seen.extend(batch["id"].tolist())
    text = str(caught.value)
    assert "map(ends) ended two processes" in text and "SIGSEGV" in text and ".parquet" in text
    first, last = (int(word) for word in text.split("made rows ")[1].split(" of a piece")[0].split(" to "))
    assert first <= 30 <= last < 40
    assert seen == list(range(640))


def test_a_loop_that_ends_early_does_not_wait_for_jobs(source):
    def slow(row):
        pause(0.01)
        return row

    dataset = source().map(slow)
    for _ in dataset.iter_batches(batch_size=100):
        pass
    begun = time.monotonic()
    for _ in dataset.iter_batches(batch_size=10):
        break
    assert time.monotonic() - begun < 3
    assert [row["id"] for row in dataset.iter_rows()] == list(range(ROWS))


def test_a_kill_of_the_rank_ends_its_processes(tmp_path):
    script = """
        import os, pathlib, sys, threading
        import rtrain.data as data
        def forever(row):
            if os.getpid() != rank:
                pathlib.Path(folder, str(os.getpid())).touch()
                threading.Event().wait()
            threading.Event().wait(0.002)
            return row
        rank, folder = os.getpid(), sys.argv[1]
        data.DataContext.get_current().processes = 2
        for row in data.range(100_000).map_batches(lambda batch: batch, batch_size=50).map(forever).iter_rows():
            pass
    """
    rank = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), tmp_path], env={**os.environ, "PYTHONPATH": str(PACKAGE)}
    )
    try:
        until(lambda: len(list(tmp_path.iterdir())) == 2)  # both are in the middle of a job
        processes = children(rank.pid)
        assert len(processes) >= 2
    finally:
        rank.kill()
        rank.wait()
    until(lambda: not any(is_alive(process) for process in processes), within_s=10)
    assert not [name for name in os.listdir("/dev/shm") if "rtrain-data" in name]


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_results_that_wait_are_bounded_by_prefetch_bytes(source, monkeypatch):
    monkeypatch.setattr(data.DataContext.get_current(), "prefetch_bytes", 4_000_000)

    def grown(row):
        busy()
        return {"id": row["id"], "image": np.zeros(20_000, np.uint8)}  # 100 rows of a piece are 2 MB

    dataset = source().map(grown)
    most = 0
    for _ in dataset.iter_batches(batch_size=100, prefetch_batches=1):
        pause(0.02)
        most = max(most, shared_memory())
    assert most < 12_000_000  # two pieces ahead, one that is given, parts of the next


def shared_memory():
    with open("/proc/self/smaps_rollup") as file:
        return sum(int(line.split()[1]) << 10 for line in file if line.startswith("Pss_Shmem:"))


def test_processes_that_do_not_gain_are_given_back(source, monkeypatch):
    monkeypatch.setattr(data.DataContext.get_current(), "processes", None)
    monkeypatch.setattr(_rule, "processes_for", lambda *_: 2)
    monkeypatch.setattr(_rule, "pays", lambda *_: False)
    dataset = source().map(with_random)
    for _ in range(3):
        assert [row["id"] for row in dataset.iter_rows()] == list(range(ROWS))
    (crew,) = dataset._node.gain._crews.values()
    assert crew.state == State.IN_RANK and crew._again_s == 2 * _crew._AGAIN_S
    until(lambda: not children())


def test_processes_grow_and_shrink_by_what_they_bring(source, monkeypatch):
    monkeypatch.setattr(data.DataContext.get_current(), "processes", None)
    monkeypatch.setattr(_rule, "processes_for", lambda *_: 1)
    monkeypatch.setattr(_rule, "pays", lambda *_: True)
    judged = []  # numbers of processes that were on trial
    monkeypatch.setattr(_rule, "more_processes", lambda *_, **__: 2 + len(judged) if len(judged) < 2 else 2)
    monkeypatch.setattr(_rule, "more_pay", lambda _before, after: judged.append(after[0]) or after[0] == 2)
    monkeypatch.setattr(_crew, "_GROW_S", 0.05)
    rows_until(source().map(with_random), lambda crew: judged == [2, 3] and crew.processes == 2 and len(children()) == 2)


def rows_until(dataset, condition):
    """Reads epochs, each with all rows, until the dataset's crew fulfils the condition."""
    end = time.monotonic() + 60
    while True:
        assert [row["id"] for row in dataset.iter_rows()] == list(range(ROWS))
        if condition(*dataset._node.gain._crews.values()):
            return
        assert time.monotonic() < end


def test_a_dataset_that_is_dropped_ends_its_processes(source):
    datasets = [source().map(with_random)]
    until(lambda: datasets[0].take_all() and len(children()) == 2)
    datasets.clear()
    gc.collect()
    until(lambda: not children())


def test_no_process_starts_where_the_user_or_the_loop_excludes_it(source):
    context = data.DataContext.get_current()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            assert len(list(source().map(with_random, concurrency=1).iter_rows())) == ROWS
            assert len(list(source().map(with_random).iter_batches(batch_size=64, prefetch_batches=0))) > 0
            assert len(list(source().map(Tagger, fn_constructor_args=["t"]).iter_rows())) == ROWS
        context.processes = 0
        assert len(list(source().map(with_random, concurrency=2).iter_rows())) == ROWS
    assert children() == set()


def test_a_fork_of_the_rank_leaves_its_processes_alone(source):
    dataset = source().map(with_random)
    until(lambda: dataset.take_all() and len(children()) == 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns about threads, which a fork does not have
        child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if [row["id"] for row in dataset.iter_rows()] == list(range(ROWS)) else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert [row["id"] for row in dataset.iter_rows()] == list(range(ROWS))
    assert len(children()) == 2
