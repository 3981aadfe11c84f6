"""Compares the agent's and the head's values about the GPUs with those of `nvidia-smi`."""

import pathlib
import sys

from local_cluster import wait_for

from gpu_check import nvml
from gpu_check.cluster import GpuCluster
from gpu_check.rows import Skip, Wrong

_MIB = 1 << 20
_MEMORY_MIB, _CELSIUS = 64, 15  # permitted differences between two readings of an idle GPU


def check(rows, options):
    cluster = GpuCluster(pathlib.Path(options.work) / "cluster")
    try:
        cluster.be_driver()
        with rows.row("GPUs, model, driver", "rtrain nodes as nvidia-smi") as seen:
            inventory(cluster, by_smi(), seen)
        with rows.row("memory, temperature", f"/metrics as nvidia-smi, within {_MEMORY_MIB} MiB and {_CELSIUS} C") as seen:
            heartbeat(cluster, by_smi(), seen)
        with rows.row("UUIDs", "of all GPUs, by the run that holds them, in nvidia-smi's order") as seen:
            allocation(cluster, by_smi(), seen)
    finally:
        cluster.stop()


def by_smi():
    try:
        return nvml.smi()
    except nvml.NoNvml as error:
        raise Skip(f"needs nvidia-smi: {error}") from None


def inventory(cluster, listed, seen):
    node = cluster.json("nodes")["items"][0]
    says = (node["gpus"], node["gpu_model"], node["facts"].get("nvidia_driver"))
    seen.append(f"{says[0]} x {says[1]}, driver {says[2]}, type {node['labels'].get('accelerator_type')}")
    wanted = (len(listed), listed[0]["name"], listed[0]["driver_version"])
    if says != wanted:
        raise Wrong(f"nvidia-smi says {wanted}")


def heartbeat(cluster, listed, seen):
    wait_for("a heartbeat with GPUs", lambda: of_gpu(cluster, "gpu_memory_total_bytes", 0) is not None, 30)
    for index, gpu in enumerate(listed):
        total = of_gpu(cluster, "gpu_memory_total_bytes", index) / _MIB
        used = of_gpu(cluster, "gpu_memory_used_bytes", index) / _MIB
        celsius = of_gpu(cluster, "gpu_temperature_celsius", index)
        seen.append(f"GPU {index}: {used:.0f} of {total:.0f} MiB, {celsius:g} C")
        smi_total = float(gpu["memory_total"])
        smi_used = smi_total - float(gpu["memory_free"])
        near = abs(total - smi_total) <= 1 and abs(used - smi_used) <= _MEMORY_MIB
        if not near or abs(celsius - float(gpu["temperature_gpu"])) > _CELSIUS:
            raise Wrong(f"nvidia-smi: {smi_used:.0f} of {smi_total:.0f} MiB, {gpu['temperature_gpu']} C")


def of_gpu(cluster, metric, index):
    """Returns the metric's value for that GPU of the only node; None before its first heartbeat."""
    for name, labels, value in cluster.metrics():
        if name == metric and labels.get("gpu") == str(index):
            return value
    return None


def allocation(cluster, listed, seen):
    cluster.submit("all", sys.executable, "-c", "import time; time.sleep(120)", gpus=len(listed))
    cluster.wait_state("all", "RUNNING", "FAILED")
    given = cluster.assigned_uuids("all")
    cluster.rtrain("stop", "all")
    seen.append(", ".join(given))
    if given != [gpu["uuid"] for gpu in listed]:
        raise Wrong(f"nvidia-smi: {', '.join(gpu['uuid'] for gpu in listed)}")
