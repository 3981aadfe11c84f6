"""Tests nodes with separate networks and file systems: cluster:// transfers checkpoints, and runs survive reported cuts."""

import re

import pytest
from jobs_on_disk import JOBS, ranks_job, write_job
from local_cluster import wait_for
from namespaces import NamespacedCluster, possible

pytestmark = pytest.mark.skipif(not possible(), reason="needs root and network namespaces")


@pytest.fixture
def cluster(tmp_path):
    made = NamespacedCluster(tmp_path / "cluster", nodes=2)
    yield made
    made.stop()


def test_checkpoints_of_nodes_without_a_shared_disk_meet_on_the_head(cluster, tmp_path):
    cluster.rtrain("submit", ranks_job(tmp_path, "meet", steps=3, workers=2))
    cluster.wait_state("meet", "SUCCEEDED", "FAILED")
    facts = cluster.json("describe", "meet")
    assert facts["state"] == "SUCCEEDED", facts["reason"]
    assert {worker["node"] for worker in facts["attempt_list"][-1]["workers"]} == {"node-1", "node-2"}
    newest = cluster.json("checkpoints", "list", "meet")["items"][-1]
    stored = cluster.folder / "head" / "storage" / "meet" / newest["directory"]
    assert {"rank-0.txt", "rank-1.txt", ".manifest.json"} <= {path.name for path in stored.iterdir()}
    assert cluster.run("checkpoints", "verify", "meet").returncode == 0


def test_a_lost_node_costs_the_attempt_and_the_run_goes_on_from_the_head_s_checkpoint(cluster, tmp_path):
    cluster.rtrain("submit", ranks_job(tmp_path, "lost", steps=4000, pause=0.1, workers=1, max_failures=3))
    wait_for("two checkpoints", lambda: len(cluster.json("checkpoints", "list", "lost")["items"]) >= 2)
    first = cluster.json("describe", "lost")["attempt_list"][-1]["workers"][0]["node"]
    cluster.cut(first)
    wait_for("a second attempt", lambda: len(cluster.json("describe", "lost")["attempt_list"]) >= 2, 180)
    wait_for("it to run elsewhere", lambda: cluster.json("describe", "lost")["state"] == "RUNNING", 180)
    second = cluster.json("describe", "lost")["attempt_list"][-1]
    assert second["from"].startswith("checkpoint_")
    assert second["workers"][0]["node"] != first
    cluster.mend(first)
    wait_for("the node's return", lambda: cluster.ready_nodes() == 2, 180)
    cluster.rtrain("stop", "lost")
    cluster.wait_state("lost", "STOPPED")


def test_a_machine_that_is_gone_is_lost_long_before_node_timeout_where_others_can_tell(tmp_path):
    cluster = NamespacedCluster(tmp_path / "cluster", nodes=4)
    try:
        cluster.rtrain("submit", ranks_job(tmp_path, "gone", steps=4000, pause=0.1, workers=1, max_failures=3))
        wait_for("a checkpoint", lambda: cluster.json("checkpoints", "list", "gone")["items"])
        first = cluster.json("describe", "gone")["attempt_list"][-1]["workers"][0]["node"]
        cluster.cut(first)
        wait_for("the loss", lambda: "LOST" in [node["state"] for node in cluster.json("nodes")["items"]], 60, 0.05)
        why = next(node["reason"] for node in cluster.json("nodes")["items"] if node["node"] == first)
        assert "answers neither the head nor 2 other nodes" in why, why
        assert float(re.search(r"no heartbeat for ([0-9.]+) s", why)[1]) < 10
        wait_for("it to run elsewhere", lambda: cluster.json("describe", "gone")["state"] == "RUNNING", 60)
        cluster.mend(first)
        wait_for("the node's return", lambda: cluster.ready_nodes() == 4, 60)
        cluster.rtrain("stop", "gone", "--now")
    finally:
        cluster.stop()


def test_a_node_that_only_the_head_does_not_reach_is_lost_by_node_timeout(tmp_path):
    cluster = NamespacedCluster(tmp_path / "cluster", nodes=3)
    try:
        cluster.swallow("node-1", "head")
        wait_for("the loss", lambda: "LOST" in [node["state"] for node in cluster.json("nodes")["items"]], 60)
        why = next(node["reason"] for node in cluster.json("nodes")["items"] if node["node"] == "node-1")
        assert "answers" not in why and float(re.search(r"no heartbeat for ([0-9.]+) s", why)[1]) >= 10, why
    finally:
        cluster.stop()


def test_ranks_meet_at_the_address_on_the_route_between_their_nodes(cluster, tmp_path):
    cluster.rtrain("submit", write_job(tmp_path, "gloo", ["python", str(JOBS / "meet.py")], workers=2))
    cluster.wait_state("gloo", "SUCCEEDED", "FAILED")
    facts = cluster.json("describe", "gloo")
    printed = cluster.rtrain("logs", "gloo", "--rank", "all")
    assert facts["state"] == "SUCCEEDED", facts["reason"] + printed
    first = next(worker["node"] for worker in facts["attempt_list"][-1]["workers"] if worker["rank"] == 0)
    assert printed.count(f"at {cluster.address(first)} over q{cluster.tag}") == 2 and printed.count(": 3") == 2, printed


@pytest.mark.parametrize("how", ["forbid", "swallow"])
def test_a_pair_of_nodes_that_cannot_talk_is_named_before_any_worker_starts(cluster, tmp_path, how):
    getattr(cluster, how)("node-2", "node-1")
    cluster.rtrain("submit", ranks_job(tmp_path, "pair", steps=1, workers=2))
    wait_for("an attempt to end", lambda: cluster.json("describe", "pair")["attempt_list"][0]["ended"], 180)
    printed = cluster.rtrain("describe", "pair")
    assert re.search(r"node-(1 cannot reach node-2 at 10.77.0.3|2 cannot reach node-1 at 10.77.0.2):\d+: ", printed), printed
    assert cluster.rtrain("logs", "pair", "--rank", "all", "--attempt", "1") == ""
    attempt = cluster.json("describe", "pair")["attempt_list"][0]
    assert {worker["state"] for worker in attempt["workers"]} <= {"PLACED", "STOPPED"}, attempt
    cluster.run("stop", "pair")
