"""Files in a folder that has files: named by run, write and block, and seen when the write has succeeded."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import rtrain.data as data
from rtrain.data._parts import Writer


def ids(folder: pathlib.Path) -> list[int]:
    return sorted(row["id"] for row in data.read_parquet(folder).take_all())


@pytest.fixture
def process(monkeypatch):
    """Starts another process of a run and rank. Each process is a new attempt unless one is given."""
    begun = itertools.count(1)

    def begin(run, **about):
        number = next(begun)
        writer = Writer(run, **{"attempt": number, "process": f"{number:012x}", **about})
        monkeypatch.setattr(Writer, "current", staticmethod(lambda: writer))

    return begin


def test_a_script_that_runs_again_appends_and_says_so(tmp_path, process, capfd):
    process("first")
    data.range(10).write_parquet(tmp_path)
    assert capfd.readouterr().err == ""
    process("second")
    data.range(3).write_parquet(tmp_path)
    assert "write_parquet" in (errors := capfd.readouterr().err) and "rows are added to them" in errors and "overwrite" in errors
    assert ids(tmp_path) == sorted([*range(10), *range(3)])


def test_a_retried_attempt_replaces_its_own(tmp_path, process, capfd):
    process("run")
    data.range(10).write_parquet(tmp_path, num_rows_per_file=2)  # five files
    process("run")
    data.range(10).map(lambda row: {"id": row["id"] + 100}).write_parquet(tmp_path, num_rows_per_file=5)  # two
    assert ids(tmp_path) == list(range(100, 110)) and len(list(tmp_path.iterdir())) == 2
    assert capfd.readouterr().err == ""


def test_what_was_written_before_the_checkpoint_stays(tmp_path, process):
    process("run", reports=0)
    data.range(5).write_parquet(tmp_path)
    process("run", reports=1)
    data.range(
        5,
    ).map(lambda row: {"id": row["id"] + 10}).write_parquet(tmp_path)
    process("run", reports=1)  # resumes from the first report's checkpoint
    data.range(5).map(lambda row: {"id": row["id"] + 20}).write_parquet(tmp_path)
    assert ids(tmp_path) == [*range(5), *range(20, 25)]


def test_ranks_write_beside_each_other_also_when_there_are_fewer_of_them(tmp_path, process, capfd):
    for mode in ("append", "overwrite", "error", "ignore"):
        for world in (3, 2):
            for rank in range(world):
                process("run", rank=rank, world=world)
                data.range(12).split(world)[rank].write_parquet(tmp_path / mode, mode=mode)
            assert ids(tmp_path / mode) == list(range(12))
    assert capfd.readouterr().err == ""


def test_two_writes_of_one_process_are_two(tmp_path, capfd):
    data.range(3).write_parquet(tmp_path)
    data.range(3).write_parquet(tmp_path)
    assert capfd.readouterr().err == ""  # there are no files of another run
    assert ids(tmp_path) == [0, 0, 1, 1, 2, 2]


def test_nothing_of_a_write_that_fails_is_seen(tmp_path, process):
    process("first")
    data.range(4).write_parquet(tmp_path)

    def breaks(row):
        if row["id"] == 99_999:
            raise ValueError("broken row")
        return row

    process("second")
    for mode in ("append", "overwrite"):
        with pytest.raises(data.UserCodeError, match="broken row"):
            data.range(100_000).map(breaks).write_parquet(tmp_path, num_rows_per_file=10_000, mode=mode)
        assert ids(tmp_path) == [0, 1, 2, 3] and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_modes(kind, tmp_path, process, capfd):
    def write(rows, **options):
        getattr(data.range(rows), f"write_{kind}")(tmp_path, **options)
        return sorted(row["id"] for row in getattr(data, f"read_{kind}")(tmp_path).take_all())

    (tmp_path / "README.md").write_text("about")
    process("first")
    assert write(4) == [0, 1, 2, 3]
    process("second")
    with pytest.raises(FileExistsError, match=r"files of other writes.*mode='append' adds"):
        write(2, mode="error")
    assert write(2, mode=data.SaveMode.IGNORE) == [0, 1, 2, 3]
    assert write(2, mode=data.SaveMode.OVERWRITE) == [0, 1] and (tmp_path / "README.md").exists()
    assert write(1, mode="append") == [0, 0, 1]
    with pytest.raises(ValueError, match="mode is 'replace'; it is one of 'append', 'overwrite', 'ignore', 'error'"):
        write(1, mode="replace")


def write_five(place):
    folder, number = place
    data.range(5).map(lambda row: {"id": 5 * number + row["id"]}).write_parquet(folder)


@pytest.fixture(params=["no run", "a run", "a run whose process has no session"])
def writing(request, monkeypatch):
    """This process is one of a run, or of none."""
    from rtrain.train import _session
    from rtrain.train._values._facts import Facts

    class Session:
        facts, reports_made = Facts(run_id="r-1", attempt=1), 0

    if request.param == "a run":
        monkeypatch.setattr(_session, "_session", Session())
    elif request.param != "no run":
        monkeypatch.setenv("RTRAIN_RUN_ID", "r-1")
        monkeypatch.setenv("RTRAIN_ATTEMPT", "r-1-a1")


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_processes_of_one_program_write_beside_each_other(start, tmp_path, writing):
    with multiprocessing.get_context(start).Pool(4) as pool:
        pool.map(write_five, [(tmp_path, number) for number in range(4)], chunksize=1)
    assert ids(tmp_path) == list(range(20))
    write_five((tmp_path, 4))  # the parent
    assert ids(tmp_path) == list(range(25))


def test_threads_of_one_program_write_beside_each_other(tmp_path, writing):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write_five, [(tmp_path, number) for number in range(40)]))
    assert ids(tmp_path) == list(range(200))


def test_a_retried_attempt_replaces_what_processes_of_its_ranks_wrote(tmp_path, process):
    for number in range(4):
        process("run", attempt=1)
        data.range(10).write_parquet(tmp_path)
        if number == 3:
            data.range(10).write_parquet(tmp_path)  # a second write of this process
    for _ in range(2):
        process("run", attempt=2)
        data.range(3).write_parquet(tmp_path)
        data.range(3).write_csv(tmp_path / "csv")
    assert ids(tmp_path) == [0, 0, 1, 1, 2, 2]


def test_a_write_that_failed_took_no_number(tmp_path, process):
    process("run", attempt=1)
    with pytest.raises(data.UserCodeError):
        data.range(3).map(lambda row: {"id": 1 // 0}).write_parquet(tmp_path)
    data.range(3).write_parquet(tmp_path)
    assert [name.split("-")[2] for name in os.listdir(tmp_path)] == ["w000000n000"]


def test_overwrite_removes_what_ranks_that_are_no_more_wrote(tmp_path, process):
    for reports, world in ((1, 5), (2, 2), (3, 3)):
        for rank in range(world):
            process("run", rank=rank, world=world, reports=reports, attempt=reports)
            data.from_items([{"id": 10 * reports + rank}]).write_parquet(tmp_path, mode="overwrite")
        assert ids(tmp_path) == [10 * reports + rank for rank in range(world)]


def test_ranks_of_a_run_without_sessions_leave_each_other_s_files(tmp_path, monkeypatch):
    monkeypatch.setenv("RTRAIN_RUN_ID", "r-1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in (1, 0):
        monkeypatch.setenv("RANK", str(rank))
        for attempt in (1, 2):
            monkeypatch.setenv("RTRAIN_ATTEMPT", f"r-1-a{attempt}")
            write_five((tmp_path, rank))
    assert ids(tmp_path) == list(range(10))


def test_calls_of_a_remote_worker_keep_what_calls_before_its_restart_wrote(tmp_path, monkeypatch):
    monkeypatch.setenv("RTRAIN_RUN_ID", "r-1")
    monkeypatch.setenv("RTRAIN_REMOTE_SLOT", "slot")
    write_five((tmp_path, 0))
    monkeypatch.setenv("RTRAIN_ATTEMPT", "r-1-a2")
    write_five((tmp_path, 1))
    assert ids(tmp_path) == list(range(10))


RANKS = """
import os, sys
import rtrain.data as data
try:
    data.from_items([{"id": int(os.environ["RANK"])}]).write_parquet(sys.argv[1], mode=sys.argv[2])
except ValueError as error:
    print(error)
"""


@pytest.mark.parametrize("mode", ["append", "overwrite", "ignore", "error"])
def test_ranks_without_a_run_add_and_are_refused_what_needs_to_know_each_other(mode, tmp_path):
    outputs = []
    for rank in range(2):
        environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", RANKS, str(tmp_path / "rows"), mode]
        outputs.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    if mode == "append":
        assert ids(tmp_path / "rows") == [0, 1]
    else:
        assert all(f"mode='{mode}' in rank {rank} of 2 processes that are no run" in outputs[rank] for rank in range(2))
        assert not (tmp_path / "rows").exists()
