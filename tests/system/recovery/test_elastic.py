"""Tests runs that change their size, drains, predecessors and arrays against a real head and real agents."""

import json

import pytest
from jobs_on_disk import JOBS, write_job
from local_cluster import LocalCluster, wait_for


@pytest.fixture
def cluster(tmp_path):
    made = LocalCluster(tmp_path / "c", nodes=2, resources="CPU=1")
    yield made
    made.stop()


def elastic_job(folder, name, workers, steps, pause=0.1, every=5, **fields):
    entrypoint = ["python", str(JOBS / "elastic.py"), str(steps), str(pause), str(every)]
    scaling = {"workers": workers, "grow_after": "1s"} if isinstance(workers, str) else {"workers": workers}
    return write_job(folder, name, entrypoint, 1, scaling=scaling, **fields)


def attempts(cluster, run):
    return cluster.json("describe", run)["attempt_list"]


def sizes(cluster, run):
    return [attempt["world_size"] for attempt in attempts(cluster, run)]


def steps_by_attempt(cluster, run):
    reports = cluster.json("metrics", run)["items"]
    return {report["attempt"]: [r["metrics"]["step"] for r in reports if r["attempt"] == report["attempt"]] for report in reports}


def committed(cluster, run):
    return cluster.json("checkpoints", "list", run)["items"]


def wait_running_with(cluster, run, workers):
    def there():
        facts = cluster.json("describe", run)
        return facts["state"] == "RUNNING" and facts["workers"] == workers and len(committed(cluster, run)) > 0

    wait_for(f"{run} to train with {workers} workers", there, 120)


def test_an_elastic_run_shrinks_with_a_lost_node_and_grows_with_a_new_one(cluster, tmp_path):
    cluster.rtrain("submit", elastic_job(tmp_path, "llama", "1..2", steps=4000, failure={"max_failures": 0}))
    wait_running_with(cluster, "llama", 2)
    before = committed(cluster, "llama")[-1]["directory"]
    cluster.kill("node-2")
    wait_running_with(cluster, "llama", 1)
    facts = cluster.json("describe", "llama")
    assert facts["failures"] == 0
    assert facts["attempt_list"][1]["from"] >= before  # no committed checkpoint was lost
    cluster.join("node-3", "CPU=1")
    wait_running_with(cluster, "llama", 2)
    grown = attempts(cluster, "llama")[-1]
    assert cluster.json("describe", "llama")["failures"] == 0 and grown["from"]
    for number, steps in steps_by_attempt(cluster, "llama").items():
        assert steps == list(range(steps[0], steps[0] + len(steps))), f"attempt {number} skipped a step"
    cluster.rtrain("stop", "llama", "--checkpoint", "--wait")
    assert cluster.json("describe", "llama")["state"] == "STOPPED"


def test_resize_by_hand_happens_at_a_checkpoint_that_is_asked_for(cluster, tmp_path):
    cluster.rtrain("submit", elastic_job(tmp_path, "fixed", 1, steps=4000, every=1000))
    cluster.wait_state("fixed", "RUNNING")
    wait_for("a report", lambda: cluster.json("describe", "fixed")["last_report"])
    resized = cluster.json("resize", "fixed", 2, "--wait")
    assert resized["workers"] == 2 and sizes(cluster, "fixed") == [1, 2]
    assert "wanted for resize" in cluster.rtrain("logs", "fixed", "--attempt", "1")
    wait_for("the new attempt's line", lambda: "with 2 ranks, before 1" in cluster.rtrain("logs", "fixed"))
    refused = cluster.run("resize", "fixed", 9)
    assert refused.returncode == 9 and "no room for 9 workers" in refused.stderr
    cluster.rtrain("stop", "fixed", "--checkpoint", "--wait")
    assert "wanted for stop" in cluster.rtrain("logs", "fixed", "--attempt", "2")
    assert cluster.json("describe", "fixed")["attempt_list"][-1]["state"] == "STOPPED"


def test_a_waiting_run_keeps_its_size_when_the_nodes_could_never_hold_the_new_one(cluster, tmp_path):
    cluster.rtrain("submit", write_job(tmp_path, "holds", ["sleep", "600"], workers=2))
    cluster.wait_state("holds", "RUNNING")
    cluster.rtrain("submit", write_job(tmp_path, "patient", ["true"], workers=2))
    assert cluster.json("describe", "patient")["state"] == "QUEUED"
    refused = cluster.run("resize", "patient", 3, "-o", "json")
    error = json.loads(refused.stdout)["error"]
    assert (refused.returncode, error["exit_code"], error["code"]) == (9, 9, "unplaceable")
    assert error["message"].startswith("no present nodes could ever hold 3 workers of run patient, it still wants 2: ")
    facts = cluster.json("describe", "patient")
    assert (facts["state"], facts["workers"]) == ("QUEUED", 2)
    assert cluster.json("resize", "patient", 1)["workers"] == 1
    cluster.rtrain("stop", "holds", "--wait")
    cluster.wait_state("patient", "SUCCEEDED")
    assert sizes(cluster, "patient") == [1]


def test_a_drain_with_a_deadline_moves_a_run_at_its_checkpoint(cluster, tmp_path):
    cluster.rtrain("submit", elastic_job(tmp_path, "moves", 1, steps=4000, every=1000))
    cluster.wait_state("moves", "RUNNING")
    wait_for("a report", lambda: cluster.json("describe", "moves")["last_report"])
    home = attempts(cluster, "moves")[0]["nodes"][0]
    drained = cluster.json("node", "drain", home, "--deadline", "2m", "--reason", "kernel")
    assert drained["state"] == "DRAINING" and drained["drain_deadline"]
    wait_for("the run to move", lambda: len(attempts(cluster, "moves")) == 2)
    cluster.wait_state("moves", "RUNNING")
    last = attempts(cluster, "moves")[-1]
    assert last["nodes"] != [home] and last["from"] and cluster.json("describe", "moves")["failures"] == 0
    assert cluster.json("node", "undrain", home)["state"] == "READY"
    cluster.rtrain("stop", "moves", "--wait")


def test_predecessors_and_arrays(cluster, tmp_path):
    write = write_job(tmp_path, "prepare", ["sh", "-c", "echo prepared"])
    cluster.rtrain("submit", write)
    cluster.wait_state("prepare", "SUCCEEDED")
    grid = write_job(tmp_path, "grid", ["sh", "-c", 'echo "I am $RTRAIN_ARRAY_INDEX of $RTRAIN_ARRAY"'])
    made = cluster.json("submit", grid, "--array", "1-3%2", "--after", "prepare")
    assert [run["name"] for run in made["array_runs"]] == ["grid-1", "grid-2", "grid-3"]
    for index in (1, 2, 3):
        cluster.wait_state(f"grid-{index}", "SUCCEEDED")
        assert cluster.rtrain("logs", f"grid-{index}") == f"I am {index} of grid\n"
    unknown = cluster.run("submit", write_job(tmp_path, "next", ["true"]), "--after", "nobody")
    assert unknown.returncode == 3 and "nobody" in unknown.stderr
    bad = cluster.run("submit", grid, "--array", "3-1")
    assert bad.returncode == 4 and "begins above its end" in bad.stderr
