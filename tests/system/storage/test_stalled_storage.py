"""Tests that a hanging storage path delays only the runs that use it: neither their node nor other runs."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest
from benchmarks import fuse
from jobs_on_disk import ranks_job, write_job
from local_cluster import LocalCluster, wait_for
from stalling_disk import possible, stalling_disk

pytestmark = pytest.mark.skipif(not possible(), reason="mounting needs root and loop devices")


class Impatient(LocalCluster):
    def start_head(self):
        self.start("head", "head", "start", "--port", self.port, "--data", self.folder / "head", "--node-timeout", "5s")


@pytest.fixture
def cluster(tmp_path):
    made = Impatient(tmp_path / "cluster", nodes=1, resources="CPU=8")
    yield made
    made.stop()


@pytest.fixture
def disk(cluster, tmp_path):  # depends on `cluster`, so that the disk is released before the cluster is stopped
    with stalling_disk(tmp_path / "disk") as made:
        yield made


def stays_ready(cluster, seconds):
    since = time.monotonic()
    wait_for("the node to be lost, or not", lambda: cluster.ready_nodes() != 1 or time.monotonic() > since + seconds)
    assert cluster.ready_nodes() == 1


def test_runs_that_are_prepared_on_storage_that_hangs_keep_no_other_run_waiting(cluster, disk, tmp_path):
    disk.stall()
    hung = [f"hung-{number}" for number in range(6)]
    for name in hung:
        cluster.rtrain("submit", ranks_job(tmp_path, name, 1, storage_path=str(disk.place / name)))
    for name in hung:
        cluster.wait_state(name, "STARTING")
    cluster.rtrain("submit", ranks_job(tmp_path, "other", 3, storage_path=str(tmp_path / "elsewhere")))
    cluster.wait_state("other", "SUCCEEDED", "FAILED", seconds=40)
    assert cluster.json("describe", "other")["state"] == "SUCCEEDED"
    assert all(cluster.json("describe", name)["state"] == "STARTING" for name in hung)
    disk.go_on()
    for name in hung:
        cluster.wait_state(name, "SUCCEEDED")


def test_ranks_that_write_checkpoints_onto_storage_that_hangs_stall_themselves_alone(cluster, disk, tmp_path):
    hung = [f"hung-{number}" for number in range(5)]
    for name in hung:
        cluster.rtrain("submit", ranks_job(tmp_path, name, 100_000, 0.05, storage_path=str(disk.place)))
    for name in hung:
        wait_for("a checkpoint", lambda name=name: cluster.json("describe", name)["latest_checkpoint"])
    disk.stall()
    stays_ready(cluster, 8)  # longer than the timeout of a silent node
    cluster.rtrain("submit", ranks_job(tmp_path, "other", 3, storage_path=str(tmp_path / "elsewhere")))
    cluster.wait_state("other", "SUCCEEDED", "FAILED", seconds=40)
    assert cluster.json("describe", "other")["state"] == "SUCCEEDED"
    before = {name: cluster.json("describe", name)["latest_checkpoint"] for name in hung}
    disk.go_on()
    for name in hung:
        wait_for("training to go on", lambda name=name: cluster.json("describe", name)["latest_checkpoint"] != before[name])
        facts = cluster.json("describe", name)
        assert facts["state"] == "RUNNING" and len(facts["attempt_list"]) == 1, facts["reason"]
        cluster.rtrain("stop", name)


def hangs(place):
    """Returns true if `stat` of the path hangs. Such a process may not be killable, so it is not waited for."""
    process = subprocess.Popen(["stat", str(place)], stdout=subprocess.DEVNULL)
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        process.kill()
        return True
    return False


@contextlib.contextmanager
def hanging_mount(place):
    """Makes every access to `place` hang until the block ends."""
    process = subprocess.Popen([sys.executable, fuse.__file__, str(place)], stdout=subprocess.DEVNULL, start_new_session=True)
    wait_for("the mount", lambda: os.path.ismount(place))
    process.send_signal(signal.SIGSTOP)
    wait_for("what the kernel remembers of it to age", lambda: hangs(place))
    try:
        yield
    finally:
        process.kill()  # waiting processes get an error
        process.wait()
        fuse.unmount(place)


@pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="needs /dev/fuse")
def test_an_agent_that_starts_while_a_runs_storage_hangs_serves_the_others(cluster, tmp_path):
    node, runs = "node-1", tmp_path / "runs"
    runs.mkdir()
    cluster.rtrain("submit", write_job(tmp_path, "hung", ["sleep", "600"], storage_path=str(runs)))
    cluster.wait_state("hung", "RUNNING")
    cluster.kill(node)
    with hanging_mount(runs):
        cluster.restart(node)
        wait_for("the node", lambda: "node-1" in [one["node"] for one in cluster.json("nodes")["items"] if one["connected"]])
        cluster.rtrain("submit", write_job(tmp_path, "other", ["true"], storage_path=str(tmp_path / "elsewhere")))
        cluster.wait_state("other", "SUCCEEDED", "FAILED", seconds=40)
        assert cluster.json("describe", "other")["state"] == "SUCCEEDED"
        facts = cluster.json("describe", "hung")
        assert facts["state"] == "RUNNING" and len(facts["attempt_list"]) == 1, facts["reason"]
    cluster.rtrain("stop", "hung")
    cluster.wait_state("hung", "STOPPED")
