"""Tests workers that run out of memory: in a control group of the test, which the workers enter by themselves, and beyond
the amount that a run asked for.
"""

import os
import pathlib
import re
import signal

import pytest
from jobs_on_disk import JOBS, write_job
from local_cluster import LocalCluster, wait_for

LIMIT = 64 << 20
EATS = 'exec python -c "x = bytearray(300 << 20)"'


def memory_group(name):
    """Makes a control group whose members share 64 MiB; returns None if this machine does not allow that."""
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


def limited(folder, name, *arguments):
    """Submits a run of jobs/memory.py that asks for 300 MiB."""
    scaling = {"resources_per_worker": {"CPU": 1, "memory": "300Mi"}}
    entrypoint = ["python", str(JOBS / "memory.py"), *map(str, arguments)]
    return write_job(folder, name, entrypoint, scaling=scaling, failure={"max_failures": 0})


def processes_of(attempt):
    entry = f"RTRAIN_ATTEMPT={attempt}".encode()
    pids = []
    for place in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if entry in place.read_bytes().split(b"\0"):
                pids.append(int(place.parent.name))
        except OSError:
            continue
    return pids


def test_a_leak_ends_its_own_rank_and_another_run_lives(cluster, tmp_path):
    cluster.rtrain("submit", limited(tmp_path, "holds", "hold", 200))
    cluster.wait_state("holds", "RUNNING")
    wait_for("its memory", lambda: "holds" in cluster.rtrain("logs", "holds"))
    assert "memory limit 300 MiB for each worker: watched each 250 ms" in " ".join(cluster.rtrain("describe", "holds").split())

    cluster.rtrain("submit", limited(tmp_path, "leaks", "leak"))
    cluster.wait_state("leaks", "FAILED")
    run = cluster.json("describe", "leaks")
    cause = run["attempt_list"][-1]["cause"]
    assert "killed by signal 9 (out of memory: used " in cause, cause
    used = re.search(
        r"used (\d+) MiB of its 300 MiB of memory; largest processes: python\S* \S*memory.py leak \((\d+) MiB\)", cause
    )
    assert used and 300 < int(used[1]) < 600 and int(used[2]) > 250, cause
    assert run["attempt_list"][-1]["workers"][0]["out_of_memory"] is True
    assert run["memory_limit"]["bytes_per_worker"] == 300 << 20
    assert cluster.json("describe", "holds")["state"] == "RUNNING"
    cluster.rtrain("stop", "holds", "--now")


def test_a_leak_in_another_session_is_charged_to_its_rank(cluster, tmp_path):
    cluster.rtrain("submit", limited(tmp_path, "loader-leaks", "loader"))
    cluster.wait_state("loader-leaks", "FAILED")
    run = cluster.json("describe", "loader-leaks")
    assert "of its 300 MiB of memory; largest processes: python" in run["attempt_list"][-1]["cause"], run["attempt_list"][-1][
        "cause"
    ]
    assert not processes_of(f"{run['run_id']}-a1")


def test_a_watch_survives_its_agent_and_off_means_off(cluster, tmp_path):
    gate = tmp_path / "gate"
    cluster.rtrain("submit", limited(tmp_path, "adopted", "leak", gate))
    cluster.wait_state("adopted", "RUNNING")
    cluster.kill("node-1")
    cluster.restart("node-1")
    wait_for("the node", lambda: cluster.ready_nodes() == 1)
    gate.touch()
    cluster.wait_state("adopted", "FAILED")
    assert "of its 300 MiB of memory" in cluster.json("describe", "adopted")["attempt_list"][-1]["cause"]

    cluster.kill("node-1")
    cluster.join_arguments["node-1"] += ["--memory-limits", "off", "--reserve-memory", "1GiB"]
    before = int(cluster.json("nodes")["items"][0]["resources"]["memory"])
    cluster.restart("node-1")
    wait_for("less memory", lambda: int(cluster.json("nodes")["items"][0]["resources"]["memory"]) == before - (1 << 30))
    wait_for("the node", lambda: cluster.ready_nodes() == 1)
    cluster.rtrain("submit", limited(tmp_path, "free", "use", 400))
    cluster.wait_state("free", "SUCCEEDED")
    assert "not enforced (--memory-limits off)" in cluster.rtrain("describe", "free")


def test_control_groups_that_are_not_there_are_refused(cluster, tmp_path):
    if pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists():
        pytest.skip("this machine has cgroup v2 controllers")
    cluster.kill("node-1")
    done = cluster.run(*cluster.join_arguments["node-1"], "--memory-limits", "cgroup")
    assert done.returncode != 0 and "cannot use a memory controller of cgroup v2" in done.stderr, done.stderr
