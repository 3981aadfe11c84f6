"""Tests storage that only nodes see: a path with another file system on each node is refused, and the files of a removed run
are removed.
"""

import pytest
from jobs_on_disk import ranks_job, write_job
from local_cluster import wait_for
from namespaces import NamespacedCluster, possible

pytestmark = pytest.mark.skipif(not possible(), reason="needs root and namespaces")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = NamespacedCluster(tmp_path_factory.mktemp("storage") / "cluster", nodes=2)
    yield made
    made.stop()


def on_node(cluster, folder, name, script):
    """Returns the output of a worker on node-1."""
    cluster.rtrain("submit", write_job(folder, name, ["sh", "-c", script], scaling={"nodes": ["node-1"]}))
    cluster.wait_state(name, "SUCCEEDED", "FAILED")
    return cluster.rtrain("logs", name, "--stream", "out")


def test_a_local_path_that_is_another_file_system_on_each_node_is_named_before_any_worker_starts(cluster, tmp_path):
    runs = cluster.folder / "node-1" / "runs"
    cluster.rtrain("submit", ranks_job(tmp_path, "apart", steps=1, workers=2, storage_path=str(runs)))
    cluster.wait_state("apart", "FAILED", "SUCCEEDED")
    facts = cluster.json("describe", "apart")
    assert facts["state"] == "FAILED" and "the path is not shared between the nodes" in facts["reason"], facts["reason"]
    assert str(runs) in facts["reason"] and "cluster://" in facts["reason"]
    assert not any(worker["pid"] for attempt in facts["attempt_list"] for worker in attempt["workers"])


def test_the_agents_remove_the_files_of_a_run_that_the_head_does_not_see(cluster, tmp_path):
    runs = cluster.folder / "node-1" / "mine"
    spec = ranks_job(tmp_path, "far", steps=2, storage_path=str(runs), scaling={"nodes": ["node-1"]})
    cluster.rtrain("submit", spec)
    cluster.wait_state("far", "SUCCEEDED", "FAILED")
    assert on_node(cluster, tmp_path, "before", f"ls {runs}") == "far\n"
    assert not runs.exists(), "this process must not see it"
    would = cluster.json("runs", "rm", "far", "--files", "--dry-run")
    assert would["files"] == f"{runs}/far" and would["dry_run"] is True
    done = cluster.json("runs", "rm", "far", "--files", "--yes")
    assert done["files"] == f"{runs}/far" and done["files_kept"] is None
    assert on_node(cluster, tmp_path, "after", f"ls {runs}") == ""
    assert cluster.run("describe", "far").returncode == 3


def test_the_files_that_a_resumed_run_goes_on_from_are_removed_with_it_alone(cluster, tmp_path):
    runs = cluster.folder / "node-1" / "again"
    ids = []
    for command, state in (("true", "SUCCEEDED"), ("exec tail -f /dev/null", "RUNNING")):
        spec = write_job(tmp_path, "twice", ["sh", "-c", command], storage_path=str(runs), scaling={"nodes": ["node-1"]})
        cluster.rtrain("submit", spec, "--resume")
        cluster.wait_state("twice", state, "FAILED")
        ids.append(cluster.json("describe", "twice")["run_id"])
    first, second = ids
    refused = cluster.run("runs", "rm", first, "--files", "--yes")
    assert refused.returncode == 7 and second in refused.stderr and "RUNNING" in refused.stderr, refused.stderr
    cluster.rtrain("stop", second, "--wait")
    assert cluster.run("runs", "rm", first, "--files", "--yes").returncode == 7
    assert on_node(cluster, tmp_path, "kept", f"ls {runs}") == "twice\n"
    assert cluster.json("runs", "rm", "twice", "--files", "--yes")["files"] == f"{runs}/twice"
    assert on_node(cluster, tmp_path, "removed", f"ls -A {runs}") == ""


def without_its_logs(cluster, folder, name, runs):
    """Ends a run on node-1 whose storage did not accept its logs."""
    own = 'mkdir -p "$RTRAIN_SCRATCH_DIR/.rtrain-logs" && echo mine > "$RTRAIN_SCRATCH_DIR/.rtrain-logs/rank-00000-own.txt"'
    blocked = f"{own}; echo in the way > {runs}/{name}/logs; echo through"
    fields = {"storage_path": str(runs), "scaling": {"nodes": ["node-1"]}}
    cluster.rtrain("submit", write_job(folder, name, ["sh", "-c", blocked], **fields))
    cluster.wait_state(name, "SUCCEEDED", "FAILED")
    line = f"attempt {cluster.json('describe', name)['run_id']}-a1: logs are not beside the run"
    wait_for("a try in vain", lambda: line in (cluster.folder / "node-1.log").read_text())


def test_logs_that_storage_did_not_take_are_dropped_when_their_run_is_removed_and_not_before(cluster, tmp_path):
    runs = cluster.folder / "node-1" / "full"
    own = f"find {cluster.folder}/node-1 -name rank-00000-own.txt"
    without_its_logs(cluster, tmp_path, "stays", runs)
    on_node(cluster, tmp_path, "hold", f"mount --bind {runs}/stays {runs}/stays")
    refused = cluster.run("runs", "rm", "stays", "--files", "--yes")
    assert refused.returncode != 0 and "node-1 could not remove" in refused.stderr, refused.stderr
    kept = on_node(cluster, tmp_path, "release", f"umount {runs}/stays && rm {runs}/stays/logs && {own}")
    assert kept.count("\n") == 1, kept
    copied = f"{runs}/stays/logs/attempt-000001"
    until = f"until [ -e {copied}/rank-00000-own.txt ]; do read -t 0.1 x <> <(:) || true; done"
    cluster.rtrain("submit", write_job(tmp_path, "look", ["bash", "-c", until], scaling={"nodes": ["node-1"]}))
    cluster.wait_state("look", "SUCCEEDED", "FAILED", seconds=300)
    assert on_node(cluster, tmp_path, "read", f"cat {copied}/rank-00000.out") == "through\n"

    without_its_logs(cluster, tmp_path, "goes", runs)
    assert cluster.json("runs", "rm", "goes", "--files", "--yes")["files"] == f"{runs}/goes"
    assert "stays" in on_node(cluster, tmp_path, "after-removal", f"ls {runs}")
    until = f"while {own} -path '*/scratch/*' | grep .; do read -t 0.1 x <> <(:) || true; done; ls {runs}"
    cluster.rtrain("submit", write_job(tmp_path, "look-again", ["bash", "-c", until], scaling={"nodes": ["node-1"]}))
    cluster.wait_state("look-again", "SUCCEEDED", "FAILED")
    assert cluster.rtrain("logs", "look-again", "--stream", "out").splitlines()[-1] == "stays"


def test_files_whose_nodes_are_away_are_left_and_said_so(cluster, tmp_path):
    runs = cluster.folder / "node-2" / "mine"
    cluster.rtrain("submit", ranks_job(tmp_path, "gone", steps=1, storage_path=str(runs), scaling={"nodes": ["node-2"]}))
    cluster.wait_state("gone", "SUCCEEDED", "FAILED")
    cluster.cut("node-2")
    wait_for("the head to miss it", lambda: cluster.json("describe", "node-2")["state"] == "LOST")
    refused = cluster.run("runs", "rm", "gone", "--files", "--yes")
    assert refused.returncode == 7 and "node-2" in refused.stderr and "without --files" in refused.stderr, refused.stderr
    cluster.mend("node-2")
    assert cluster.run("runs", "rm", "gone", "--yes").returncode == 0


def test_stop_ends_the_run_at_the_report_that_reaches_it_on_every_rank(cluster, tmp_path):
    cluster.rtrain("submit", ranks_job(tmp_path, "enough", steps=500, workers=2, stop={"step": 3}))
    cluster.wait_state("enough", "SUCCEEDED", "FAILED")
    facts = cluster.json("describe", "enough")
    assert facts["state"] == "SUCCEEDED" and "step reached 3" in facts["reason"], facts["reason"]
    assert len(facts["attempt_list"]) == 1 and len(facts["attempt_list"][0]["workers"]) == 2
    newest = cluster.json("checkpoints", "list", "enough")["items"][-1]
    assert newest["metrics"]["step"] == 3 and newest["directory"].endswith("-a001")
    stored = cluster.folder / "head" / "storage" / "enough" / newest["directory"]
    assert [(stored / f"rank-{rank}.txt").read_text() for rank in (0, 1)] == ["3", "3"]
    steps = [line["metrics"]["step"] for line in cluster.json("metrics", "enough", "--rank", "all")["items"]]
    assert max(steps) == 3
    assert "through" not in cluster.rtrain("logs", "enough", "--rank", "all")
