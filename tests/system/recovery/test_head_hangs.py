"""A head that hangs (stopped, not dead): runs that store on it train on, and lose no checkpoint but those that newer ones replace."""

import os
import pathlib
import signal
import time

import pytest
from jobs_on_disk import write_job
from local_cluster import LocalCluster, wait_for

JOB = pathlib.Path(__file__).resolve().parent.parent / "jobs" / "steps.py"
HANGS_S = 35


@pytest.fixture
def cluster(tmp_path):
    made = LocalCluster(tmp_path / "cluster", nodes=2, resources="CPU=2")
    yield made
    made.stop()


def steps_of(folder, name):
    file = folder / f"{name}-0"
    return len(file.read_text().splitlines()) if file.exists() else 0


def latest(cluster, name):
    return cluster.json("describe", name)["latest_checkpoint"]


def test_training_that_stores_on_the_head_goes_on_while_the_head_hangs(cluster, tmp_path):
    """A checkpoint each 0.2 s; one run on one node, one on two. They lose the five seconds after which a report does not wait."""
    for name, nodes in (("one", ["node-1"]), ("two", ["node-1", "node-2"])):
        entry = ["python", str(JOB), str(tmp_path / name), "1000000"]
        scaling = {"placement": "SPREAD", "nodes": nodes, "resources_per_worker": {"CPU": 0.5}}
        cluster.rtrain("submit", write_job(tmp_path, name, entry, workers=2, scaling=scaling))
        wait_for("a checkpoint", lambda name=name: latest(cluster, name))
    head = cluster.daemons["head"].pid
    os.kill(head, signal.SIGSTOP)
    try:
        before = {name: steps_of(tmp_path, name) for name in ("one", "two")}
        until = time.monotonic() + HANGS_S
        wait_for("the end of the hang", lambda: time.monotonic() > until)
        during = {name: steps_of(tmp_path, name) - before[name] for name in before}
    finally:
        os.kill(head, signal.SIGCONT)
    # 0.02 s a step are 1,750 in this time, on an idle machine; five seconds and the rest of a busy one leave a third of it.
    assert all(count > 600 for count in during.values()), during
    for name in before:
        seen = latest(cluster, name)
        wait_for("a later checkpoint", lambda name=name, seen=seen: latest(cluster, name) != seen)
        facts = cluster.json("describe", name)
        assert facts["state"] == "RUNNING" and len(facts["attempt_list"]) == 1, facts["reason"]
        cluster.rtrain("stop", name, "--now")
