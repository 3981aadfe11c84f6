"""Tests that a hanging setup of one user delays no setup of another user on the node."""

import json
import subprocess

import pytest
from jobs_on_disk import write_job
from local_cluster import RTRAIN, LocalCluster, wait_for


@pytest.fixture
def cluster(tmp_path):
    made = LocalCluster(tmp_path / "cluster", nodes=1, resources="CPU=4")
    yield made
    made.stop()


def submit_as(cluster, user, path):
    token = cluster.json("token", "create", "--role", "user", "--user", user)["token"]
    env = {**cluster.env, "RTRAIN_TOKEN": token}
    subprocess.run([RTRAIN, "submit", path], env=env, check=True, capture_output=True, text=True)


def test_a_setup_that_hangs_holds_up_no_other_users_and_leaves_nothing_when_its_run_is_stopped(cluster, tmp_path):
    pid = tmp_path / "pid"
    hangs = f"(setsid sleep 600 & echo $! > {pid}); echo hanging; sleep 600"
    submit_as(cluster, "ana", write_job(tmp_path, "hangs", ["true"], setup=hangs))
    wait_for("the setup to begin", pid.exists)
    submit_as(cluster, "ana", write_job(tmp_path, "next", ["true"], setup="true # ana's next one"))
    submit_as(cluster, "ben", write_job(tmp_path, "theirs", ["true"], setup="echo made > made"))
    cluster.wait_state("theirs", "SUCCEEDED", "FAILED")
    assert cluster.json("describe", "theirs")["state"] == "SUCCEEDED"
    assert cluster.json("describe", "next")["state"] == "STARTING"
    cluster.rtrain("stop", "hangs")
    cluster.wait_state("next", "SUCCEEDED", "FAILED")
    facts = cluster.json("describe", "next")
    assert facts["state"] == "SUCCEEDED", json.dumps(facts)
