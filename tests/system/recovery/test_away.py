"""Tests that reports and checkpoints of a run continue while its agent is away, and that the next agent receives all of
them.
"""

import pathlib

import pytest
from jobs_on_disk import write_job
from local_cluster import LocalCluster, wait_for

JOB = pathlib.Path(__file__).resolve().parent.parent / "jobs" / "steps.py"


@pytest.fixture
def cluster(tmp_path):
    made = LocalCluster(tmp_path / "cluster", nodes=1, resources="CPU=4")
    yield made
    made.stop()


def steps_of(folder, rank=0):
    file = folder / f"steps-{rank}"
    return len(file.read_text().splitlines()) if file.exists() else 0


def submit(cluster, folder, name, steps, **fields):
    entry = ["python", str(JOB), str(folder / "steps"), str(steps)]
    cluster.rtrain("submit", write_job(folder, name, entry, workers=2, storage_path=str(folder / "runs"), **fields))


def reported_steps(cluster, run):
    return [item["metrics"]["step"] for item in cluster.json("metrics", run, "--tail", "10000")["items"]]


def pids(cluster, run):
    return [worker["pid"] for worker in cluster.json("describe", run)["attempt_list"][-1]["workers"]]


def checkpoints(cluster, run):
    return [one["directory"] for one in cluster.json("checkpoints", "list", run)["items"]]


def test_training_goes_on_while_the_agent_is_away_and_nothing_is_lost(cluster, tmp_path):
    submit(cluster, tmp_path, "on", 400)
    wait_for("a checkpoint", lambda: checkpoints(cluster, "on"))
    before, committed = pids(cluster, "on"), checkpoints(cluster, "on")
    cluster.kill("node-1")
    left = steps_of(tmp_path)
    wait_for("150 more steps without an agent", lambda: steps_of(tmp_path) > left + 150, 60)
    cluster.restart("node-1")
    cluster.wait_state("on", "SUCCEEDED", "FAILED")
    facts = cluster.json("describe", "on")
    assert facts["state"] == "SUCCEEDED" and len(facts["attempt_list"]) == 1, facts["reason"]
    assert pids(cluster, "on") == before
    assert reported_steps(cluster, "on") == list(range(1, 401))
    after = checkpoints(cluster, "on")
    assert after[: len(committed)] == committed and len(after) > len(committed)
    newest = tmp_path / "runs" / "on" / after[-1]
    assert {(newest / f"rank-{rank}").read_text() for rank in range(2)} == {"400"}


def test_a_run_that_ends_without_its_agent_succeeds_once_there_is_one(cluster, tmp_path):
    submit(cluster, tmp_path, "ends", 150)
    wait_for("a checkpoint", lambda: checkpoints(cluster, "ends"))
    cluster.kill("node-1")
    wait_for("the last step", lambda: steps_of(tmp_path) == steps_of(tmp_path, 1) == 150, 60)
    cluster.restart("node-1")
    cluster.wait_state("ends", "SUCCEEDED", "FAILED")
    assert reported_steps(cluster, "ends") == list(range(1, 151))
    newest = tmp_path / "runs" / "ends" / checkpoints(cluster, "ends")[-1]
    assert (newest / "rank-0").read_text() == "150"


def test_no_report_passes_behind_stop(cluster, tmp_path):
    submit(cluster, tmp_path, "stops", 1000, stop={"step": 130})
    wait_for("a checkpoint", lambda: checkpoints(cluster, "stops"))
    cluster.kill("node-1")
    wait_for("the report that ends the run", lambda: steps_of(tmp_path) == 130, 60)
    cluster.restart("node-1")
    cluster.wait_state("stops", "SUCCEEDED", "FAILED")
    assert steps_of(tmp_path) == 130
    assert reported_steps(cluster, "stops") == list(range(1, 131))
