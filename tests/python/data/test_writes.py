"""Files in a folder that has files: named by run, write and block, and seen when the write has succeeded."""

from __future__ import annotations

import pathlib

import pytest
import rtrain.data as data
from rtrain.data import _parts
from rtrain.data._parts import Writer


def ids(folder: pathlib.Path) -> list[int]:
    return sorted(row["id"] for row in data.read_parquet(folder).take_all())


@pytest.fixture
def process(monkeypatch):
    """Another process begins: of this run, rank, and so on."""

    def begin(run, **about):
        monkeypatch.setattr(_parts, "_writes", {})
        monkeypatch.setattr(Writer, "current", staticmethod(lambda: Writer(run, **about)))

    return begin


def test_a_script_that_runs_again_appends_and_says_so(tmp_path, process, capfd):
    process("first")
    data.range(10).write_parquet(tmp_path)
    assert capfd.readouterr().err == ""
    process("second")
    data.range(3).write_parquet(tmp_path)
    assert "write_parquet" in (said := capfd.readouterr().err) and "rows are added to them" in said and "overwrite" in said
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
    process("run", reports=1)  # goes on from the first report's checkpoint
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
    assert capfd.readouterr().err == ""  # no other run's files are there
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
