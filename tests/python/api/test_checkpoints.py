"""Checkpoints from a driver's side: kept, ranked, read without a mount, gone on from."""

from __future__ import annotations

import contextlib
import json
import math
import os
import pathlib
import shutil
import threading

import pytest
from local_cluster import LocalCluster, wait_for
from rtrain import train
from rtrain._http import Conflict, Head, HeadError
from rtrain.train import Checkpoint, CheckpointConfig, DataParallelTrainer, FailureConfig, Result, RunConfig, ScalingConfig
from rtrain.train._driver import _origin
from rtrain.train._driver._submission import Submission
from rtrain.train._run_directory import _reading


def counting(config):
    """Counts epochs, resumes from the last one, and reports a checkpoint in each epoch."""
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
    best = "checkpoint_000002-a001 epoch=1, loss=1, started_at=0"
    last = "checkpoint_000005-a001 epoch=4, loss=2, started_at=0"
    assert repr(result).splitlines() == [
        "Result(",
        "  metrics: epoch=4, loss=2, started_at=0",
        f"  checkpoint: {result.path}/{last.replace(' ', '  ', 1)}",
        f"  best: {best}; {last}",
        f"  path: cluster://{result.path.rpartition('/')[2]}",
        ")",
    ]
    assert result._repr_html_().startswith("<table><tr><th>metrics</th><td>epoch=4, loss=2, started_at=0</td></tr>")
    result.error = ValueError("<b> went wrong\nin two lines")
    assert repr(result).splitlines()[-2] == "  error: <b> went wrong"
    assert result._repr_html_().endswith("<tr><th>error</th><td>&lt;b&gt; went wrong</td></tr></table>")


def test_a_nested_score_decides_what_is_kept_as_it_decides_what_is_shown(cluster):
    scores = {epoch: {"eval": {"acc": acc}} for epoch, acc in enumerate((0.9, 0.1, 0.2, 0.3))}
    keep = CheckpointConfig(num_to_keep=1, checkpoint_score_attribute="eval/acc")
    result = trainer(cluster.name("nested"), keep=keep, epochs=4, metrics=scores).fit()
    assert [metrics["epoch"] for _, metrics in result.best_checkpoints] == [0]
    assert result.checkpoint.metrics["epoch"] == 3


def test_a_score_that_no_report_carries_deletes_nothing_and_is_told(cluster):
    name = cluster.name("misspelled")
    keep = CheckpointConfig(num_to_keep=1, checkpoint_score_attribute="acuracy")
    result = trainer(name, keep=keep, epochs=3, metrics={0: {"accuracy": 0.9}}).fit()
    assert result.get_best_checkpoint("accuracy", "max").metrics["epoch"] == 0
    assert "no checkpoint has the metric acuracy" in cluster.json("describe", name)["warnings"][0]


def test_the_latest_goes_with_the_run_s_success_when_so_asked_and_not_with_its_failure(cluster, tmp_path):
    scores = {epoch: {"loss": loss} for epoch, loss in enumerate((3.0, 1.0, 2.0))}
    failed, name = cluster.name("latest"), cluster.name("latest")
    keep = CheckpointConfig(1, "loss", "min", keep_latest="until_success")
    with pytest.raises(train.WorkerGroupError, match="epoch 3 went wrong"):
        trainer(failed, tmp_path, keep, epochs=4, fails_at=3, metrics=scores).fit()
    assert [metrics["epoch"] for _, metrics in Result.from_path(tmp_path / failed).best_checkpoints] == [1]
    result = trainer(name, tmp_path, keep, epochs=3, metrics=scores).fit()
    assert [metrics["epoch"] for _, metrics in result.best_checkpoints] == [1]
    assert (result.checkpoint.metrics["epoch"], result.metrics["epoch"]) == (1, 2)
    gone = tmp_path / name / "checkpoint_000003-a001"
    wait_for("the latest to be gone", lambda: not gone.exists())
    ended = json.loads((tmp_path / name / "result.json").read_text())
    assert ended["latest_checkpoint"] == result.checkpoint.name
    assert [metrics["epoch"] for _, metrics in Result.from_path(tmp_path / name).best_checkpoints] == [1]


def test_the_same_name_goes_on_after_the_end_and_after_a_failure(cluster, tmp_path, capfd):
    name, storage = cluster.name("again"), tmp_path / "runs"
    with pytest.raises(train.WorkerGroupError, match="epoch 2 went wrong"):
        trainer(name, storage, epochs=4, fails_at=2).fit()
    capfd.readouterr()
    result = trainer(name, storage, epochs=4).fit()
    errors = capfd.readouterr().err
    assert "goes on where it ended (FAILED, 2 checkpoints)" in errors
    assert "train_loop_config.fails_at: 2 -> " in errors
    assert (epochs_of(result), result.metrics["started_at"]) == ([0, 1, 2, 3], 2)
    assert len(result.best_checkpoints) == 4
    again = trainer(name, storage, epochs=4).fit()  # the training is complete: ends at once, with all results
    assert epochs_of(again) == [0, 1, 2, 3]
    assert again.checkpoint == result.checkpoint
    capfd.readouterr()
    more = trainer(name, storage, epochs=5, workers=2).fit()
    errors = capfd.readouterr().err
    assert "goes on where it ended (SUCCEEDED" in errors
    assert "train_loop_config.epochs: 4 -> 5" in errors
    assert "scaling.workers: 1 -> 2" in errors
    assert (more.metrics["epoch"], more.metrics["started_at"]) == (4, 4)
    with more.checkpoint.as_directory() as directory:
        assert {file.name for file in pathlib.Path(directory).iterdir()} >= {"rank-0", "rank-1", "state.json"}
    states = [run["state"] for run in cluster.json("runs", "--all")["items"] if run["name"] == name]
    assert sorted(states) == ["FAILED", "SUCCEEDED", "SUCCEEDED", "SUCCEEDED"]
    claims = [json.loads((storage / name / "attempts" / f"{number:06}.json").read_text()) for number in (1, 2, 3, 4)]
    assert [str(claim["job"]["scaling"]["workers"]) for claim in claims] == ["1", "1", "1", "2"]
    # The third attempt used the second one's driver.pkl.
    assert len({claim["job"]["env"]["RTRAIN_DRIVER_SHA256"] for claim in claims}) == 3


def test_a_run_that_goes_on_under_its_name_sees_all_checkpoints_of_that_name(cluster, tmp_path):
    def loop(config):
        train.report({"epoch": config["epoch"]}, Checkpoint.from_dict({"epoch": config["epoch"]}))
        return [(one.metrics["epoch"], one.checkpoint.to_dict()["epoch"]) for one in train.get_all_reported_checkpoints()]

    name, seen = cluster.name("history"), []
    for place, epoch in (("one", 1), ("one", 2), ("two", 3)):
        run = RunConfig(name=name, storage_path=tmp_path / place)
        seen.append(DataParallelTrainer(loop, train_loop_config={"epoch": epoch}, run_config=run).fit().return_value)
    assert seen == [[(1, 1)], [(1, 1), (2, 2)], [(3, 3)]]


def test_num_to_keep_counts_the_checkpoints_of_all_runs_of_the_name_also_on_another_cluster(cluster, tmp_path, monkeypatch):
    def scored(config):
        for accuracy in config["accuracies"]:
            train.report({"acc": accuracy}, Checkpoint.from_dict({"acc": accuracy}))
        return [one.metrics["acc"] for one in train.get_all_reported_checkpoints()]

    def run(accuracies, keep=None):
        keep = keep and CheckpointConfig(num_to_keep=keep, checkpoint_score_attribute="acc")
        config = RunConfig(name=name, storage_path=storage, checkpoint_config=keep)
        return DataParallelTrainer(scored, train_loop_config={"accuracies": accuracies}, run_config=config).fit()

    def present():
        kept = []
        for manifest in storage.glob(f"{name}/*-a00?/.manifest.json"):
            with contextlib.suppress(FileNotFoundError):  # deleted after it was listed
                kept.append(json.loads(manifest.read_text())["metrics"]["acc"])
        return sorted(kept)

    name, storage = cluster.name("history"), tmp_path / "runs"
    run([0.9, 0.1, 0.2])
    assert present() == [0.1, 0.2, 0.9]
    result = run([0.5], keep=2)
    assert [metrics["acc"] for _, metrics in result.best_checkpoints] == [0.5, 0.9]
    wait_for("the worse ones to be gone, the one that it started from after its end", lambda: present() == [0.5, 0.9])
    gone = "checkpoint_000002-a001"
    events = cluster.daemons.rtrain("events", "--run", name)
    assert f"deletes checkpoints of the earlier runs of its name: {gone} (num_to_keep: 2)" in events
    other = LocalCluster(tmp_path / "other", nodes=1, resources="CPU=2", pass_env="PYTHONPATH")
    try:
        monkeypatch.setenv("RTRAIN_CONFIG", other.env["RTRAIN_CONFIG"])
        assert run([0.6], keep=2).return_value == [0.5, 0.6, 0.9]
        wait_for("the worse one of before to be gone", lambda: present() == [0.6, 0.9])
    finally:
        other.stop()


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
    out, err = process.communicate(timeout=240)
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
    # The line shows no difference.
    assert "goes on where it ended (SUCCEEDED, 2 checkpoints)\n" in capfd.readouterr().err
    restored = DataParallelTrainer.restore(path, train_loop_config={"epochs": 4})
    result = restored.fit()
    assert epochs_of(result) == [0, 1, 2, 3]
    assert "train_loop_config.epochs: 2 -> 4" in capfd.readouterr().err

    def other_loop(config):
        items = [item for item in train.get_dataset_shard("train")]
        train.report({"epoch": [config["epochs"], items, train.get_context().get_world_size()]})

    whole = DataParallelTrainer.restore(
        path,
        train_loop_per_worker=other_loop,
        datasets={"train": [7, 8, 9, 10]},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name=name, storage_path=storage, labels={"who": "me"}),
    ).fit()
    assert epochs_of(whole) == [0, 1, 2, 3, [4, [7, 9], 2]]  # the config is that of the last attempt
    assert cluster.json("describe", name)["labels"]["who"] == "me"


def test_restore_goes_on_in_the_directory_that_it_is_given(cluster, tmp_path):
    name, storage, moved = cluster.name("stays"), tmp_path / "runs", tmp_path / "moved" / "elsewhere-1"
    trainer(name, storage, epochs=2).fit()
    wait_for("its result", lambda: (storage / name / "result.json").exists())
    shutil.copytree(storage / name, moved)
    before = sorted((storage / name).iterdir())
    result = DataParallelTrainer.restore(moved, train_loop_config={"epochs": 3}).fit()
    assert (result.path, epochs_of(result)) == (str(moved), [0, 1, 2])
    renamed = DataParallelTrainer.restore(f"file://{moved}/", run_config=RunConfig(labels={"a": "b"}))
    assert (renamed.run_config.name, renamed.run_config.storage_path) == ("elsewhere-1", f"{moved.parent}")
    explicit = RunConfig(name=cluster.name("other"), storage_path=tmp_path / "third")
    result = DataParallelTrainer.restore(moved, train_loop_config={"epochs": 1}, run_config=explicit).fit()
    assert (result.path, epochs_of(result)) == (f"{tmp_path}/third/{explicit.name}", [0])
    assert sorted((storage / name).iterdir()) == before


def test_a_run_of_the_head_s_own_storage_is_restored_there_by_either_name(cluster):
    name = cluster.name("own")
    trainer(name, epochs=1).fit()
    for epochs, path in ((2, f"cluster://{name}"), (3, cluster.daemons.folder / "head" / "storage" / name)):
        result = DataParallelTrainer.restore(path, train_loop_config={"epochs": epochs}).fit()
        assert (result.path, epochs_of(result)) == (f"cluster://{name}", list(range(epochs)))


def test_a_live_run_of_that_name_elsewhere_is_not_joined(cluster, tmp_path):
    def loop(go):
        train.report({"epoch": 0}, Checkpoint.from_dict({"epoch": 0}))
        for _ in range(1200):  # waits a minute at most
            if not pathlib.Path(go["go"]).exists():
                threading.Event().wait(0.05)

    name, go = cluster.name("alive"), tmp_path / "go"
    go.touch()
    run = RunConfig(name=name, storage_path=tmp_path / "one")
    DataParallelTrainer(loop, train_loop_config={"go": str(go)}, run_config=run).fit()
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    go.unlink()
    Submission(DataParallelTrainer.restore(tmp_path / "one" / name), Head.current()).start()
    with pytest.raises(Conflict, match="with another storage path"):
        DataParallelTrainer.restore(tmp_path / "two" / name).fit()
    go.touch()
    train.attach(name).result()


def test_a_restored_run_does_not_begin_anew_where_no_node_sees_its_directory(cluster, tmp_path, monkeypatch):
    name = cluster.name("unseen")
    result = DataParallelTrainer(lambda: None, run_config=RunConfig(name=name, storage_path=tmp_path)).fit()
    # The checkpoint that this machine would see.
    monkeypatch.setattr(_origin.Origin, "newest", lambda origin: "checkpoint_000001-a001")
    with pytest.raises(train.WorkerGroupError, match="finds no sound one in"):
        DataParallelTrainer.restore(result.path).fit()


def test_restore_keeps_the_checkpoint_to_begin_with(cluster, tmp_path):
    ready = tmp_path / "ready"

    def loop():
        if not ready.exists():
            raise RuntimeError("not yet")
        train.report({"began": train.get_checkpoint().to_dict()["epoch"]})

    name = cluster.name("fine-tuned")
    start = Checkpoint.from_dict({"epoch": 41})
    first = DataParallelTrainer(loop, run_config=RunConfig(name=name), resume_from_checkpoint=start)
    with pytest.raises(train.WorkerGroupError, match="not yet"):
        first.fit()
    del start, first  # deletes its files too
    with pytest.raises(train.WorkerGroupError, match="not yet"):
        DataParallelTrainer.restore(f"cluster://{name}").fit()
    ready.touch()
    assert DataParallelTrainer.restore(f"cluster://{name}").fit().metrics == {"began": 41}


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
        checkpoint = train.get_checkpoint()
        train.report({"began": checkpoint.to_dict()["epoch"]}, Checkpoint.from_dict({"epoch": 1}))
        train.flush()
        if train.get_context().get_attempt() == 1:
            raise RuntimeError("once")

    result = DataParallelTrainer(
        loop,
        run_config=RunConfig(name=cluster.name("from"), failure_config=FailureConfig(max_failures=1)),
        resume_from_checkpoint=Checkpoint.from_dict({"epoch": 41}),
    ).fit()
    assert [row["began"] for row in result.all_metrics] == [41, 1]


@pytest.mark.parametrize("place", ["cluster://", "mounted"])
def test_the_checkpoint_of_another_run_is_where_to_begin_until_there_is_one_of_its_own(cluster, tmp_path, place):
    def loop(config):
        checkpoint = train.get_checkpoint()
        train.report({"began": checkpoint.to_dict()["epoch"]}, Checkpoint.from_dict({"epoch": config["epoch"]}))

    def fit(name, start, epoch):
        run = RunConfig(name=name, storage_path=None if place == "cluster://" else tmp_path)
        return DataParallelTrainer(loop, train_loop_config={"epoch": epoch}, run_config=run, resume_from_checkpoint=start).fit()

    first = fit(cluster.name("first"), Checkpoint.from_dict({"epoch": 3}), 4)
    name = cluster.name("second")
    second = fit(name, first.checkpoint, 5)
    assert second.metrics == {"began": 4}
    assert fit(name, first.checkpoint, 6).metrics == {"began": 5}


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
    directory = _reading.open_directory(str(storage / name))
    assert isinstance(directory, _reading.RemoteDirectory)
    assert json.loads(directory.read("checkpoint_000002-a001/state.json")) == {"epoch": 1}
    assert "attempts/000001.json" in directory.names("")
    (storage / name / "secret").write_text("not ours")
    os.symlink("/etc/hostname", storage / name / "checkpoint_000001-a001" / "out")
    for path in ("secret", "nothing"):
        with pytest.raises(FileNotFoundError):
            directory.read(path)
    with pytest.raises(HeadError, match="links are not followed"):
        directory.read("checkpoint_000001-a001/out")
    with pytest.raises(HeadError, match="no path below the run's directory"):
        directory.read("attempts/../run.json")


def test_another_cluster_goes_on_from_the_directory_alone(cluster, tmp_path, monkeypatch):
    def loop():
        start = train.get_checkpoint().to_dict()["epoch"] + 1 if train.get_checkpoint() else 0
        for epoch in (start, start + 1):
            train.report({"epoch": epoch}, Checkpoint.from_dict({"epoch": epoch}))

    name, storage = cluster.name("moves"), tmp_path / "runs"
    DataParallelTrainer(loop, run_config=RunConfig(name=name, storage_path=storage)).fit()
    other = LocalCluster(tmp_path / "other", nodes=1, resources="CPU=2", pass_env="PYTHONPATH")
    try:
        monkeypatch.setenv("RTRAIN_CONFIG", other.env["RTRAIN_CONFIG"])
        other.rtrain("restore", storage / name)
        other.wait_state(name, "SUCCEEDED", "FAILED")
        result = DataParallelTrainer.restore(storage / name).fit()
        assert epochs_of(result) == [0, 1, 2, 3, 4, 5]
        assert [metrics["epoch"] for _, metrics in result.best_checkpoints] == [0, 1, 2, 3, 4, 5]
    finally:
        other.stop()


def test_a_name_that_is_used_again_leaves_what_is_committed_as_it_is(cluster, tmp_path):
    """Reports every epoch under the same name, as Ray allows, then resumes."""

    def loop(config):
        start = train.get_checkpoint()
        for epoch in range(3):
            metrics = {"epoch": epoch, "from": start.name if start else ""}
            with train.checkpoint_dir() as directory:
                (pathlib.Path(directory) / f"epoch-{epoch}").write_text(str(epoch))
                (pathlib.Path(directory) / "epoch").write_text(str(epoch))
                train.report(metrics, checkpoint=Checkpoint.from_directory(directory), checkpoint_dir_name="latest")
        if config["fails"] and not start:
            raise RuntimeError("as planned")

    name = cluster.name("latest")
    config = RunConfig(name=name, storage_path=str(tmp_path), failure_config=train.FailureConfig(max_failures=1))
    result = DataParallelTrainer(
        loop, train_loop_config={"fails": True}, scaling_config=ScalingConfig(num_workers=1), run_config=config
    ).fit()
    kept = {checkpoint.name: metrics["epoch"] for checkpoint, metrics in result.best_checkpoints}
    names = ["latest", "latest-2-a001", "latest-3-a001", "latest-a002", "latest-2-a002", "latest-3-a002"]
    assert kept == dict(zip(names, [0, 1, 2, 0, 1, 2], strict=True))
    for directory, epoch in kept.items():
        files = {file.name: file.read_text() for file in (tmp_path / name / directory).iterdir() if file.name[0] != "."}
        assert files == {"epoch": str(epoch), f"epoch-{epoch}": str(epoch)}
    assert result.metrics["from"] == "latest-3-a001"
    assert cluster.json("checkpoints", "verify", str(tmp_path / name))["sound"] is True
    assert cluster.json("restore", f"{tmp_path / name}@latest", "--dry-run")["dry_run"] is True
    assert cluster.json("checkpoints", "inspect", f"{name}@latest")["attempt"] == 1
    events = cluster.daemons.rtrain("events", "--run", name)
    assert events.count("the name 'latest' was given") == 2, events  # once in each attempt
