"""Tests runs whose directory is in a bucket: real daemons, and a server of each kind, which checks every signature."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest
from jobs_on_disk import JOBS, ranks_job, write_job
from local_cluster import ROOT, RTRAIN, LocalCluster, wait_for


@pytest.fixture
def cluster(bucket, tmp_path):
    made = LocalCluster(tmp_path / "cluster", nodes=2, resources="CPU=2", pass_env=bucket.pass_env)
    yield made
    made.stop()


def checkpoints_of(cluster, run):
    return cluster.json("checkpoints", "list", run)["items"]


def reported(cluster, run):
    report = cluster.json("describe", run)["last_report"]
    return report["metrics"]["step"] if report else 0


def test_a_killed_worker_and_then_a_lost_cluster_go_on_from_the_bucket(bucket, tmp_path):
    first = LocalCluster(tmp_path / "first", nodes=2, resources="CPU=2", pass_env=bucket.pass_env)
    try:
        first.rtrain(
            "submit", ranks_job(tmp_path, "far", 12, 0.3, workers=4, max_failures=3, storage_path=f"{bucket.root}/team/a b/")
        )
        wait_for("two checkpoints", lambda: len(checkpoints_of(first, "far")) >= 2)
        os.kill(first.json("describe", "far")["attempt_list"][-1]["workers"][2]["pid"], signal.SIGKILL)
        first.wait_state("far", "SUCCEEDED", "FAILED")
        facts = first.json("describe", "far")
        assert facts["state"] == "SUCCEEDED", facts["reason"]
        assert facts["run_path"] == f"{bucket.root}/team/a b/far"
        assert [one["from"] is None for one in facts["attempt_list"]] == [True, False]
    finally:
        first.stop()

    # A cluster that has never seen the run.
    other = LocalCluster(tmp_path / "other", nodes=2, resources="CPU=2", pass_env=bucket.pass_env)
    try:
        place = f"{bucket.root}/team/a b/far"
        newest = checkpoints_of(other, place)[-1]
        assert newest["latest"] and newest["directory"].startswith("checkpoint_")
        assert checkpoints_of(other, place + "/") == checkpoints_of(other, place)
        shown = other.json("checkpoints", "inspect", f"{place}/{newest['directory']}")
        assert len(shown["files"]) == 4
        assert other.json("checkpoints", "verify", place)["sound"] is True
        program = json.dumps(["python", str(pathlib.Path(__file__).parents[1] / "jobs/ranks.py"), "14"])
        done = other.run("restore", place + "/", "--set", f"entrypoint={program}", "-f")
        assert done.returncode == 0, done.stderr + done.stdout
        assert "resumed at 12" in done.stdout
        assert reported(other, "far") == 14
        missing = other.run("checkpoints", "list", f"{bucket.root}/team/none")
        assert missing.returncode == 3 and f"{bucket.root}/team/none is no run's directory" in missing.stderr
    finally:
        other.stop()


def test_a_run_with_checkpoints_deeper_in_its_directory_goes_on_from_a_copy_in_a_bucket(cluster, bucket, tmp_path):
    program = ["python", str(JOBS / "deeper.py")]
    own_package = {"PYTHONPATH": str(ROOT / "runtime" / "python")}
    cluster.rtrain("submit", write_job(tmp_path, "deep", program, storage_path=str(tmp_path / "runs"), env=own_package))
    cluster.wait_state("deep", "SUCCEEDED", "FAILED")
    names = ["epochs/0", "epochs/1"]
    assert [one["directory"] for one in checkpoints_of(cluster, "deep")] == names, cluster.rtrain("logs", "deep")
    run = tmp_path / "runs" / "deep"
    wait_for("the result", (run / "result.json").exists)
    bucket.put_all({f"copied/deep/{one.relative_to(run)}": one.read_text() for one in run.rglob("*") if one.is_file()})
    cluster.rtrain("runs", "rm", "deep", "--yes")
    place = f"{bucket.root}/copied/deep"
    assert [(one["directory"], one["path"]) for one in checkpoints_of(cluster, place)] == [
        (one, f"{place}/{one}") for one in names
    ]
    for named in (f"{place}/epochs/0", f"{place}@epochs/0"):
        assert cluster.json("checkpoints", "inspect", named)["directory"] == "epochs/0"
    assert cluster.json("checkpoints", "verify", place)["sound"] is True
    chosen = cluster.run("restore", f"{place}@epochs/0", "-f")
    assert chosen.returncode == 0 and "began from epochs/0, epoch 0" in chosen.stdout, chosen.stderr + chosen.stdout


def train_until_the_server_has_gone(cluster, bucket, tmp_path, run):
    cluster.rtrain("submit", ranks_job(tmp_path, run, 3000, 0.1, workers=2, storage_path=f"{bucket.root}/{run}"))
    wait_for("a checkpoint", lambda: newest_of_head(cluster, run))
    bucket.stop()
    address = f"no answer from http://127.0.0.1:{bucket.port}"
    wait_for("the server to be named", lambda: address in cluster.rtrain("events", "--run", run))


def test_a_server_that_goes_in_mid_run_is_named_training_goes_on_and_the_next_checkpoint_succeeds(cluster, bucket, tmp_path):
    train_until_the_server_has_gone(cluster, bucket, tmp_path, "gap")
    seen, kept = reported(cluster, "gap"), newest_of_head(cluster, "gap")
    wait_for("training to go on", lambda: reported(cluster, "gap") > seen + 2)
    back = bucket.again()
    try:
        wait_for("the next checkpoint", lambda: newest_of_head(cluster, "gap") != kept)
        cluster.rtrain("stop", "gap")
        cluster.wait_state("gap", "STOPPED")
        place = f"{bucket.root}/gap/gap/{newest_of_head(cluster, 'gap')}"
        there = [one["path"] for one in cluster.json("storage", "list", place)["items"]]
        assert there == [f"{place}/{name}" for name in (".manifest.json", "rank-0.txt", "rank-1.txt")]
    finally:
        back.stop()


def test_a_last_checkpoint_that_storage_does_not_take_holds_a_run_no_longer_than_its_user_wants(cluster, bucket, tmp_path):
    train_until_the_server_has_gone(cluster, bucket, tmp_path, "held")
    both = cluster.run("stop", "held", "--now", "--checkpoint")
    assert both.returncode == 2 and "--now and --checkpoint contradict each other" in both.stderr
    cluster.rtrain("stop", "held", "--now", "--wait")
    assert cluster.json("describe", "held")["state"] == "STOPPED"
    printed = cluster.rtrain("events", "--run", "held")
    assert "the run was stopped at once (rtrain stop --now)" in printed, printed


def newest_of_head(cluster, run):
    return cluster.json("describe", run)["latest_checkpoint"]


def test_wrong_credentials_on_one_node_name_that_node_before_a_worker_starts(bucket, tmp_path, monkeypatch):
    cluster = LocalCluster(tmp_path / "cluster", nodes=1, resources="CPU=2", pass_env=bucket.pass_env)
    try:
        cluster.env[bucket.secret_variable] = bucket.wrong_secret
        cluster.join("node-2", "CPU=2")
        wait_for("2 nodes", lambda: cluster.ready_nodes() == 2)
        cluster.rtrain("submit", ranks_job(tmp_path, "denied", 2, workers=4, storage_path=f"{bucket.root}/denied"))
        cluster.wait_state("denied", "FAILED", "SUCCEEDED")
        printed = cluster.rtrain("describe", "denied")
        assert f"node-2: storage path {bucket.root}/denied: " in printed, printed
        assert bucket.secret_variable in printed and bucket.wrong_secret not in printed
        facts = cluster.json("describe", "denied")
        assert not any(worker.get("pid") for one in facts["attempt_list"] for worker in one["workers"])
    finally:
        cluster.stop()


def test_files_are_listed_copied_and_removed(cluster, bucket, tmp_path):
    cluster.rtrain("submit", ranks_job(tmp_path, "short", 3, workers=2, storage_path=f"{bucket.root}/team"))
    cluster.rtrain("submit", ranks_job(tmp_path, "short-2", 1, workers=1, storage_path=f"{bucket.root}/team"))
    for name in ("short", "short-2"):
        cluster.wait_state(name, "SUCCEEDED", "FAILED")
        assert cluster.json("describe", name)["state"] == "SUCCEEDED"
    place = f"{bucket.root}/team/short"
    wait_for(
        "the result", lambda: cluster.run("storage", "get", f"{place}/result.json", tmp_path / "result.json").returncode == 0
    )
    assert json.loads((tmp_path / "result.json").read_text())["state"] == "SUCCEEDED"
    listed = [one["path"] for one in cluster.json("storage", "list", place)["items"]]
    assert f"{place}/run.json" in listed and f"{place}/checkpoint_000003-a001/.manifest.json" in listed
    assert not any("probe" in path for path in listed)
    cluster.rtrain("storage", "get", f"{place}/checkpoint_000003-a001", tmp_path / "copy")
    assert (tmp_path / "copy" / "rank-1.txt").read_text() == "3"
    nothing = cluster.run("storage", "get", f"{place}/nothing", tmp_path / "nothing")
    assert nothing.returncode == 3 and not (tmp_path / "nothing").exists()

    cluster.rtrain("storage", "get", f"{place}/run.json", tmp_path / "run.json")
    bucket.put_all({"team/short/checkpoint_000009-a001/half.pt": "x" * 100})
    garbage = cluster.json("storage", "gc", f"{bucket.root}/team/", "--dry-run")["items"]
    assert [one["path"] for one in garbage] == [f"{place}/checkpoint_000009-a001"]
    cluster.rtrain("storage", "gc", place, "--yes")
    assert cluster.json("storage", "gc", f"{bucket.root}/team")["items"] == []

    removed = cluster.json("runs", "rm", "short", "--files", "--yes")
    assert removed["files"] == place
    left = [one["path"] for one in cluster.json("storage", "list", f"{bucket.root}/team")["items"]]
    assert left and all(path.startswith(f"{bucket.root}/team/short-2/") for path in left)


DRIVER = """
import os, pathlib, sys
from rtrain.train import Checkpoint, DataParallelTrainer, Result, RunConfig, ScalingConfig

ROOT = os.environ["TEST_BUCKET"]

def loop(config):
    from rtrain import train
    begin = train.get_checkpoint()
    step = begin.to_dict()["step"] if begin else 0
    if config.get("other"):
        print("the other one has", train.Checkpoint(config["other"]).to_dict()["step"], flush=True)
    while step < config["steps"]:
        step += 1
        train.report({"step": step, "note": "words"}, checkpoint=train.Checkpoint.from_dict({"step": step}))

trainer = DataParallelTrainer(loop, train_loop_config={"steps": 3}, scaling_config=ScalingConfig(num_workers=2),
                              run_config=RunConfig(name="py", storage_path=ROOT + "/python/"))
result = trainer.fit()
assert result.path == ROOT + "/python/py", result.path
assert result.checkpoint.path == ROOT + "/python/py/" + result.checkpoint.name, result.checkpoint
assert result.checkpoint.to_dict() == {"step": 3}
assert result.checkpoint.metrics["note"] == "words", result.checkpoint.metrics
with Checkpoint(result.checkpoint.path + "/").as_directory() as folder:
    assert list(pathlib.Path(folder).iterdir())
copy = Checkpoint(result.checkpoint.path).to_directory(sys.argv[1])
assert copy == sys.argv[1] and list(pathlib.Path(copy).iterdir())
for path in (result.path, result.path + "/"):
    found = Result.from_path(path)
    assert found.metrics["note"] == "words" and len(found.all_metrics) == 3, found
    assert DataParallelTrainer.can_restore(path)
assert not DataParallelTrainer.can_restore(ROOT + "/python/none")
again = DataParallelTrainer.restore(result.path + "/", train_loop_config={"steps": 5, "other": result.checkpoint.path}).fit()
assert again.metrics["step"] == 5 and again.checkpoint.to_dict() == {"step": 5}, again
"""


def test_the_python_api_reads_restores_and_copies(cluster, bucket, tmp_path):
    (tmp_path / "driver.py").write_text(DRIVER)
    env = {**cluster.env, "RTRAIN_BINARY": str(RTRAIN), "TEST_BUCKET": bucket.root}
    command = [str(ROOT / ".venv/bin/python"), str(tmp_path / "driver.py"), str(tmp_path / "copied")]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-4000:] + done.stdout[-2000:]
    assert "the other one has 3" in cluster.rtrain("logs", "py", "--rank", "all")


def test_hundreds_of_checkpoints_are_read_with_one_listing_of_each_kind(s3, monkeypatch):
    """Reads the result from the directory alone, without a cluster."""
    sys.path.insert(0, str(ROOT / "runtime" / "python"))
    from rtrain.train import Result
    from rtrain.train._run_directory import _reading

    monkeypatch.setenv("RTRAIN_BINARY", str(RTRAIN))
    texts = {"many/run.json": json.dumps({"job": {"checkpoint": {"score_attribute": "score"}}})}
    for number in range(1, 151):
        name = f"many/checkpoint_{number:06}-a001"
        manifest = {"attempt": 1, "report": number, "metrics": {"score": -abs(number - 100)}}
        texts |= {f"{name}/.manifest.json": json.dumps(manifest), f"{name}/model.pt": "weights"}
    rows = [json.dumps({"metrics": {"0": {"step": step}}}) for step in range(300)]
    for part in range(30):
        texts[f"many/attempts/000001/metrics-{part + 1:06}.jsonl"] = "\n".join(rows[part * 10 : part * 10 + 10]) + "\n"
    s3.put_all(texts)
    calls = []
    asked = _reading.BucketDirectory._rtrain
    monkeypatch.setattr(_reading.BucketDirectory, "_rtrain", lambda *words: calls.append(words) or asked(*words))
    result = Result.from_path("s3://runs/many")
    assert [row["step"] for row in result.all_metrics] == list(range(300))
    assert result.checkpoint.path == "s3://runs/many/checkpoint_000150-a001"
    assert len(result.best_checkpoints) == 150
    assert result.best_checkpoints[-1][0].name == "checkpoint_000100-a001"
    assert len(calls) <= 4, [words[1:] for words in calls]
