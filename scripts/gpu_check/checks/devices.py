"""Checks which GPUs workers see: whole ones, fractions, none, several, those that a batch system left to the agent, a GPU divided
by MIG. The worker's CUDA UUIDs are compared with the agent's (the heartbeat's UUIDs of the run's allocation)."""

import pathlib

from gpu_check import nvml
from gpu_check.cluster import GpuCluster
from gpu_check.rows import Skip, Wrong

PRODUCT = 64 * 64 * 64 * 4.0


def check(rows, options):
    work = pathlib.Path(options.work)
    gpus = nvml.gpus()
    uuids = [gpu.uuid for gpu in gpus]
    cluster = GpuCluster(work / "cluster")
    try:
        cluster.be_driver()
        with rows.row("a whole GPU for each worker", "each computes on the GPU that its agent gave it") as seen:
            whole_gpus(cluster, options, uuids, seen)
        with rows.row("two workers on halves of one GPU", "both see that one GPU alone, and compute on it") as seen:
            halves(cluster, options, seen)
        with rows.row("a worker without a GPU", "sees none") as seen:
            without(cluster, seen)
        with rows.row("a worker with two GPUs", "sees both, in the agent's order") as seen:
            if len(gpus) < 2:
                raise Skip("needs 2 GPUs")
            two_for_one(cluster, options, seen)
    finally:
        cluster.stop()
    with rows.row("an agent with CUDA_VISIBLE_DEVICES", "offers the last GPU alone, and its worker computes on it") as seen:
        left_by_batch_system(work / "visible", uuids, options, seen)
    with rows.row("a GPU divided by MIG", "a worker sees one instance, and computes on it") as seen:
        if not any(gpu.mig for gpu in gpus):
            raise Skip("needs a GPU that is divided by MIG")
        divided(work / "mig", next(gpu for gpu in gpus if gpu.mig), options, seen)


def seen_by(cluster, run, workers, gpus):
    """Returns (devices that each worker saw, UUIDs that the head lists for it) of a run that then succeeds."""
    cluster.submit(run, "sees.py", workers=workers, gpus=gpus)
    sights = [cluster.fact(run, "result", rank) for rank in range(workers)]
    given = [cluster.assigned_uuids(run, rank) if gpus else [] for rank in range(workers)]
    cluster.word("enough")
    cluster.finished(run)
    (cluster.facts / "enough").unlink()
    return sights, given


def judge(sights, given, options):
    for rank, (worker, uuids) in enumerate(zip(sights, given, strict=True)):
        if worker["device"] != options.device or worker["product"] != PRODUCT:
            raise Wrong(f"rank {rank} computed {worker['product']} on {worker['device']}")
        if worker["uuids"] != uuids or worker["assigned"] != uuids:
            raise Wrong(f"rank {rank} sees {worker['uuids']}, its variables name {worker['assigned']}, its agent gave {uuids}")


def brief(uuids):
    return "+".join(uuid[-6:] for uuid in uuids)


def whole_gpus(cluster, options, uuids, seen):
    sights, given = seen_by(cluster, "whole", len(uuids), 1)
    seen.append(f"{len(sights)} workers: {', '.join(brief(worker['uuids']) for worker in sights)}")
    judge(sights, given, options)
    if sorted(uuid for worker in sights for uuid in worker["uuids"]) != sorted(uuids):
        raise Wrong("they do not share all GPUs among them")


def halves(cluster, options, seen):
    sights, given = seen_by(cluster, "halves", 2, 0.5)
    seen.append(", ".join(f"{worker['visible']} visible, {brief(worker['uuids'])}" for worker in sights))
    judge(sights, given, options)
    if [worker["visible"] for worker in sights] != [1, 1] or sights[0]["uuids"] != sights[1]["uuids"]:
        raise Wrong("they are not on one GPU, or see another one")


def without(cluster, seen):
    sights, _ = seen_by(cluster, "without", 1, 0)
    seen.append(f"{sights[0]['visible']} visible, computes on {sights[0]['device']}, variable {sights[0]['variable']!r}")
    if sights[0]["visible"] != 0 or sights[0]["device"] != "cpu" or sights[0]["product"] != PRODUCT:
        raise Wrong("it sees a GPU that nobody gave it")


def two_for_one(cluster, options, seen):
    sights, given = seen_by(cluster, "two", 1, 2)
    seen.append(f"{sights[0]['visible']} visible, {brief(sights[0]['uuids'])}")
    judge(sights, given, options)
    if sights[0]["visible"] != 2 or len(set(sights[0]["uuids"])) != 2:
        raise Wrong("these are not two GPUs")


def left_by_batch_system(folder, uuids, options, seen):
    cluster = GpuCluster(folder, visible={"node-1": uuids[-1]})
    try:
        cluster.be_driver()
        offered = cluster.json("nodes")["items"][0]["gpus"]
        sights, given = seen_by(cluster, "left", 1, 1)
        seen.append(f"{offered} of {len(uuids)} offered, {brief(sights[0]['uuids'])}")
        judge(sights, given, options)
        if offered != 1 or sights[0]["uuids"] != uuids[-1:]:
            raise Wrong(f"it is not the last one, {uuids[-1]}")
    finally:
        cluster.stop()


def divided(folder, gpu, options, seen):
    """Checks a GPU with MIG: agents offer it as one, and CUDA gives a process that names it its first instance."""
    cluster = GpuCluster(folder, visible={"node-1": gpu.uuid})
    try:
        cluster.submit("mig", "sees.py")
        worker = cluster.fact("mig", "result")
        cluster.word("enough")
        cluster.finished("mig")
        seen.append(f"{worker['visible']} visible, {', '.join(worker['uuids'])}")
        if worker["visible"] != 1 or worker["device"] != options.device or worker["product"] != PRODUCT:
            raise Wrong(f"it computed {worker['product']} on {worker['device']}")
    finally:
        cluster.stop()
