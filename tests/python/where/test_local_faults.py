"""Local mode when a checkpoint cannot be stored: every rank raises, and no file is lost."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rtrain import _files, train
from rtrain.train._local._session import LocalSession
from rtrain.train._report._call import ReportCall
from rtrain.train._run_directory._writer import Directory
from rtrain.train._values._checkpoint_names import MANIFEST
from rtrain.train._values._facts import Facts


class Threads:
    """Ranks that are threads of this process, which wait for each other as torchrun's processes do."""

    def __init__(self, rank: int, places: list[Any], together: threading.Barrier) -> None:
        self._rank, self._places, self._together = rank, places, together

    def gather(self, value: Any, doing: str) -> list[Any]:
        self._together.wait()
        self._places[self._rank] = (doing, value)
        self._together.wait()
        assert len({purpose for purpose, _ in self._places}) == 1, self._places
        return [gathered for _, gathered in self._places]

    def broadcast(self, value: Any, doing: str) -> Any:
        return self.gather(value, doing)[0]

    def close(self) -> None:
        self._together.abort()


@pytest.fixture
def small_disk(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Mounts a real file system with room for 1 MiB; skips the test if mounting is not allowed."""
    mount = tmp_path / "disk"
    mount.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mount], check=False).returncode != 0
    ):
        pytest.skip("mounting a tmpfs needs root")
    yield mount
    subprocess.run(["umount", "-l", mount], check=True)


def report_on_two_ranks(run: pathlib.Path, call_of: Callable[[int], ReportCall]) -> list[BaseException | None]:
    """Returns the exception of `report` on each rank."""
    directories = [Directory(run, "run"), Directory(run, "run")]
    directories[0].open({}, 2, ["here"])
    directories[1].attempt = directories[0].attempt
    places, together = [None, None], threading.Barrier(2, timeout=60)
    raised: list[BaseException | None] = [None, None]

    def work(rank: int) -> None:
        facts = Facts(
            2,
            rank,
            rank,
            2,
            experiment_name="run",
            attempt=directories[0].attempt,
            storage_path=str(run.parent),
            run_path=str(run),
        )
        session = LocalSession(
            facts, Threads(rank, places, together), directories[rank], train.CheckpointConfig(), lambda *_: None
        )
        try:
            session.report(call_of(rank))
        except Exception as error:
            raised[rank] = error

    ranks = [threading.Thread(target=work, args=(rank,)) for rank in (0, 1)]
    for thread in ranks:
        thread.start()
    for thread in ranks:
        thread.join(timeout=120)
    directories[0].close()
    return raised


def test_files_given_away_come_back_where_another_rank_has_no_room(tmp_path, small_disk) -> None:
    """Rank 0's files were moved before rank 1's disk was full. Without the checkpoint, the moved files would be the
    only copy.
    """
    given = [small_disk / "of-0", tmp_path / "of-1"]
    for folder, size in zip(given, (1000, 3 << 20), strict=True):
        (folder / "inner").mkdir(parents=True)
        (folder / "inner" / f"{folder.name}.pt").write_bytes(b"w" * size)
    calls = [ReportCall("{}", str(folder), owned=True) for folder in given]
    raised = report_on_two_ranks(small_disk / "runs" / "run", lambda rank: calls[rank])
    assert [type(one) for one in raised] == [train.CheckpointUploadError] * 2
    assert "rank 1: " in str(raised[0]) and "No space left on device" in str(raised[0])
    assert (given[0] / "inner" / "of-0.pt").read_bytes() == b"w" * 1000
    assert (given[1] / "inner" / "of-1.pt").stat().st_size == 3 << 20
    assert not list((small_disk / "runs" / "run").glob("checkpoint_*"))


def test_files_reported_in_their_place_stay_where_the_manifest_cannot_be_written(tmp_path, monkeypatch) -> None:
    run = tmp_path / "runs" / "run"
    (run / "mine").mkdir(parents=True)
    (run / "mine" / "model.pt").write_text("weights")

    def full(*_arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Directory, "write_manifest", full)
    call = ReportCall("{}", str(run / "mine"), upload=train.CheckpointUploadMode.NO_UPLOAD)
    raised = report_on_two_ranks(run, lambda rank: call)
    assert [type(one) for one in raised] == [train.CheckpointUploadError] * 2
    assert (run / "mine" / "model.pt").read_text() == "weights"


def test_files_that_a_function_moved_stay_where_the_manifest_has_no_room(tmp_path, small_disk) -> None:
    """checkpoint_upload_fn may move the files. Then the files in the run's directory are their only copy."""
    run = small_disk / "runs" / "run"
    given = [tmp_path / "of-0", tmp_path / "of-1"]
    moved = threading.Barrier(2, timeout=60)

    def move(checkpoint: train.Checkpoint, name: str) -> train.Checkpoint:
        source = pathlib.Path(checkpoint.path)
        (run / name).mkdir(exist_ok=True)
        shutil.move(source / f"{source.name}.pt", run / name / f"{source.name}.pt")
        moved.wait()
        if source == given[0]:
            with contextlib.suppress(OSError), (small_disk / "other").open("wb", buffering=0) as other:
                while other.write(b"\0" * 4096):
                    pass
        moved.wait()
        return train.Checkpoint(run / name)

    for folder in given:
        folder.mkdir()
        (folder / f"{folder.name}.pt").write_text(folder.name)
    raised = report_on_two_ranks(run, lambda rank: ReportCall("{}", str(given[rank]), upload_fn=move))
    assert [type(one) for one in raised] == [train.CheckpointUploadError] * 2
    (kept,) = run.glob("checkpoint_*")
    assert "No space left on device" in str(raised[0]) and f"the files stay in {kept}" in str(raised[1])
    assert [(kept / f"{folder.name}.pt").read_text() for folder in given] == ["of-0", "of-1"]


def test_a_report_that_raised_is_not_committed_where_the_manifest_is_there_but_not_durable(tmp_path, monkeypatch) -> None:
    run = tmp_path / "runs" / "run"
    (run / "mine").mkdir(parents=True)
    (run / "mine" / "model.pt").write_text("weights")

    def failing(folder: pathlib.Path) -> None:
        if (folder / MANIFEST).exists():
            raise OSError(5, "Input/output error")

    call = ReportCall("{}", str(run / "mine"), upload=train.CheckpointUploadMode.NO_UPLOAD)
    with monkeypatch.context() as patched:
        patched.setattr(_files, "sync_folder", failing)
        raised = report_on_two_ranks(run, lambda rank: call)
    assert [type(one) for one in raised] == [train.CheckpointUploadError] * 2
    assert (run / "mine" / "model.pt").read_text() == "weights" and not (run / "mine" / MANIFEST).exists()
    following = Directory(run, "run")
    following.open({}, 2, ["here"])
    assert following.start is None and following.committed() == []
    following.close()


def put_into(place: Callable[[int], pathlib.Path]) -> Callable[[int], ReportCall]:
    """Returns the report of a rank whose own function stores a file in a directory of its choice."""

    def call_of(rank: int) -> ReportCall:
        def put(_: train.Checkpoint, name: str) -> train.Checkpoint:
            place(rank).mkdir(parents=True, exist_ok=True)
            (place(rank) / f"of-{rank}").write_text(name)
            return train.Checkpoint(place(rank))

        return ReportCall("{}", str(place(rank)), upload_fn=put)

    return call_of


def committed_in(run: pathlib.Path) -> list[tuple[str, list[str]]]:
    directory = Directory(run, "run")
    return [(one.name, [file["path"] for file in one.manifest["files"]]) for one in directory.committed()]


def test_what_functions_put_deeper_into_the_run_is_the_checkpoint_where_it_lies(tmp_path) -> None:
    run = tmp_path / "runs" / "run"
    assert report_on_two_ranks(run, put_into(lambda rank: run / "mine" / "1")) == [None, None]
    assert report_on_two_ranks(run, put_into(lambda rank: run / "flat")) == [None, None]
    assert committed_in(run) == [("mine/1", ["of-0", "of-1"]), ("flat", ["of-0", "of-1"])]
    # The name that was passed to the function.
    assert (run / "mine" / "1" / "of-1").read_text() == "checkpoint_000001-a001"
    assert not (run / "checkpoint_000001-a001").exists()
    again = report_on_two_ranks(run, put_into(lambda rank: run / "mine" / "1"))
    assert [type(one) for one in again] == [ValueError] * 2 and "a committed checkpoint of this run" in str(again[0])


@pytest.mark.parametrize(
    ("places", "why"),
    [
        (("mine/0", "mine/1"), "ranks bring the directories mine/0 and mine/1 of the run"),
        (("mine/0", "logs/0"), "rank 1: .*begins with 'logs', which is that of a directory which every run has"),
        (("mine/0", "../elsewhere"), "rank 1: .*elsewhere does not lie in the run's directory"),
    ],
)
def test_functions_that_put_files_where_no_checkpoint_can_be_fail_every_rank(tmp_path, places, why) -> None:
    run = tmp_path / "runs" / "run"
    raised = report_on_two_ranks(run, put_into(lambda rank: run / places[rank]))
    assert [type(one) for one in raised] == [ValueError] * 2
    for one in raised:
        with pytest.raises(ValueError, match=why):
            raise one
    assert all((run / place / f"of-{rank}").is_file() for rank, place in enumerate(places))
    assert committed_in(run) == []


def test_files_deeper_in_the_run_stay_where_the_manifest_cannot_be_written(tmp_path, monkeypatch) -> None:
    run = tmp_path / "runs" / "run"
    (run / "epochs" / "1").mkdir(parents=True)
    (run / "epochs" / "1" / "model.pt").write_text("weights")

    def full(*_arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    call = ReportCall("{}", str(run / "epochs" / "1"), upload=train.CheckpointUploadMode.NO_UPLOAD)
    with monkeypatch.context() as patched:
        patched.setattr(Directory, "write_manifest", full)
        raised = report_on_two_ranks(run, lambda rank: call)
    assert [type(one) for one in raised] == [train.CheckpointUploadError] * 2
    assert (run / "epochs" / "1" / "model.pt").read_text() == "weights" and committed_in(run) == []
