"""Tests a head that is killed while it creates the runs of a job array: the next head has all of the runs, or none."""

import threading

import pytest
from jobs_on_disk import write_job
from local_cluster import LocalCluster, wait_for

RUNS = 10_000


@pytest.fixture
def cluster(tmp_path):
    made = LocalCluster(tmp_path / "cluster", nodes=0)
    yield made
    made.stop()


def queued(cluster):
    return cluster.json("status")["runs"].get("QUEUED", 0)


@pytest.mark.parametrize("made", [1, 2_000, 6_000])
def test_an_array_is_there_as_a_whole_or_not_at_all(cluster, tmp_path, made):
    job = write_job(tmp_path, "grid", ["true"])
    client = threading.Thread(target=cluster.run, args=("submit", job, "--array", f"0-{RUNS - 1}"))
    client.start()
    wait_for("the array's first runs", lambda: queued(cluster) >= made, pause=0.001)
    cluster.kill("head")
    client.join()
    cluster.start_head()
    wait_for("the head", cluster.healthy)
    wait_for("all runs", lambda: queued(cluster) == RUNS)
    runs = [int(run["run_id"].rsplit("-", 1)[1]) for run in cluster.json("runs", "--all")["items"]]
    assert len(runs) == RUNS and max(runs) - min(runs) == RUNS - 1
