"""Tests jumps of the wall clock under a head, an agent and their workers: all decisions use the monotonic clock."""

import pathlib
import shutil
import subprocess

import pytest
from jobs_on_disk import ranks_job
from local_cluster import LocalCluster, wait_for

SHIM = pathlib.Path(__file__).resolve().parent / "shifted_clock.c"
HALF_A_DAY = 12 * 3600


@pytest.fixture
def clock(tmp_path, monkeypatch):
    """Returns a file with the offset, in seconds, of the wall clock of all processes that the test starts."""
    library = tmp_path / "shifted_clock.so"
    subprocess.run([shutil.which("cc") or "cc", "-O1", "-shared", "-fPIC", "-o", library, SHIM], check=True)
    file = tmp_path / "offset"
    file.write_text("0")
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("SHIFTED_CLOCK", str(file))
    return file


def test_leases_and_runs_outlive_jumps_of_the_wall_clock(clock, tmp_path):
    cluster = LocalCluster(tmp_path / "cluster", nodes=2, resources="CPU=1", pass_env="LD_PRELOAD,SHIFTED_CLOCK")
    try:
        cluster.rtrain("submit", ranks_job(tmp_path, "jumps", 60, 0.2, workers=2, storage_path=str(tmp_path)))
        for offset in (HALF_A_DAY, -HALF_A_DAY):
            before = reported(cluster)
            clock.write_text(str(offset))
            wait_for("reports after the jump", lambda before=before: reported(cluster) > before + 5)
            assert [node["state"] for node in cluster.json("nodes")["items"]] == ["READY", "READY"]
        cluster.kill("head")  # the next head's wall clock is behind the times in its records
        cluster.restart("head")
        cluster.wait_state("jumps", "SUCCEEDED", "FAILED")
        facts = cluster.json("describe", "jumps")
        assert facts["state"] == "SUCCEEDED" and len(facts["attempt_list"]) == 1, facts["reason"]
        texts = [event["text"] for event in cluster.json("events")["items"]]
        assert not [text for text in texts if "LOST" in text], texts
        clock.write_text("0")
        cluster.rtrain("submit", ranks_job(tmp_path, "after", 3, 0.0, workers=2, storage_path=str(tmp_path)))
        cluster.wait_state("after", "SUCCEEDED", "FAILED", seconds=120)
        assert cluster.json("describe", "after")["state"] == "SUCCEEDED"
    finally:
        cluster.stop()


class Impatient(LocalCluster):
    def start_head(self):
        self.start("head", "head", "start", "--port", self.port, "--data", self.folder / "head", "--node-timeout", "2s")


@pytest.mark.parametrize("offset", [HALF_A_DAY, -HALF_A_DAY])
def test_a_node_that_fell_silent_before_a_jump_is_lost_in_its_time(clock, tmp_path, offset):
    cluster = Impatient(tmp_path / "cluster", nodes=2, resources="CPU=1")
    try:
        cluster.kill("node-2")
        clock.write_text(str(offset))  # no heartbeat arrives after the jump
        wait_for("the node to be lost", lambda: states(cluster) == {"node-1": "READY", "node-2": "LOST"}, seconds=120)
        cluster.restart("node-2")
        wait_for("it to be back", lambda: states(cluster) == {"node-1": "READY", "node-2": "READY"}, seconds=120)
    finally:
        cluster.stop()


def states(cluster):
    return {node["node"]: node["state"] for node in cluster.json("nodes")["items"]}


def reported(cluster):
    report = cluster.json("describe", "jumps")["last_report"]
    return report["metrics"]["step"] if report else 0
