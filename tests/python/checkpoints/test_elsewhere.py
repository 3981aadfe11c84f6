"""A `storage_filesystem=` that rtrain cannot write itself: it stores the files of checkpoints. rtrain's own storage
has all other files.
"""

from __future__ import annotations

import json
import pathlib
import threading

import pytest
from rtrain import train, tune
from rtrain.train import Checkpoint, CheckpointConfig, DataParallelTrainer, Result, RunConfig, ScalingConfig
from rtrain.train._driver import _submission
from rtrain.train._run_directory import _elsewhere
from rtrain.train._values._facts import Facts

fs = pytest.importorskip("pyarrow.fs")
pytest.importorskip("fsspec")


def memory():
    from fsspec.implementations.memory import MemoryFileSystem

    return MemoryFileSystem()


def folder_of(tmp_path):
    from fsspec.implementations.dirfs import DirFileSystem
    from fsspec.implementations.local import LocalFileSystem

    (tmp_path / "bucket").mkdir(exist_ok=True)
    return DirFileSystem(str(tmp_path / "bucket"), LocalFileSystem())


KINDS = {
    "fsspec": folder_of,
    "memory": lambda _: memory(),
    "pyarrow's wrapper": lambda path: fs.PyFileSystem(fs.FSSpecHandler(folder_of(path))),
    "a view of a folder": lambda path: fs.SubTreeFileSystem("views", fs.PyFileSystem(fs.FSSpecHandler(folder_of(path)))),
}


@pytest.fixture(autouse=True)
def own_process(monkeypatch, tmp_path):
    memory().store.clear()
    monkeypatch.setattr(_elsewhere, "_known", {})
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def fit(loop, config):
    return DataParallelTrainer(loop, scaling_config=ScalingConfig(num_workers=0), run_config=config).fit()


def three(tmp_path):
    source = tmp_path / "mine"
    (source / "deep").mkdir(parents=True, exist_ok=True)
    for step in (1, 2, 3):
        (source / "weights").write_text(f"w{step}")
        (source / "deep" / "more").write_text("m")
        train.report({"step": step}, Checkpoint.from_directory(source))
    with train.get_checkpoint().as_directory() as folder:
        return sorted(one.relative_to(folder).as_posix() for one in pathlib.Path(folder).rglob("*") if one.is_file())


@pytest.mark.parametrize("kind", KINDS)
def test_files_lie_there_and_are_read_from_there_and_those_of_removed_checkpoints_go(kind, tmp_path):
    given = KINDS[kind](tmp_path)
    keep = CheckpointConfig(num_to_keep=1)
    result = fit(
        lambda: three(tmp_path),
        RunConfig("run", "/prefix/runs", given, records_path=tmp_path / "records", checkpoint_config=keep),
    )
    assert result.return_value == ["deep/more", "weights"]
    assert (result.path, result.filesystem) == ("/prefix/runs/run", given)
    shown = result.checkpoint
    assert shown.filesystem is given and shown.path.startswith("/prefix/runs/run/checkpoint_000003-a001-")
    with _elsewhere._filesystems.as_pyarrow(given).open_input_stream(f"{shown.path}/weights") as content:
        assert content.read() == b"w3"
    record = pathlib.Path(result.checkpoint._at)
    assert record.parent == tmp_path / "records" / "run"
    assert {one.name for one in record.iterdir()} == {".manifest.json", ".rtrain-elsewhere-0.json"}
    assert not any((record.parent / ".staging").iterdir())
    there = RunConfig("run", "/prefix/runs", given).elsewhere
    names = [one.path for one in _elsewhere._filesystems.as_pyarrow(there.filesystem).get_file_info(
        fs.FileSelector(f"{there.path}/run", recursive=True)) if one.is_file]  # fmt: skip
    assert len(names) == 3  # two files of one checkpoint, and the file with the run's path
    with result.checkpoint.as_directory() as folder:
        assert (pathlib.Path(folder) / "weights").read_text() == "w3"
    for path in ("/prefix/runs/run", str(record.parent)):
        _elsewhere._known.clear()
        with pytest.raises(RuntimeError, match="lie on the storage_filesystem of its run, which this process was not given"):
            Checkpoint(str(record)).to_directory(tmp_path / "none")
        checkpoint = Result.from_path(path, storage_filesystem=given).checkpoint
        assert (pathlib.Path(checkpoint.to_directory(tmp_path / f"copy-{len(path)}")) / "weights").read_text() == "w3"


def test_a_run_goes_on_from_there_and_restore_knows_the_file_system(tmp_path):
    def loop(config):
        before = train.get_checkpoint()
        begun = before.to_dict()["step"] if before else 0
        train.report({"step": begun + 1}, Checkpoint.from_dict({"step": begun + 1}))
        return begun

    config = RunConfig("run", "runs", folder_of(tmp_path), records_path=tmp_path / "records")
    assert [fit(loop, config).return_value for _ in range(2)] == [0, 1]
    _elsewhere._known.clear()
    again = DataParallelTrainer.restore(tmp_path / "records" / "run")
    assert again.run_config.elsewhere is not None and again.run_config.storage_path == "runs"
    result = again.fit()
    assert result.return_value == 2 and result.checkpoint.to_dict() == {"step": 3}


def test_one_that_cannot_be_written_is_known_before_the_loop_begins(tmp_path):
    def loop():
        raise AssertionError("the loop has begun")

    (tmp_path / "bucket").mkdir()
    (tmp_path / "bucket" / "runs").write_text("no folder")
    with pytest.raises(OSError, match="runs"):
        fit(loop, RunConfig("run", "runs", folder_of(tmp_path), records_path=tmp_path / "records"))


def test_in_local_mode_a_validation_reads_them_and_the_trainer_is_kept(tmp_path, capfd):
    def loop():
        train.report({"step": 1}, Checkpoint.from_dict({"step": 1}), validation=True)

    config = RunConfig("run", "runs", folder_of(tmp_path), records_path=tmp_path / "records")
    validation = train.ValidationConfig(lambda checkpoint: {"seen": checkpoint.to_dict()["step"]})
    trainer = DataParallelTrainer(
        loop, scaling_config=ScalingConfig(num_workers=0), run_config=config, validation_config=validation
    )
    assert trainer.fit().checkpoint.metrics == {"step": 1, "seen": 1}
    assert "does not keep this training function" not in capfd.readouterr().err


def test_what_is_missing_or_was_changed_is_named(tmp_path):
    result = fit(lambda: three(tmp_path), RunConfig("run", "runs", folder_of(tmp_path), records_path=tmp_path / "records"))
    [newest] = (tmp_path / "bucket" / "runs" / "run").glob("checkpoint_000003-*")
    (newest / "weights").write_text("other")
    (newest / "deep" / "more").unlink()
    with pytest.raises(OSError, match=r"/deep/more is missing; .*/weights has changed: 5 bytes, hash .* reported were 2,"):
        result.checkpoint.to_directory()


def test_of_one_name_from_several_ranks_the_lowest_one_s_counts(tmp_path):
    there = _elsewhere.Elsewhere(folder_of(tmp_path), "runs")
    staged = tmp_path / "staged"
    staged.mkdir()
    for rank in (1, 0):
        directory = tmp_path / f"rank-{rank}"
        directory.mkdir()
        (directory / "same").write_text(f"of {rank}")
        (directory / f"own-{rank}").write_text("x")
        there.store(
            directory, Facts(world_size=2, world_rank=rank, experiment_name="run", run_id="r-1", run_path="/r"), 1, staged
        )
    there.fetch(_elsewhere.pointers(staged), tmp_path / "fetched")
    assert {one.name: one.read_text() for one in (tmp_path / "fetched").iterdir()} == {"same": "of 0", "own-0": "x", "own-1": "x"}


@pytest.mark.parametrize("name", ["../outside", "/etc/outside", "a/../../outside"])
def test_a_forged_pointer_leads_nowhere(name, tmp_path):
    forged = [{"directory": "run/checkpoint", "files": [{"path": name, "bytes": 1, "sha256": ""}]}]
    with pytest.raises(OSError, match="does not lie in a checkpoint"):
        _elsewhere.Elsewhere(folder_of(tmp_path), "runs").fetch(forged, tmp_path / "target")


def test_what_is_removed_is_of_this_run_and_was_named_once(tmp_path):
    there = _elsewhere.Elsewhere(folder_of(tmp_path), "runs")
    top = tmp_path / "bucket" / "runs" / "run"
    names = [f"checkpoint_{report:06}-a001-r-1" for report in range(1, 14)]
    names += ["checkpoint_000001-a002-r-1", "checkpoint_000002-a002-r-1", "checkpoint_000001-a001-r-2", "notes"]
    for one in names:
        (top / one).mkdir(parents=True)
    sweeper = _elsewhere.Sweeper(there, Facts(experiment_name="run", run_id="r-1", attempt=2))
    kept = {"c1": "checkpoint_000013-a001-r-1", "c2": "checkpoint_000001-a002-r-1"}

    def read(name):
        return [{"directory": f"run/{kept[name]}/rank-1"}]

    sweeper.sweep(kept, read)
    assert not any((top / one).exists() for one in names[:10]) and (top / names[10]).exists()  # ten at a time
    sweeper.sweep(["c1"], read)  # the second attempt's first checkpoint was removed meanwhile
    left = {one.name for one in top.iterdir()}
    # One of them may still be committed.
    assert left == {kept["c1"], "checkpoint_000002-a002-r-1", "checkpoint_000001-a001-r-2", "notes"}
    with pytest.raises(KeyError):
        sweeper.sweep(["c1", "unknown"], read)
    assert {one.name for one in top.iterdir()} == left


def test_what_cannot_be_is_refused_at_construction(tmp_path):
    class Unpicklable(fs.FSSpecHandler):
        def __init__(self):
            super().__init__(memory())
            self.lock = threading.Lock()

        def get_type_name(self):
            return "mine"

    with pytest.raises(
        ValueError, match=r"of kind 'py::mine' cannot be pickled, so workers cannot have it: TypeError: cannot pickle"
    ):
        RunConfig("run", "runs", fs.PyFileSystem(Unpicklable()))
    with pytest.raises(TypeError, match="is a file system of pyarrow or fsspec"):
        RunConfig("run", "runs", object())
    with pytest.raises(ValueError, match="needs a storage_path on it"):
        RunConfig("run", storage_filesystem=memory())
    with pytest.raises(ValueError, match="the path on that, without a scheme"):
        RunConfig("run", "gs://bucket/runs", memory())
    with pytest.raises(ValueError, match="without '..'"):
        RunConfig("run", "a/../b", memory())
    with pytest.raises(ValueError, match="records_path is for a storage_filesystem"):
        RunConfig("run", "/runs", records_path="/records")
    with pytest.raises(ValueError, match="of trials is a local one or S3"):
        tune.Tuner(lambda config: None, run_config=tune.RunConfig("sweep", "runs", memory()))


def test_files_that_the_loop_would_bring_itself_are_refused(tmp_path):
    def loop():
        for how in (
            {"checkpoint_upload_fn": lambda one, name: one},
            {"checkpoint_upload_mode": train.CheckpointUploadMode.NO_UPLOAD},
        ):
            with pytest.raises(ValueError, match="lie on storage_filesystem: report the local directory without"):
                train.report({}, Checkpoint.from_dict({}), **how)
        train.report({"fine": 1})
        storage = train.get_context().get_storage()
        return storage.storage_filesystem.protocol, storage.experiment_fs_path, storage.storage_fs_path

    result = fit(loop, RunConfig("run", "runs", folder_of(tmp_path), records_path=tmp_path / "records"))
    assert result.return_value == ("dir", "runs/run", "runs")


def test_a_cluster_s_run_keeps_its_records_where_they_were_wished_and_the_rest_of_the_job_knows_nothing(tmp_path):
    class Head:
        body, blobs = {}, []

        def get(self, path):
            from rtrain._http import NotFound

            raise NotFound("not_found", "there is no such run")

        def upload_blob(self, content):
            self.blobs.append(content)
            return "0" * 64

        def post(self, path, body):
            self.body = body
            return {"run_id": "r-1", "name": "run", "state": "RUNNING", "run_path": "s3://records/run"}

    def submitted(config, **more):
        head = Head()
        _submission.Submission(
            DataParallelTrainer(lambda: None, run_config=config, **more), head, _submission.Project(None)
        ).start()
        return head.body["job"]

    given = folder_of(tmp_path)
    assert "storage_path" not in submitted(RunConfig("run", "/bucket/runs", given))
    assert submitted(RunConfig("run", "/bucket/runs", given, records_path="s3://records"))["storage_path"] == "s3://records"
    assert "bucket" not in json.dumps(submitted(RunConfig("run", "/bucket/runs", given)))
    with pytest.raises(ValueError, match="the memory of this process"):
        submitted(RunConfig("run", "runs", memory()))
    with pytest.raises(ValueError, match="validation_config reads checkpoints in processes of their own"):
        submitted(RunConfig("run", "runs", given), validation_config=train.ValidationConfig(len))
