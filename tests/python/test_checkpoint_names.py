"""Names that programs give to checkpoints, as Python reads and claims them; tests/unit/checkpoint_names.cpp has the same rules."""

from __future__ import annotations

import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "runtime" / "python"))

from rtrain import train
from rtrain.train import Result, _checkpoint_names
from rtrain.train._local_directory import Directory, claim_name
from rtrain.train._restore import Origin
from rtrain.train._run_directory import open_directory


def opened(path: pathlib.Path) -> Directory:
    directory = Directory(path, path.name)
    directory.open({}, 1, ["here"])
    return directory


def commit(directory: Directory, name: str, report: int) -> None:
    (directory.path / name).mkdir(exist_ok=True)
    directory.write_manifest(name, report, [], "{}", 1)


def names(directory: Directory) -> list[str]:
    return [one.name for one in directory.committed()]


@pytest.mark.parametrize("name", ["best", "epoch-3", "x-a1", "x-a01", "-a001", "checkpoint_000007", "a.pt", "12", "café"])
def test_a_name_that_a_checkpoint_may_have(name: str) -> None:
    assert _checkpoint_names.fault_of(name) == ""


@pytest.mark.parametrize(
    "name",
    [
        ".best",
        "a/b",
        "../x",
        "a\\b",
        "a\nb",
        "attempts",
        "code",
        "logs",
        "names",
        "run.json",
        "driver.pkl",
        "x-a001",
        "x-a12345",
        "x" * 201,
    ],
)
def test_a_name_that_none_may_have_is_refused_by_report(name: str) -> None:
    with pytest.raises(ValueError, match="the checkpoint's directory name"):
        train.report({}, checkpoint_dir_name=name)


def test_a_name_is_its_first_reports_and_taken_for_all_others_also_after_its_deletion(tmp_path: pathlib.Path) -> None:
    first = opened(tmp_path / "r")
    assert first.claim_name("best", 1) and first.claim_name("best", 1)
    assert not first.claim_name("best", 2)
    commit(first, "best", 1)
    assert names(first) == ["best"]
    first.remove(first.committed()[0])
    first.close()
    second = opened(tmp_path / "r")
    assert not second.claim_name("best", 1) and names(second) == []
    second.close()
    assert json.loads((tmp_path / "r" / "names" / "best").read_text()) == {"schema_version": 1, "attempt": 1, "report": 1}


def test_what_is_no_checkpoint_by_name_nor_claim_is_none(tmp_path: pathlib.Path) -> None:
    directory = opened(tmp_path / "r")
    for name in ("plots", "attempts", "x-a007"):  # a user's, one that every run has, another attempt's
        commit(directory, name, 1)
    assert not directory.claim_name("plots", 1)
    assert names(directory) == []
    (tmp_path / "r" / "names").mkdir(exist_ok=True)
    (tmp_path / "r" / "names" / "forged").write_text('{"attempt": 7, "report": 1}')
    commit(directory, "forged", 1)
    assert names(directory) == []
    assert directory.claim_name("best", 2)
    commit(directory, "best", 2)
    (tmp_path / "r" / "names" / "best").write_text("torn")  # then the manifest alone says whose it is
    assert names(directory) == ["best"]
    result = Result.from_path(tmp_path / "r")
    assert sorted(one.name for one, _ in result.best_checkpoints) == ["best", "forged", "x-a007"]
    directory.close()


def test_the_newest_is_found_by_its_manifest(tmp_path: pathlib.Path) -> None:
    directory = opened(tmp_path / "r")
    for report, name in enumerate(("zeta", "alpha"), start=1):
        assert directory.claim_name(name, report)
        commit(directory, name, report)
    directory.close()
    assert names(directory) == ["zeta", "alpha"]
    assert Origin(str(tmp_path / "r"), "r", str(tmp_path), here=True).newest() == "alpha"
    assert Result.from_path(tmp_path / "r").checkpoint.name == "alpha"
    again = opened(tmp_path / "r")
    assert again.start is not None and again.start.name == "alpha"
    again.close()


def test_a_run_of_before_keeps_names_with_their_attempt_and_a_later_format_is_refused(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "r" / "run.json"
    opened(tmp_path / "r").close()
    header = json.loads(file.read_text())
    assert header["format"] == 2 and "wall_ms" not in header  # which binaries of before need: they refuse the run
    header["wall_ms"] = header.pop("created_wall_ms")
    del header["format"]
    file.write_text(json.dumps(header))
    directory = opened(tmp_path / "r")
    assert not directory.claim_name("best", 1) and not (tmp_path / "r" / "names").exists()
    directory.close()
    file.write_text(json.dumps({**header, "format": 3}))
    for read in (lambda: Result.from_path(tmp_path / "r"), lambda: opened(tmp_path / "r")):
        with pytest.raises(
            RuntimeError, match=r"has format 3; this rtrain reads formats 1 to 2: use the rtrain that made the run"
        ):
            read()


def test_a_directory_that_holds_files_is_not_taken_for_a_checkpoint(tmp_path: pathlib.Path) -> None:
    opened(tmp_path / "r").close()
    (tmp_path / "r" / "mine").mkdir()
    (tmp_path / "r" / "notes").write_text("text")
    assert claim_name(tmp_path / "r", "mine", 1, 1)  # it is empty
    assert not claim_name(tmp_path / "r", "notes", 1, 1)
    assert not claim_name(tmp_path / "r", "code", 1, 1)
    assert open_directory(str(tmp_path / "r")).names("names") == ["names/mine"]
