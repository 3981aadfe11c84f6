"""Measures the first step and the recovery of the same scripts under rtrain and under torchrun, a worker for each GPU, in
alternating rounds.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys

from benchmarks.first_step import first_steps, torchrun

from gpu_check.cluster import JOBS, GpuCluster
from gpu_check.rows import Wrong

ROUNDS = 3
MOST = 1.0  # maximum, relative to torchrun
MOST_OF_RECOVERY = 1.15  # on an H100 CUDA's start took 0.1 s less in torchrun's workers
_JUDGED_NOT = "not judged on the CPU"


def check(rows, options):
    cluster = GpuCluster(pathlib.Path(options.work) / "cluster")
    rounds = 1 if options.on_cpu else ROUNDS
    try:
        gpus = cluster.json("nodes")["items"][0]["gpus"]
        how = f"median of {rounds}" if rounds > 1 else "once"
        with rows.row(f"first step, {gpus} worker{'s' if gpus > 1 else ''}", f"at most {MOST:g} x torchrun, {how}") as seen:
            judge(*first_steps(cluster, cluster.facts, sys.executable, gpus, rounds, gpus=1), options, seen)
        with rows.row("recovery: a death to the next first step", f"at most {MOST_OF_RECOVERY:g} x torchrun, {how}") as seen:
            pairs = [
                (recovery(cluster, number, gpus, options), recovery_of_torchrun(cluster, number, gpus))
                for number in range(rounds)
            ]
            judge([pair[0] for pair in pairs], [pair[1] for pair in pairs], options, seen, MOST_OF_RECOVERY)
    finally:
        cluster.stop()


def judge(ours, theirs, options, seen, most=MOST):
    own, peer = statistics.median(ours), statistics.median(theirs)
    seen.append(f"rtrain {own:.2f} s, torchrun {peer:.2f} s, {own / peer:.2f} x")
    if options.on_cpu:
        seen.append(_JUDGED_NOT)
    elif own > most * peer:
        raise Wrong(f"it takes longer than {most:g} x torchrun")


def recovery(cluster, number, workers, options):
    """Starts the run without a backoff, as torchrun does not wait between starts either."""
    run = f"recovers-{number}"
    cluster.submit(run, "dies_once.py", workers=workers, failure={"max_failures": 1, "backoff": "1ms"})
    cluster.finished(run)
    stepped = cluster.fact(run, "stepped", attempt=2)
    if stepped["backend"] != options.backend:
        raise Wrong(f"the second attempt trained by {stepped['backend']}")
    return stepped["at"] - cluster.fact(run, "died", rank=workers - 1)["at"]


def recovery_of_torchrun(cluster, number, workers):
    run = f"torchrun-{number}"
    command = torchrun(sys.executable, workers, "--max-restarts", 1, "--monitor-interval", 0.1, JOBS / "dies_once.py")
    env = {**os.environ, "GPU_CHECK_FACTS": str(cluster.facts), "GPU_CHECK_RUN": run}
    done = subprocess.run(list(map(str, command)), env=env, capture_output=True, text=True, timeout=180, check=False)
    if done.returncode != 0:
        raise Wrong(f"torchrun ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return moment(cluster, run, "stepped", 2, 0) - moment(cluster, run, "died", 1, workers - 1)


def moment(cluster, run, what, attempt, rank):
    return json.loads((cluster.facts / f"{run}-a{attempt}-r{rank}-{what}.json").read_text())["at"]
