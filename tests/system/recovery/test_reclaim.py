"""Tests `node join --drain-on-sigterm`: SIGTERM drains the node. Its runs write a checkpoint and continue elsewhere, no
failure is counted, and nothing remains on the node.
"""

import os
import pathlib
import signal
import time

import pytest
from jobs_on_disk import ranks_job, write_job
from local_cluster import LocalCluster, alive, wait_for

GRACE = "20s"
PREEMPTED = pathlib.Path(__file__).resolve().parent.parent / "jobs" / "preempted.py"


class Draining(LocalCluster):
    def command(self, name, *arguments):
        grace = ["--drain-on-sigterm", GRACE] if arguments[0] == "node" else []
        return super().command(name, *arguments, *grace)


@pytest.fixture
def cluster(tmp_path):
    made = Draining(tmp_path / "cluster", nodes=2, resources="CPU=1")
    yield made
    made.stop()


def worker_of(cluster, run):
    return cluster.json("describe", run)["attempt_list"][-1]["workers"][0]


def test_a_run_moves_with_the_checkpoint_that_it_is_asked_for(cluster, tmp_path):
    entry = ["python", str(PREEMPTED), str(tmp_path / "facts")]
    cluster.rtrain("submit", write_job(tmp_path, "moves", entry, storage_path=str(tmp_path)))
    wait_for("the loop", (tmp_path / "facts-1").exists)
    first = worker_of(cluster, "moves")
    agent = cluster.daemons[first["node"]]
    asked_at = time.time()
    agent.send_signal(signal.SIGTERM)
    wait_for("the agent to end", lambda: agent.poll() is not None, 30)
    assert agent.returncode == 0 and not alive(first["pid"])
    assert time.time() - asked_at < 15, "it had nothing to wait for once its run was gone"
    wait_for("the second attempt", (tmp_path / "facts-2").exists)
    facts = cluster.json("describe", "moves")
    assert facts["failures"] == 0 and worker_of(cluster, "moves")["node"] != first["node"]
    assert facts["attempt_list"][1]["from"].startswith("checkpoint_")
    deadline_ms = int((tmp_path / "facts-1").read_text().splitlines()[1].split()[0])
    assert asked_at + 5 < deadline_ms / 1000 < asked_at + 20
    cluster.rtrain("stop", "moves")
    cluster.wait_state("moves", "STOPPED")


def test_what_brings_no_checkpoint_is_ended_in_time_and_goes_on_elsewhere(cluster, tmp_path):
    cluster.rtrain("submit", write_job(tmp_path, "holds", ["sleep", "1000"]))
    cluster.wait_state("holds", "RUNNING")
    first = worker_of(cluster, "holds")
    agent = cluster.daemons[first["node"]]
    agent.send_signal(signal.SIGTERM)
    wait_for("the agent to end", lambda: agent.poll() is not None, 40)
    assert agent.returncode == 0 and not alive(first["pid"])
    wait_for("the second attempt", lambda: len(cluster.json("describe", "holds")["attempt_list"]) == 2)
    cluster.wait_state("holds", "RUNNING")
    facts = cluster.json("describe", "holds")
    assert facts["failures"] == 0 and worker_of(cluster, "holds")["node"] != first["node"]
    cluster.rtrain("stop", "holds", "--now")


def test_an_idle_agent_ends_at_once_and_its_node_takes_work_when_it_is_back(cluster, tmp_path):
    agent = cluster.daemons["node-1"]
    agent.send_signal(signal.SIGTERM)
    wait_for("the agent to end", lambda: agent.poll() is not None, 10, 0.02)
    states = {node["node"]: node["state"] for node in cluster.json("nodes")["items"]}
    assert states["node-1"] == "DRAINING"
    cluster.restart("node-1")
    wait_for("both nodes", lambda: cluster.ready_nodes() == 2)


def test_a_second_sigterm_waits_for_nothing(cluster, tmp_path):
    cluster.rtrain("submit", ranks_job(tmp_path, "now", steps=4000, pause=0.1, storage_path=str(tmp_path)))
    cluster.wait_state("now", "RUNNING")
    first = worker_of(cluster, "now")
    agent = cluster.daemons[first["node"]]
    os.kill(agent.pid, signal.SIGSTOP)  # both signals are pending when the agent resumes, so that its run has no time to move
    agent.send_signal(signal.SIGTERM)
    os.kill(agent.pid, signal.SIGCONT)
    wait_for("the first one to be seen", lambda: "drains" in (cluster.folder / f"{first['node']}.log").read_text(), 10, 0.01)
    agent.send_signal(signal.SIGTERM)
    wait_for("the agent to end", lambda: agent.poll() is not None, 10)
    wait_for("its worker to go", lambda: not alive(first["pid"]), 10)
