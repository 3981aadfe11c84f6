"""Measures the time from SIGKILL of a worker to the next step of its run, and the same with torchrun, in alternating rounds."""

import json
import os
import signal
import statistics
import subprocess
import time

from local_cluster import Failed, LocalCluster, wait_for

from benchmarks.first_step import torchrun
from benchmarks.measures import JOBS, PYTHON

SCRIPT = JOBS / "recovers.py"
ROUNDS = int(os.environ.get("RTRAIN_BENCH_ROUNDS", "7"))
WORKERS = 2
HANGS_AFTER = 60  # seconds after which a restart of torchrun counts as hanging, as some do


def recovery(work):
    """SIGKILL of a worker to the first new step, 2 Python workers: <= 0.15 x torchrun's own restart"""
    cluster = LocalCluster(work / "recovery", nodes=1, resources="CPU=2")
    ours, saving, theirs, hung = [], [], [], 0
    try:
        for number in range(ROUNDS):
            ours.append(of_rtrain(cluster, PYTHON, work / f"plain-{number}"))
            try:
                theirs.append(of_torchrun(cluster, PYTHON, work / f"torchrun-{number}"))
            except Failed:
                hung += 1
            saving.append(of_rtrain(cluster, PYTHON, work / f"saving-{number}", "checkpoints"))
    finally:
        cluster.stop()
    rtrain_s, with_checkpoints, peer = map(statistics.median, (ours, saving, theirs))
    return (
        f"{rtrain_s / peer:.2f} x torchrun, {with_checkpoints / peer:.2f} x with a checkpoint each half second",
        f"{rtrain_s:.2f} s, {with_checkpoints:.2f} s, torchrun {peer:.2f} s, medians of {ROUNDS} alternating rounds; "
        f"torchrun hung in {hung} more",
    )


def of_rtrain(cluster, python, folder, *arguments):
    folder.mkdir()
    spec = {
        "version": 1,
        "name": folder.name,
        "entrypoint": [str(python), str(SCRIPT), str(folder), *arguments],
        "scaling": {"workers": WORKERS},
        "failure": {"max_failures": 1},
    }
    file = folder.with_suffix(".yaml")
    file.write_text(json.dumps(spec))
    cluster.rtrain("submit", file)
    try:
        if arguments:
            wait_for("a checkpoint", lambda: cluster.json("checkpoints", "list", folder.name)["items"])
        return killed_to_next_step(folder)
    finally:
        cluster.rtrain("stop", folder.name, "--now")
        cluster.wait_state(folder.name, "STOPPED")


def of_torchrun(cluster, python, folder):
    """Measures torchrun, whose agent checks its workers each 0.1 s, which is also its default."""
    folder.mkdir()
    command = torchrun(python, WORKERS, "--max-restarts", 1, "--monitor-interval", 0.1, SCRIPT, folder)
    with open(folder / "log", "w") as log:
        process = subprocess.Popen(list(map(str, command)), env=cluster.env, stdout=log, stderr=log, start_new_session=True)
    try:
        return killed_to_next_step(folder)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def killed_to_next_step(folder):
    """Kills the last rank once all ranks have made a step. Returns the time until the slowest rank has made a new step."""
    ranks = range(WORKERS)
    last = f"pid-0-{WORKERS - 1}"
    wait_for("first steps", lambda: all((folder / f"pid-0-{rank}").exists() for rank in ranks), pause=0.01)
    killed = time.time()
    os.kill(int((folder / last).read_text()), signal.SIGKILL)
    wait_for("steps after the kill", lambda: all((folder / f"step-1-{rank}").exists() for rank in ranks), HANGS_AFTER, 0.01)
    return max(float((folder / f"step-1-{rank}").read_text().split()[0]) for rank in ranks) - killed
