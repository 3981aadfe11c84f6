"""Tests the limit of one user's logs on a node's shared disk, and a node whose disk is nearly full."""

import os
import subprocess

import pytest
from jobs_on_disk import write_job
from local_cluster import LocalCluster, wait_for
from small_disk import small_disk

FLOOD = """
import os, select
print("the first line", flush=True)
line = b"0123456789abcde\\n" * 16384
for _ in range(1200):
    os.write(1, line)
    select.select([], [], [], 0.002)
print("the last line", flush=True)
"""
LINE = "0123456789abcde"


@pytest.fixture
def cluster(tmp_path):
    """Starts a head, and one node on a disk of 128 MiB."""
    made = LocalCluster(tmp_path / "cluster", nodes=0)
    try:
        if os.geteuid() != 0:
            pytest.skip("mounting a small tmpfs needs root")
        with small_disk(made.folder / "node-1", "128m") as made.disk:
            made.join("node-1", "CPU=4")
            wait_for("the node", lambda: made.ready_nodes() == 1)
            yield made
            made.stop()
    finally:
        made.stop()


def free(disk):
    facts = os.statvfs(disk)
    return facts.f_bavail * facts.f_frsize


def node(cluster):
    return cluster.json("nodes")["items"][0]


def test_a_flood_of_lines_leaves_the_disk_to_others_and_keeps_the_first_and_last_ones(cluster, tmp_path):
    fields = {"storage_path": str(tmp_path / "runs"), "env": {"PYTHONUNBUFFERED": "1"}}
    cluster.rtrain("submit", write_job(tmp_path, "flood", ["python3", "-c", FLOOD], **fields))
    cluster.wait_state("flood", "RUNNING")
    least = free(cluster.disk)
    while cluster.json("describe", "flood")["state"] == "RUNNING":
        least = min(least, free(cluster.disk))
    assert cluster.json("describe", "flood")["state"] == "SUCCEEDED"
    assert least > 32 << 20, least
    assert node(cluster)["state"] == "READY"
    lines = cluster.rtrain("logs", "flood", "--stream", "out").splitlines()
    assert lines[0] == "the first line" and lines[-1] == "the last line", (lines[:2], lines[-2:])
    notes = [line for line in lines if "bytes of this log are missing here" in line]
    rest = [line for line in lines[1:-1] if line not in notes]
    assert notes and all(LINE.startswith(line) for line in rest)  # a line may be cut where bytes are missing
    missing = sum(int(line.split()[1]) for line in notes)
    shown = sum(len(line) + 1 for line in lines if line not in notes)
    written = 1200 * 16384 * 16 + len("the first line\nthe last line\n")
    assert written <= missing + shown <= written + len(notes)
    kept = (tmp_path / "runs/flood/logs/attempt-000001/rank-00000.out").read_text()
    assert kept.startswith("the first line\n") and kept.endswith("the last line\n") and "missing here" in kept
    assert len(kept) < 20 << 20 and "\0" not in kept
    cluster.rtrain("submit", write_job(tmp_path, "next", ["true"]))
    cluster.wait_state("next", "SUCCEEDED", "FAILED")
    assert cluster.json("describe", "next")["state"] == "SUCCEEDED"


def test_a_follower_gets_the_newest_lines_of_a_flood_and_each_position_stays_right(cluster, tmp_path):
    cluster.rtrain("submit", write_job(tmp_path, "flood", ["python3", "-c", FLOOD]))
    lines = cluster.rtrain("logs", "-f", "flood", "--stream", "out").splitlines()
    assert lines[0] == "the first line" and lines[-1] == "the last line", (lines[:2], lines[-2:])
    assert all(LINE.startswith(line) or "bytes" in line for line in lines[1:-1])


def test_a_node_whose_disk_is_nearly_full_is_drained_until_there_is_room(cluster, tmp_path):
    go = tmp_path / "go"
    here = write_job(tmp_path, "here", ["sh", "-c", f"until [ -e {go} ]; do sleep 0.05; done"])
    cluster.rtrain("submit", here)
    cluster.wait_state("here", "RUNNING")
    way = cluster.disk / "in-the-way"
    way.write_bytes(b"x" * (free(cluster.disk) - (4 << 20)))
    wait_for("the node to drain", lambda: node(cluster)["state"] == "DRAINING")
    why = node(cluster)["reason"]
    assert f"the disk of {cluster.disk} is nearly full" in why and "--disk-reserve" in why, why
    assert "nearly full" in cluster.rtrain("nodes"), cluster.rtrain("nodes")
    refused = cluster.run("node", "undrain", "node-1")
    assert refused.returncode != 0 and "make room there" in refused.stderr, refused.stderr
    cluster.rtrain("submit", write_job(tmp_path, "waits", ["true"]))
    assert cluster.json("describe", "waits")["state"] == "QUEUED"
    assert "nearly full" in cluster.rtrain("explain", "waits")
    assert cluster.json("describe", "here")["state"] == "RUNNING"  # the running run stays
    way.unlink()
    cluster.wait_state("waits", "SUCCEEDED", "FAILED")
    assert node(cluster)["state"] == "READY"
    go.touch()
    cluster.wait_state("here", "SUCCEEDED", "FAILED")
    assert cluster.json("describe", "here")["state"] == "SUCCEEDED"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a ramfs needs root")
def test_where_the_file_system_frees_no_part_of_a_file_a_log_ends_at_its_bound(tmp_path):
    cluster = LocalCluster(tmp_path / "cluster", nodes=0)
    place = cluster.folder / "node-1"
    place.mkdir()
    subprocess.run(["mount", "-t", "ramfs", "ramfs", str(place)], check=True)
    try:
        cluster.join("node-1", "CPU=1")
        fields = {"logs": {"max": "64Ki"}, "storage_path": str(tmp_path / "runs")}
        cluster.rtrain("submit", write_job(tmp_path, "flood", ["seq", "1", "1000000"], **fields))
        cluster.wait_state("flood", "SUCCEEDED", "FAILED")
        kept = (tmp_path / "runs/flood/logs/attempt-000001/rank-00000.out").read_text()
        assert kept.startswith("1\n2\n3\n") and "\0" not in kept and len(kept) < (64 << 10) + 300
        assert kept.splitlines()[-1].startswith("rtrain: the log ends here: it has reached what its node keeps")
    finally:
        cluster.stop()
        subprocess.run(["umount", "-l", str(place)], check=True)
