"""Memory that really runs out: in a control group of the test's own, which the workers enter by themselves."""

import os
import pathlib
import re
import signal

import pytest
from jobs_on_disk import write_job
from local_cluster import LocalCluster, wait_for

LIMIT = 64 << 20
EATS = 'exec python -c "x = bytearray(300 << 20)"'


def memory_group(name):
    """A new control group whose members share 64 MiB; None where this machine lets nobody make one."""
    for root, limit in (
        (pathlib.Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
        (pathlib.Path("/sys/fs/cgroup"), "memory.max"),
    ):
        group = root / name
        try:
            group.mkdir()
            (group / limit).write_text(str(LIMIT))
            return group
        except OSError:
            if group.exists():
                group.rmdir()
    return None


@pytest.fixture
def group(tmp_path):
    made = memory_group(f"rtrain-test-{os.getpid()}")
    if made is None:
        pytest.skip("no memory control group can be made here")
    yield made
    wait_for("the group to be empty", lambda: not (made / "cgroup.procs").read_text())
    made.rmdir()


@pytest.fixture
def cluster(tmp_path):
    made = LocalCluster(tmp_path / "cluster", nodes=1, resources="CPU=2")
    yield made
    made.stop()


def cause_of(cluster, folder, name, script):
    cluster.rtrain("submit", write_job(folder, name, ["bash", "-c", script]))
    cluster.wait_state(name, "FAILED", "SUCCEEDED")
    return cluster.json("describe", name)["attempt_list"][-1]["cause"]


def test_a_worker_out_of_memory_is_told_from_one_that_was_killed(cluster, group, tmp_path):
    enter = f"echo $$ > {group}/cgroup.procs; "
    cause = cause_of(cluster, tmp_path, "eats", enter + EATS)
    assert "killed by signal 9 (out of memory: " in cause, cause
    if os.access("/dev/kmsg", os.R_OK) and os.readlink("/proc/self/ns/pid") == "pid:[4026531836]":
        assert re.search(r"out of memory: \d+(\.\d)? of 64 MiB, the limit of its control group\)", cause), cause
        loader = cause_of(cluster, tmp_path, "loader", enter + f"({EATS}) || exit 3")
        assert "exited with code 3" in loader and "memory ran out meanwhile, and the kernel killed the process" in loader, loader

    cluster.rtrain("submit", write_job(tmp_path, "struck", ["sleep", "1000"]))
    cluster.wait_state("struck", "RUNNING")
    os.kill(cluster.json("describe", "struck")["attempt_list"][-1]["workers"][0]["pid"], signal.SIGKILL)
    cluster.wait_state("struck", "FAILED")
    assert "out of memory" not in cluster.json("describe", "struck")["attempt_list"][-1]["cause"]
