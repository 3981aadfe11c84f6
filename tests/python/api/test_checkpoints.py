"""Checkpoints from a driver's side: kept, ranked, read without a mount, gone on from."""

from __future__ import annotations

import json
import math
import os
import pathlib
import shutil

import pytest
from local_cluster import LocalCluster
from rtrain import train
from rtrain._http import HeadError
from rtrain.train import (
    Checkpoint,
    CheckpointConfig,
    DataParallelTrainer,
    FailureConfig,
    Result,
    RunConfig,
    ScalingConfig,
    _run_directory,
)


def counting(config):
    """Counts epochs, resuming; brings a checkpoint each epoch."""
    start = 0
    checkpoint = train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as directory:
            start = json.loads((pathlib.Path(directory) / "state.json").read_text())["epoch"] + 1
    for epoch in range(start, config["epochs"]):
        if epoch == config.get("fails_at"):
            raise RuntimeError(f"epoch {epoch} went wrong")
        metrics = {"epoch": epoch, "started_at": start, **config.get("metrics", {}).get(epoch, {})}
        with train.checkpoint_dir() as directory:
            (pathlib.Path(directory) / "state.json").write_text(json.dumps({"epoch": epoch}))
            (pathlib.Path(directory) / f"rank-{train.get_context().get_world_rank()}").touch()
            train.report(metrics, checkpoint=Checkpoint.from_directory(directory))


def trainer(name, storage=None, keep=None, workers=1, **config):
    return DataParallelTrainer(
        counting,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=RunConfig(name=name, storage_path=storage, checkpoint_config=keep),
    )


def epochs_of(result):
    return [row["epoch"] for row in result.all_metrics]


def test_checkpoints_are_kept_by_score_and_the_wrong_ones_never_win(cluster):
    scores = {0: {"loss": 3.0}, 1: {"loss": 1.0}, 2: {}, 3: {"loss": math.nan}, 4: {"loss": 2.0}}
    keep = CheckpointConfig(num_to_keep=2, checkpoint_score_attribute="loss", checkpoint_score_order="min")
    result = trainer(cluster.name("best"), keep=keep, epochs=5, metrics=scores).fit()
    assert [metrics["epoch"] for _, metrics in result.best_checkpoints] == [4, 1]
    assert result.get_best_checkpoint("loss", "min").metrics["epoch"] == 1
    assert result.get_best_checkpoint("loss", "max").metrics["epoch"] == 4
    assert result.checkpoint.metrics["epoch"] == 4
    with pytest.raises(RuntimeError, match="no kept checkpoint has the metric 'acc'.*loss"):
        result.get_best_checkpoint("acc", "max")
    with pytest.raises(ValueError, match="mode"):
        result.get_best_checkpoint("loss", "best")
    with result.checkpoint.as_directory() as directory:
        assert json.loads((pathlib.Path(directory) / "state.json").read_text()) == {"epoch": 4}
    assert not pathlib.Path(directory).exists()
    text = repr(result)
    assert "epoch=4" in text
    assert result.checkpoint.path in text
    assert "<table>" in result._repr_html_()


def test_the_same_name_goes_on_after_the_end_and_after_a_failure(cluster, tmp_path, capfd):
    name, storage = cluster.name("again"), tmp_path / "runs"
    with pytest.raises(train.WorkerGroupError, match="epoch 2 went wrong"):
        trainer(name, storage, epochs=4, fails_at=2).fit()
    result = trainer(name, storage, epochs=4).fit()
    assert (epochs_of(result), result.metrics["started_at"]) == ([0, 1, 2, 3], 2)
    assert len(result.best_checkpoints) == 4
    again = trainer(name, storage, epochs=4).fit()  # all is done: ends at once, and still has everything
    assert epochs_of(again) == [0, 1, 2, 3]
    assert again.checkpoint == result.checkpoint
    capfd.readouterr()
    more = trainer(name, storage, epochs=5, workers=2).fit()
    said = capfd.readouterr().err
    assert "goes on where it ended (SUCCEEDED" in said
    assert "train_loop_config.epochs: 4 -> 5" in said
    assert "scaling.workers: 1 -> 2" in said
    assert (more.metrics["epoch"], more.metrics["started_at"]) == (4, 4)
    with more.checkpoint.as_directory() as directory:
        assert {file.name for file in pathlib.Path(directory).iterdir()} >= {"rank-0", "rank-1", "state.json"}
    states = [run["state"] for run in cluster.json("runs", "--all")["items"] if run["name"] == name]
    assert sorted(states) == ["FAILED", "SUCCEEDED", "SUCCEEDED", "SUCCEEDED"]


def test_a_failed_attempt_is_repeated_from_its_last_checkpoint(cluster, tmp_path):
    marker = tmp_path / "failed-once"

    def loop():
        start = 0 if train.get_checkpoint() is None else train.get_checkpoint().to_dict()["epoch"] + 1
        for epoch in range(start, 3):
            train.report({"epoch": epoch, "attempt": train.get_context().get_attempt()}, Checkpoint.from_dict({"epoch": epoch}))
            train.flush()
            if epoch == 1 and not marker.exists():
                marker.touch()
                raise RuntimeError("once")

    result = DataParallelTrainer(
        loop, run_config=RunConfig(name=cluster.name("retry"), failure_config=FailureConfig(max_failures=1))
    ).fit()
    assert [(row["epoch"], row["attempt"]) for row in result.all_metrics] == [(0, 1), (1, 1), (2, 2)]


def test_restore_needs_only_the_path(cluster, tmp_path, driver, capfd):
    name, storage = cluster.name("restore"), tmp_path / "runs"
    script = f"""
        from rtrain import train
        from rtrain.train import DataParallelTrainer, RunConfig, Checkpoint
        from helper import last
        def loop(config):
            from_checkpoint = train.get_checkpoint()
            start = from_checkpoint.to_dict()["epoch"] + 1 if from_checkpoint else 0
            for epoch in range(start, config["epochs"]):
                train.report({{"epoch": last(epoch)}}, Checkpoint.from_dict({{"epoch": epoch}}))
        DataParallelTrainer(loop, train_loop_config={{"epochs": 2}},
            run_config=RunConfig(name="{name}", storage_path="{storage}")).fit()
        """
    process = driver(script, helper="def last(epoch):\n    return epoch\n")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "travels along: 2 files" in err
    shutil.rmtree(tmp_path / "project-0")
    path = f"{storage}/{name}/"
    assert DataParallelTrainer.can_restore(path)
    assert not DataParallelTrainer.can_restore(str(storage))
    with pytest.raises(ValueError, match="cannot be restored"):
        DataParallelTrainer.restore(str(tmp_path))
    capfd.readouterr()
    assert epochs_of(DataParallelTrainer.restore(path).fit()) == [0, 1]
    assert "goes on where it ended (SUCCEEDED, 2 checkpoints)\n" in capfd.readouterr().err  # and names no difference
    restored = DataParallelTrainer.restore(path, train_loop_config={"epochs": 4})
    result = restored.fit()
    assert epochs_of(result) == [0, 1, 2, 3]
    assert "train_loop_config.epochs: 2 -> 4" in capfd.readouterr().err


def test_a_result_is_read_back_from_its_directory(cluster, tmp_path):
    name, storage = cluster.name("path"), tmp_path / "runs"
    trainer(name, storage, epochs=3, keep=CheckpointConfig(num_to_keep=2)).fit()
    result = Result.from_path(f"{storage}/{name}")
    assert epochs_of(result) == [0, 1, 2]
    assert [metrics["epoch"] for _, metrics in result.best_checkpoints] == [1, 2]
    assert result.checkpoint.to_directory(tmp_path / "mine") == str(tmp_path / "mine")
    assert (tmp_path / "mine" / "state.json").is_file()
    with pytest.raises(RuntimeError, match=r"Experiment folder .* doesn't exist\."):
        Result.from_path(storage / "nothing")


def test_the_head_streams_files_that_the_driver_has_no_mount_for_and_damage_is_named(cluster, tmp_path):
    name = cluster.name("stream")
    result = trainer(name, epochs=1).fit()
    kept = cluster.daemons.folder / "head" / "storage" / name / result.checkpoint.name / "state.json"
    kept.write_text('{"epoch": 7}')
    with pytest.raises(OSError, match=r"state\.json is damaged"), result.checkpoint.as_directory():
        pass
    from_head = Result.from_path(f"cluster://{name}")
    assert epochs_of(from_head) == [0]


def test_a_checkpoint_of_another_run_is_where_to_begin(cluster):
    def loop():
        found = train.get_checkpoint()
        train.report({"began": found.to_dict()["epoch"]}, Checkpoint.from_dict({"epoch": 1}))
        train.flush()
        if train.get_context().get_attempt() == 1:
            raise RuntimeError("once")

    result = DataParallelTrainer(
        loop,
        run_config=RunConfig(name=cluster.name("from"), failure_config=FailureConfig(max_failures=1)),
        resume_from_checkpoint=Checkpoint.from_dict({"epoch": 41}),
    ).fit()
    assert [row["began"] for row in result.all_metrics] == [41, 1]


def test_numpy_scores_and_a_score_that_was_nan_neither_kill_a_run_nor_its_resumption(cluster):
    def loop(config):
        import numpy

        scores = [numpy.float32("nan"), numpy.float32(0.5), numpy.float64("inf")]
        start = 0 if train.get_checkpoint() is None else train.get_checkpoint().to_dict()["epoch"] + 1
        for epoch in range(start, config["epochs"]):
            metrics = {"score": scores[epoch], "when": numpy.datetime64("2026-01-01").astype(object), "shape": numpy.arange(2)}
            train.report(metrics, Checkpoint.from_dict({"epoch": epoch, "array": numpy.ones(2)}))

    def run(name, epochs):
        keep = CheckpointConfig(num_to_keep=3, checkpoint_score_attribute="score")
        return DataParallelTrainer(
            loop, train_loop_config={"epochs": epochs}, run_config=RunConfig(name=name, checkpoint_config=keep)
        ).fit()

    name = cluster.name("nan")
    first = run(name, 1)
    assert math.isnan(first.metrics["score"])
    assert (first.metrics["when"], first.metrics["shape"]) == ("2026-01-01", [0, 1])
    again = run(name, 3)
    assert [metrics["score"] for _, metrics in again.best_checkpoints[1:]] == [0.5, math.inf]
    assert math.isnan(again.best_checkpoints[0][1]["score"])
    assert list(again.checkpoint.to_dict()["array"]) == [1, 1]


def test_a_path_that_only_the_cluster_mounts_is_read_through_the_head(cluster, tmp_path, monkeypatch):
    name, storage = cluster.name("behind"), tmp_path / "runs"
    trainer(name, storage, epochs=2).fit()
    seen_here = pathlib.Path.is_file
    monkeypatch.setattr(pathlib.Path, "is_file", lambda path: False if path == storage / name / "run.json" else seen_here(path))
    directory = _run_directory.open_directory(str(storage / name))
    assert isinstance(directory, _run_directory.RemoteDirectory)
    assert json.loads(directory.read("checkpoint_000002-a001/state.json")) == {"epoch": 1}
    assert "attempts/000001.json" in directory.names("")
    (storage / name / "secret").write_text("not ours")
    os.symlink("/etc/hostname", storage / name / "checkpoint_000001-a001" / "out")
    for path in ("secret", "checkpoint_000001-a001/out", "nothing"):
        with pytest.raises(FileNotFoundError):
            directory.read(path)
    with pytest.raises(HeadError, match="no path below the run's directory"):
        directory.read("attempts/../run.json")


def test_another_cluster_goes_on_from_the_directory_alone(cluster, tmp_path, monkeypatch):
    def loop():
        start = train.get_checkpoint().to_dict()["epoch"] + 1 if train.get_checkpoint() else 0
        for epoch in (start, start + 1):
            train.report({"epoch": epoch}, Checkpoint.from_dict({"epoch": epoch}))

    name, storage = cluster.name("moves"), tmp_path / "runs"
    DataParallelTrainer(loop, run_config=RunConfig(name=name, storage_path=storage)).fit()
    other = LocalCluster(tmp_path / "other", nodes=1, resources="CPU=2")
    try:
        monkeypatch.setenv("RTRAIN_CONFIG", other.env["RTRAIN_CONFIG"])
        other.rtrain("restore", storage / name)
        other.wait_state(name, "SUCCEEDED", "FAILED")
        result = DataParallelTrainer.restore(storage / name).fit()
        assert epochs_of(result) == [0, 1, 2, 3, 4, 5]
        assert [metrics["epoch"] for _, metrics in result.best_checkpoints] == [0, 1, 2, 3, 4, 5]
    finally:
        other.stop()
