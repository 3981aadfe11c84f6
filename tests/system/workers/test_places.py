"""Tests that one process at a time reports for a rank: with data loaders, with consecutive programs, and across an agent's
death.
"""

import pytest
from jobs_on_disk import JOBS, write_job
from local_cluster import LocalCluster, wait_for


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = LocalCluster(tmp_path_factory.mktemp("places") / "cluster", nodes=1, resources="CPU=4")
    yield made
    made.stop()


def succeeds(cluster, run):
    cluster.wait_state(run, "SUCCEEDED", "FAILED")
    facts = cluster.json("describe", run)
    assert facts["state"] == "SUCCEEDED", facts["reason"]


def reported(cluster, run, name):
    return [item["metrics"][name] for item in cluster.json("metrics", run)["items"]]


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_data_loaders_read_their_context_and_the_reports_of_the_rank_go_on(cluster, tmp_path, method):
    run = f"loads-{method}"
    entrypoint = ["python", str(JOBS / "loads.py"), method, "2"]
    cluster.rtrain("submit", write_job(tmp_path, run, entrypoint, workers=2, storage_path=str(tmp_path)))
    succeeds(cluster, run)
    assert reported(cluster, run, "epoch") == [0, 1, 2]


def test_programs_that_run_one_after_the_other_report_one_after_the_other(cluster, tmp_path):
    program = "from rtrain import train; import sys; [train.report({'program': sys.argv[1]}) for _ in range(3)]"
    entrypoint = ["sh", "-c", f'python -c "{program}" a; python -c "{program}" b']
    cluster.rtrain("submit", write_job(tmp_path, "two", entrypoint, workers=2, storage_path=str(tmp_path)))
    succeeds(cluster, "two")
    assert reported(cluster, "two", "program") == ["a", "a", "a", "b", "b", "b"]


def test_a_child_takes_no_place_from_its_parent_also_after_the_agent_was_killed(cluster, tmp_path):
    go = tmp_path / "go"
    entrypoint = ["python", str(JOBS / "holds_place.py"), str(go)]
    cluster.rtrain("submit", write_job(tmp_path, "holds", entrypoint, storage_path=str(tmp_path)))
    wait_for("the first report", go.with_suffix(".waits").exists)
    node = "node-1"
    cluster.kill(node)
    cluster.restart(node)
    go.touch()
    succeeds(cluster, "holds")
    rank, refusal = go.with_suffix(".said").read_text().splitlines()
    assert rank == "0"
    assert refusal.startswith("rank 0 belongs to process ")
    assert reported(cluster, "holds", "from") == ["parent", "parent"]
