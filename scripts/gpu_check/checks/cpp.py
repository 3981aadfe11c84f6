"""Checks C++ workers: the process group, the sum and the data-parallel training of runtime/torch, compiled on this machine."""

import json
import pathlib
import time

from gpu_check import compiling
from gpu_check.checks.nccl import need
from gpu_check.cluster import GpuCluster
from gpu_check.rows import Skip, Wrong

CLOSE = 1e-10


def check(rows, options):
    work = pathlib.Path(options.work)
    program = None
    with rows.row("ddp_worker.cpp", f"compiles beside this PyTorch, with {options.backend}") as seen:
        begin = time.monotonic()
        program = compiling.compiled(work / "compiled", nccl=not options.on_cpu)
        seen.append(f"in {time.monotonic() - begin:.0f} s")
    cluster = GpuCluster(work / "cluster")
    expected = f"sum right, parameters as in one process within {CLOSE:g}, by {options.backend} on {options.device}"
    try:
        gpus = cluster.json("nodes")["items"][0]["gpus"]
        with rows.row("one worker", expected) as seen:
            trained(cluster, program, 1, options, seen)
        with rows.row("two workers", expected) as seen:
            need(gpus, 2)
            trained(cluster, program, 2, options, seen)
    finally:
        cluster.stop()


def trained(cluster, program, workers, options, seen):
    if program is None:
        raise Skip("needs the compiled program")
    run = f"cpp-{workers}"
    written = cluster.facts / run
    cluster.submit(run, program, written, workers=workers, backend={"name": options.backend})
    cluster.finished(run)
    for rank in range(workers):
        result = json.loads(pathlib.Path(f"{written}-r{rank}").read_text())
        if rank == 0:
            seen.append(
                f"{result['world']} ranks by {result['backend']} on {result['device']}, within {result['difference']:.1e}"
            )
        if (result["backend"], result["device"]) != (options.backend, options.device):
            raise Wrong(f"rank {rank} used {result['backend']} on {result['device']}")
        if result["world"] != workers or result["sum"] != workers * (workers + 1) / 2:
            raise Wrong(f"rank {rank} of {result['world']}: the sum is {result['sum']}")
        if not result["difference"] <= CLOSE:
            raise Wrong(f"rank {rank}: parameters differ by {result['difference']}")
