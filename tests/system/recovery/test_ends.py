"""Tests that rank 0 does not wait for ever for a rank that returned early on another node while the head or an agent was
away.
"""

import pathlib

import pytest
from jobs_on_disk import JOBS, write_job
from local_cluster import LocalCluster, alive, wait_for

WHY = "rank 1 ended after report 1, rank 0 waits in report 2, which can never pass"


@pytest.fixture
def cluster(tmp_path):
    made = LocalCluster(tmp_path / "cluster", nodes=2, resources="CPU=1")
    yield made
    made.stop()


@pytest.fixture
def workers(cluster, tmp_path):
    """Starts a run on both nodes; returns its workers after their first report."""
    entry = ["python", str(JOBS / "uneven.py"), str(tmp_path)]
    cluster.rtrain("submit", write_job(tmp_path, "uneven", entry, workers=2, failure={"max_failures": 0}))
    wait_for("the first report", lambda: cluster.json("metrics", "uneven", "--tail", "1")["items"])
    return cluster.json("describe", "uneven")["attempt_list"][-1]["workers"]


def fails(cluster):
    cluster.wait_state("uneven", "FAILED", "SUCCEEDED", seconds=60)
    facts = cluster.json("describe", "uneven")
    assert facts["state"] == "FAILED" and WHY in facts["attempt_list"][-1]["cause"], facts


def test_without_a_head_the_waiting_rank_is_ended_and_the_head_that_comes_back_shows_why(cluster, workers, tmp_path):
    cluster.kill("head")
    pathlib.Path(tmp_path, "go").touch()
    wait_for("the end of rank 0", lambda: not alive(workers[0]["pid"]), 60)
    cluster.restart("head")
    fails(cluster)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_returns_while_an_agent_is_away_fails_the_attempt_once_that_is_back(cluster, workers, tmp_path, rank):
    node = workers[rank]["node"]
    cluster.kill(node)
    pathlib.Path(tmp_path, "go").touch()
    wait_for("the end of rank 1", lambda: not alive(workers[1]["pid"]), 60)
    cluster.restart(node)
    fails(cluster)
