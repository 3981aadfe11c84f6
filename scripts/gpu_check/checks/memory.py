"""Kills a worker that holds GPU memory, by itself and by a child. Its memory must be free before the next attempt starts."""

import os
import pathlib
import signal
import time

from local_cluster import wait_for

from gpu_check import nvml
from gpu_check.cluster import GpuCluster
from gpu_check.rows import Wrong

_MIB, _GIB = 1 << 20, 1 << 30
TOLERANCE = 64 * _MIB  # a driver may keep this much; a CUDA context alone takes several times that


def check(rows, options):
    cluster = GpuCluster(pathlib.Path(options.work) / "cluster")
    try:
        cluster.be_driver()
        expected = f"at the next attempt's first line in use as before the first, within {TOLERANCE // _MIB} MiB"
        with rows.row("kill -9 of a worker and its child's memory", expected) as seen:
            killed(cluster, seen)
        with rows.row("the head sees a run's memory", "/metrics tells of what a worker holds, and of its end") as seen:
            metrics(cluster, seen)
    finally:
        cluster.stop()


def taken():
    """Bytes that a process takes: 2 GiB, or an eighth of a small GPU."""
    return min(2 * _GIB, min(gpu.memory_total for gpu in nvml.gpus()) // 8)


def killed(cluster, seen):
    count = taken()
    cluster.submit("killed", "holds_memory.py", count, failure={"max_failures": 1, "backoff": "1ms"})
    before = cluster.fact("killed", "before")["used"]
    holding = cluster.fact("killed", "holding")
    pid = cluster.json("describe", "killed")["attempt_list"][-1]["workers"][0]["pid"]
    died = time.time()
    os.kill(pid, signal.SIGKILL)
    after = cluster.fact("killed", "before", attempt=2)
    cluster.finished("killed")
    seen.append(f"before {before // _MIB} MiB, held {holding['used'] // _MIB}, next attempt {after['used'] // _MIB}")
    seen.append(f"{after['at'] - died:.2f} s after the kill")
    if holding["used"] < before + 2 * count:
        raise Wrong(f"worker and child took {2 * count // _MIB} MiB, and the driver did not see it")
    if after["used"] > before + TOLERANCE:
        raise Wrong(f"{(after['used'] - before) // _MIB} MiB of the dead are still in use")
    if pathlib.Path(f"/proc/{holding['child']}").exists():
        raise Wrong(f"the child, pid {holding['child']}, lives on")


def metrics(cluster, seen):
    count = taken()
    before = max(gpu.memory_used for gpu in nvml.gpus())  # the last heartbeat may belong to the row before
    cluster.submit("held", "holds_memory.py", count)
    cluster.fact("held", "holding")
    during = wait_for("a heartbeat with the memory", lambda: higher(cluster, before + 2 * count), 30)
    cluster.rtrain("stop", "held")
    cluster.wait_state("held", "STOPPED", "FAILED", "SUCCEEDED")
    seen.append(f"before {before / _MIB:.0f} MiB, during {during / _MIB:.0f}")
    after = wait_for("a heartbeat without it", lambda: lower(cluster, before + TOLERANCE), 30)
    seen.append(f"after {after['used'] / _MIB:.0f}")


def samples(cluster):
    return [value for name, _, value in cluster.metrics() if name == "gpu_memory_used_bytes"]


def higher(cluster, than):
    return next((value for value in samples(cluster) if value >= than), None)


def lower(cluster, than):
    now = max(samples(cluster), default=None)
    return {"used": now} if now is not None and now <= than else None
