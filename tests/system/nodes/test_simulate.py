"""Tests simulated nodes: one process acts as fifty of them, and a real head runs two hundred gangs on them."""

import json
import os
import signal
import subprocess

import pytest
from local_cluster import RTRAIN, Failed, LocalCluster, wait_for

NODES, RUNS = 50, 200


@pytest.fixture
def cluster(tmp_path):
    made = LocalCluster(tmp_path / "c", nodes=0)
    yield made
    made.stop()


def simulate(cluster, *more):
    token = cluster.json("token", "create", "--role", "node", "--uses", NODES)["token"]
    cluster.start("nodes", "node", "simulate", cluster.head_address(), "--token", token, "--count", NODES,
                  "--fake-gpus", "8xA100", "--seed", 3, "-o", "jsonl", *more)  # fmt: skip
    wait_for("the nodes", lambda: cluster.ready_nodes() == NODES)


def counts(cluster):
    return cluster.json("status")["runs"]


def test_fifty_nodes_run_two_hundred_gangs_and_are_lost_with_their_process(cluster, tmp_path):
    simulate(cluster, "--run-seconds", 1, "--label", "rack=r7")
    wait_for("its line", lambda: (cluster.folder / "nodes.log").read_text().endswith("\n"))
    totals = json.loads((cluster.folder / "nodes.log").read_text().splitlines()[-1])
    assert (totals["nodes"], totals["first"], totals["last"]) == (NODES, "sim-0001", "sim-0050")
    node = cluster.json("describe", "sim-0050")
    assert node["labels"]["simulated"] == "true" and node["labels"]["rack"] == "r7"
    assert (node["gpus"], node["resources"]["CPU"]) == (8, "8")

    (tmp_path / "job.yaml").write_text(
        "version: 1\nname: many\nentrypoint: 'true'\nscaling:\n  workers: 4\n  use_gpu: true\n  resources_per_worker: {GPU: 2}\n"
    )
    cluster.rtrain("submit", tmp_path / "job.yaml", "--array", f"1-{RUNS}")
    wait_for("all runs", lambda: counts(cluster).get("SUCCEEDED", 0) == RUNS, 120)
    run = cluster.json("describe", "many-17")
    assert [worker["exit_code"] for worker in run["attempt_list"][0]["workers"]] == [0, 0, 0, 0]
    assert not (cluster.folder / "head" / "storage" / "many-17" / "attempts").exists()  # no files are written for the run

    cluster.kill("nodes")
    wait_for("the nodes to be lost", lambda: cluster.ready_nodes() == 0)


def test_a_long_run_is_stopped_and_the_simulator_ends_by_signal(cluster, tmp_path):
    simulate(cluster, "--run-seconds", 3600)
    (tmp_path / "job.yaml").write_text("version: 1\nname: long\nentrypoint: sleep 1\nscaling: {workers: 100}\n")
    cluster.rtrain("submit", tmp_path / "job.yaml")
    cluster.wait_state("long", "RUNNING")
    cluster.rtrain("stop", "long")
    cluster.wait_state("long", "STOPPED")
    os.kill(cluster.daemons["nodes"].pid, signal.SIGTERM)
    assert cluster.daemons["nodes"].wait(20) == 0


def test_wrong_words_are_refused_before_anything_is_joined(cluster):
    def refused(*words):
        done = subprocess.run([RTRAIN, "node", "simulate", cluster.head_address(), *map(str, words)], env=cluster.env,
                              capture_output=True, text=True)  # fmt: skip
        return done.returncode, done.stderr

    token = cluster.json("token", "create", "--role", "node")["token"]
    assert refused("--token", token, "--count", 0)[0] == 2
    assert refused("--token", token, "--count", 1_000_000)[0] == 2
    assert refused("--token", token, "--resources", "CPU=lots")[0] == 2
    assert refused("--token", token, "--label", "rack")[0] == 2
    assert refused("--token", cluster.json("token", "create", "--role", "viewer", "--user", "v")["token"])[0] == 6
    code, printed = refused("--token", token, "--count", 2)  # the token may be used once
    assert code == 6 and "used already" in printed
    with pytest.raises(Failed):
        cluster.rtrain("token", "create", "--role", "viewer", "--user", "v", "--uses", 3)
