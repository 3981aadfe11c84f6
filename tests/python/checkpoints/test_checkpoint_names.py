"""Names that programs give to checkpoints, read and claimed in Python. tests/unit/checkpoint/names.cpp has the same
rules.
"""

from __future__ import annotations

import json
import pathlib

import pytest
from rtrain import train
from rtrain.train import Result
from rtrain.train._driver._origin import Origin
from rtrain.train._report import _bring
from rtrain.train._report._call import ReportCall
from rtrain.train._run_directory._claims import Claim, claim_in_place, claim_name
from rtrain.train._run_directory._reading import open_directory, open_run_of
from rtrain.train._run_directory._writer import Directory
from rtrain.train._values import _checkpoint_names
from rtrain.train._values._facts import CheckpointUploadMode, Facts


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
    # A user's directory, a directory of every run, a name with another attempt's number.
    for name in ("plots", "attempts", "x-a007"):
        commit(directory, name, 1)
    assert not directory.claim_name("plots", 1)
    assert names(directory) == []
    (tmp_path / "r" / "names").mkdir(exist_ok=True)
    (tmp_path / "r" / "names" / "forged").write_text('{"attempt": 7, "report": 1}')
    commit(directory, "forged", 1)
    assert names(directory) == []
    assert directory.claim_name("best", 2)
    commit(directory, "best", 2)
    (tmp_path / "r" / "names" / "best").write_text("torn")  # then only the manifest records the owner
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
    # The first binaries need this field, and so refuse the run.
    assert header["format"] == 3 and "wall_ms" not in header
    header["wall_ms"] = header.pop("created_wall_ms")
    del header["format"]
    file.write_text(json.dumps(header))
    directory = opened(tmp_path / "r")
    assert not directory.claim_name("best", 1) and not (tmp_path / "r" / "names").exists()
    directory.close()
    file.write_text(json.dumps({**header, "format": 4}))
    for read in (lambda: Result.from_path(tmp_path / "r"), lambda: opened(tmp_path / "r")):
        with pytest.raises(
            RuntimeError, match=r"has format 4; this rtrain reads formats 1 to 3: use the rtrain that made the run"
        ):
            read()


def test_a_directory_that_holds_files_is_not_taken_for_a_checkpoint(tmp_path: pathlib.Path) -> None:
    opened(tmp_path / "r").close()
    (tmp_path / "r" / "mine").mkdir()
    (tmp_path / "r" / "notes").write_text("text")
    assert claim_name(tmp_path / "r", "mine", 1, 1) is Claim.FIRST  # the directory is empty
    assert claim_name(tmp_path / "r", "notes", 1, 1) is Claim.TAKEN
    assert claim_name(tmp_path / "r", "code", 1, 1) is Claim.TAKEN
    assert open_directory(str(tmp_path / "r")).names("names") == ["names/mine"]


# -- files that lie in the run's directory already ---------------------------------------------------------------------------
def brought(facts: Facts, index: int, stages: pathlib.Path, **call: object) -> ReportCall:
    def fresh() -> str:
        made = stages / f"{index}-{len(list(stages.iterdir()))}"
        made.mkdir()
        return str(made)

    return _bring.prepared(ReportCall("{}", **call), facts, index, fresh)  # type: ignore[arg-type]


@pytest.fixture
def in_run(tmp_path: pathlib.Path) -> tuple[Facts, pathlib.Path, pathlib.Path]:
    opened(tmp_path / "r").close()
    stages = tmp_path / "stages"
    stages.mkdir()
    return Facts(run_path=str(tmp_path / "r"), attempt=2), tmp_path / "r", stages


def test_files_in_the_run_stay_where_they_are_and_the_first_rank_brings_them(in_run) -> None:
    facts, run, stages = in_run
    (run / "mine").mkdir()
    (run / "mine" / "w").write_text("w")
    (run / "mine" / ".manifest.json").write_text('{"directory": "of-another-checkpoint"}')
    place = {"directory": str(run / "mine"), "upload": CheckpointUploadMode.NO_UPLOAD}
    first, second = brought(facts, 3, stages, **place), brought(facts, 3, stages, **place)
    assert (pathlib.Path(first.directory) / ".rtrain-in-place").read_text() == str(run / "mine")
    assert first.directory_name is None and second.directory is None
    assert [one.name for one in (run / "mine").iterdir()] == ["w"]
    with pytest.raises(ValueError, match="mine is the directory of another report"):
        brought(facts, 4, stages, **place)


def test_a_function_gets_a_name_that_no_other_report_has(in_run) -> None:
    facts, run, stages = in_run

    def bring(_: object, name: str) -> train.Checkpoint:
        (run / name).mkdir(exist_ok=True)
        given.append(name)
        return train.Checkpoint(str(run / name))

    given: list[str] = []
    claim_in_place(run, "taken", 1, 5)
    for index, wish in ((1, None), (2, "best"), (2, "best"), (3, "best"), (4, "taken")):
        call = brought(facts, index, stages, directory=str(stages), directory_name=wish, upload_fn=bring)
        # The second rank of report 2 reports no files itself.
        assert (call.directory is None) == (given[-1] in given[:-1])
    assert given == ["checkpoint_r000001-a002", "best", "best", "best-3-a002", "taken-4-a002"]


def test_what_cannot_be_a_checkpoint_where_it_lies_is_refused_by_name(in_run) -> None:
    facts, run, stages = in_run
    nine = "1/2/3/4/5/6/7/8/9"
    for name in ("deep/er", "logs/x", "x-a001/in", "x-a002", "mine", "a.pkl", "deep/.hidden/x", "deep/a\\b", nine):
        (run / name).mkdir(parents=True)

    def refusal(name: str, **more: object) -> str:
        with pytest.raises(ValueError) as caught:
            brought(facts, 1, stages, directory=str(run / name), upload=CheckpointUploadMode.NO_UPLOAD, **more)
        return str(caught.value)

    assert "its path in the run's directory begins with 'logs', which is that of a directory which every run has" in refusal(
        "logs/x"
    )
    assert "begins with 'x-a001', which may not end with -a and digits" in refusal("x-a001/in")
    assert "may not have a part that begins with '.'" in refusal("deep/.hidden/x")
    assert "may not contain '\\' or control characters" in refusal("deep/a\\b")
    assert "has 9 parts; the most is 8" in refusal(nine)
    assert "its name is that of a directory which every run has" in refusal("logs")
    assert "its name may not end with .json or .pkl" in refusal("a.pkl")
    assert "has the name of another attempt's checkpoint, and this is attempt 2" in refusal("x-a001")
    assert "the checkpoint's name is 'mine' and not 'best'" in refusal("mine", directory_name="best")
    assert "does not lie in the run's directory" in refusal("..")
    assert not (run / "names").exists()
    header = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**header, "format": 2}))
    assert f"a checkpoint lies directly in the run's directory: {run}/er" in refusal("deep/er")
    del header["format"]
    (run / "run.json").write_text(json.dumps(header))
    assert "an earlier rtrain began this run, in which a checkpoint's name says its attempt: call it mine-a002" in refusal("mine")
    assert brought(facts, 1, stages, directory=str(run / "x-a002"), upload=CheckpointUploadMode.NO_UPLOAD).directory is not None


def test_of_ranks_that_claim_at_once_one_is_the_first(tmp_path: pathlib.Path) -> None:
    opened(tmp_path / "r").close()
    claims = [claim_in_place(tmp_path / "r", "best", 1, 7) for _ in range(3)]
    assert claims == [Claim.FIRST, Claim.AGAIN, Claim.AGAIN]
    assert claim_in_place(tmp_path / "r", "best", 2, 7) is Claim.TAKEN


# -- deeper in the run's directory -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "path", ["best", "epochs/3", "epochs/3.json/x.pkl", "a/logs", "a/b-a001", "a/b/c/d/e/f/g/h", "a/" + "x" * 198]
)
def test_a_path_that_a_directory_of_the_loop_may_have(path: str) -> None:
    assert _checkpoint_names.path_fault_of(path) == ""


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "a/",
        "/a",
        "a//b",
        "a/.",
        "a/..",
        "../a",
        "a/../b",
        "a/.hidden/b",
        ".staging/a",
        "attempts/a",
        "names/a",
        "run.json/a",
    ]
    + ["x.pkl/a", "x-a001/a", "a\\b/c", "a/b\\c", "a/b\nc", "a/b\0c", "a/b/c/d/e/f/g/h/i", "a/" + "x" * 199],
)
def test_a_path_that_none_may_have(path: str) -> None:
    assert _checkpoint_names.path_fault_of(path) != ""


def test_a_deeper_directory_is_claimed_by_its_path_and_lies_in_no_other_checkpoint(in_run) -> None:
    facts, run, stages = in_run

    def place(name: str) -> dict[str, object]:
        (run / name).mkdir(parents=True, exist_ok=True)
        return {"directory": str(run / name), "upload": CheckpointUploadMode.NO_UPLOAD}

    first, second = brought(facts, 1, stages, **place("epochs/1/ckpt")), brought(facts, 1, stages, **place("epochs/1/ckpt"))
    note = (pathlib.Path(first.directory) / ".rtrain-in-place").read_bytes()
    assert note == f"{run}/epochs/1/ckpt\0epochs/1/ckpt".encode() and second.directory is None
    assert json.loads((run / "names/epochs/1/ckpt").read_text()) == {"schema_version": 1, "attempt": 2, "report": 1}
    assert brought(facts, 2, stages, **place("epochs/2/x-a001")).directory is not None  # the claim records the attempt
    assert brought(facts, 3, stages, **place("flat")).directory is not None
    for name, why in (
        ("epochs/1/ckpt", "is the directory of another report"),
        ("epochs/1", "holds checkpoints of this run, and cannot be one itself"),
        ("epochs", "holds checkpoints of this run"),
        ("epochs/1/ckpt/part", f"lies in {run}/epochs/1/ckpt, which is the directory of another report"),
        ("flat/part/of", f"lies in {run}/flat, which is the directory of another report"),
    ):
        with pytest.raises(ValueError, match="ckpt|epochs|flat") as caught:
            brought(facts, 4, stages, **place(name))
        assert why in str(caught.value)
    assert claim_name(run, "epochs", 2, 5) is Claim.TAKEN  # a number is appended for the next request of that name
    assert brought(facts, 4, stages, **place("epochs/3"), directory_name="3").directory is not None


def test_a_link_on_the_way_counts_as_what_it_leads_to(in_run) -> None:
    facts, run, stages = in_run
    outside = run.parent / "outside"
    (outside / "1").mkdir(parents=True)
    (run / "led").symlink_to(outside)
    (run / "epochs" / "1").mkdir(parents=True)
    (run / "newest").symlink_to(run / "epochs")
    with pytest.raises(ValueError, match="does not lie in the run's directory"):
        brought(facts, 1, stages, directory=str(run / "led" / "1"), upload=CheckpointUploadMode.NO_UPLOAD)
    with pytest.raises(ValueError, match="does not lie in the run's directory"):
        brought(facts, 1, stages, directory=f"{run}/epochs/../../outside/1", upload=CheckpointUploadMode.NO_UPLOAD)
    assert not (run / "names").exists()
    assert brought(facts, 1, stages, directory=str(run / "newest" / "1"), upload=CheckpointUploadMode.NO_UPLOAD).directory
    assert (run / "names" / "epochs" / "1").is_file()


def test_deeper_checkpoints_are_found_by_their_claims_and_removed_alone(tmp_path: pathlib.Path) -> None:
    directory = opened(tmp_path / "r")
    for report, name in enumerate(("epochs/1", "epochs/2/ckpt-a009"), start=1):
        (tmp_path / "r" / name).mkdir(parents=True)
        assert claim_in_place(tmp_path / "r", name, 1, report) is Claim.FIRST
        commit(directory, name, report)
    (tmp_path / "r" / "epochs" / "copy").mkdir()
    (tmp_path / "r" / "epochs" / "copy" / ".manifest.json").write_text((tmp_path / "r/epochs/1/.manifest.json").read_text())
    assert names(directory) == ["epochs/1", "epochs/2/ckpt-a009"]
    result = Result.from_path(tmp_path / "r")
    assert [one.name for one, _ in result.best_checkpoints] == ["epochs/1", "epochs/2/ckpt-a009"]
    assert result.checkpoint.path == str(tmp_path / "r" / "epochs" / "2" / "ckpt-a009")
    for run in (tmp_path / "r", tmp_path / "r" / "epochs"):
        assert ReportCall("{}", str(run / "epochs"), removed=True).may_remove_directory(str(tmp_path / "r")) == (
            run.name == "epochs"
        )
    directory.remove(directory.committed()[0])
    assert names(directory) == ["epochs/2/ckpt-a009"]
    directory.close()
    again = opened(tmp_path / "r")
    assert again.start is not None and again.start.name == "epochs/2/ckpt-a009"
    assert claim_in_place(tmp_path / "r", "epochs/1", 2, 1) is Claim.TAKEN  # a name is used once
    again.close()


def test_the_run_of_a_checkpoint_is_found_from_its_path(tmp_path: pathlib.Path) -> None:
    opened(tmp_path / "r").close()
    for name in ("best", "epochs/3", "a/b/c/d/e/f/g/h"):
        run, inside = open_run_of(f"{tmp_path}/r/{name}")
        assert (run.path, inside) == (str(tmp_path / "r"), name)
    with pytest.raises(FileNotFoundError, match="a/b/c/d/e/f/g/h doesn't exist"):
        open_run_of(f"{tmp_path}/r/a/b/c/d/e/f/g/h/i")
