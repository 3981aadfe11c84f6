"""Ranks meet by NCCL: one worker, all GPUs of a node, two nodes of this machine, and `fit()` with use_gpu."""

import importlib.util
import pathlib

from gpu_check.cluster import GpuCluster
from gpu_check.rows import Skip, Wrong

_FIT_NEEDS = ("cloudpickle", "yaml", "zstandard")


def check(rows, options):
    work = pathlib.Path(options.work)
    cluster = GpuCluster(work / "one-node")
    try:
        gpus = cluster.json("nodes")["items"][0]["gpus"]
        expected = f"all_reduce, all_gather, broadcast right, by {options.backend} on {options.device}"
        with rows.row("one worker", expected) as seen:
            exchange(cluster, "one", 1, options, seen)
        with rows.row("a worker for each GPU", expected) as seen:
            need(gpus, 2)
            exchange(cluster, "each", gpus, options, seen)
        with rows.row(
            "TorchTrainer.fit(), use_gpu", f"the loop's all_reduce right, by {options.backend} on {options.device}"
        ) as seen:
            fit(cluster, gpus, options, seen)
    finally:
        cluster.stop()
    with rows.row("a worker on each of two nodes", expected) as seen:
        need(gpus, 2)
        two_nodes(work / "two-nodes", options, seen)


def need(gpus, count):
    if gpus < count:
        raise Skip(f"needs {count} GPUs")


def exchange(cluster, run, workers, options, seen, **how):
    cluster.submit(run, "all_reduce.py", workers=workers, **how)
    results = cluster.results(run, workers)
    seen.append(f"{workers} ranks by {results[0]['backend']} on {results[0]['device']} in {results[0]['seconds']:.1f} s")
    for rank, result in enumerate(results):
        judge(result, rank, workers, options)


def judge(result, rank, workers, options):
    if (result["backend"], result["device"]) != (options.backend, options.device):
        raise Wrong(f"rank {rank} used {result['backend']} on {result['device']}")
    if result["world"] != workers or result["difference"] != 0:
        raise Wrong(f"rank {rank} of {result['world']}: all_reduce is off by {result['difference']}")
    if result["gathered"] != [sender * 1000.0 for sender in range(workers)]:
        raise Wrong(f"rank {rank}: all_gather gave {result['gathered']}")
    if result["sent"] != [(workers - 1) * 1000.0 + place for place in range(3)]:
        raise Wrong(f"rank {rank}: broadcast gave {result['sent']}")


def two_nodes(folder, options, seen):
    from gpu_check import nvml

    uuids = [gpu.uuid for gpu in nvml.gpus()]
    visible = {"node-1": uuids[0], "node-2": uuids[1]}
    cluster = GpuCluster(folder, nodes=2, visible=visible)
    try:
        offered = sorted(node["gpus"] for node in cluster.json("nodes")["items"])
        if offered != [1, 1]:
            raise Wrong(f"agents with one visible GPU each offer {offered}")
        exchange(cluster, "spread", 2, options, seen, scaling={"placement": "STRICT_SPREAD"})
        nodes = {worker["node"] for worker in cluster.json("describe", "spread")["attempt_list"][-1]["workers"]}
        seen.append(f"nodes {', '.join(sorted(nodes))}")
        if len(nodes) != 2:
            raise Wrong("both workers were on one node")
    finally:
        cluster.stop()


def fit(cluster, gpus, options, seen):
    missing = [name for name in _FIT_NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise Skip(f"needs the Python packages {', '.join(missing)}")
    cluster.be_driver()
    from fit_loop import loop
    from rtrain.train import RunConfig, ScalingConfig
    from rtrain.train.torch import TorchTrainer

    workers = min(gpus, 2)
    scaling = ScalingConfig(num_workers=workers, use_gpu=True)
    kept = RunConfig(name="fit", storage_path=str(cluster.facts / "fit-files"))
    metrics = TorchTrainer(loop, scaling_config=scaling, run_config=kept).fit().metrics
    seen.append(f"{workers} workers, sum {metrics['sum']:g} by {metrics['backend']} on {metrics['device']}")
    if metrics["sum"] != workers * (workers + 1) / 2 or (metrics["backend"], metrics["device"]) != (
        options.backend,
        options.device,
    ):
        raise Wrong("the loop saw something else")
