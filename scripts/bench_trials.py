"""Compares a sweep of eight trials on a warm node with one process that trains the same trials in turn, both including
imports.
"""

import json
import os
import re
import statistics
import subprocess
import time

from bench_warm import PYTHON, WarmCluster
from local_cluster import ROOT, wait_for

SCRIPT = ROOT / "tests" / "bench" / "jobs" / "trials.py"
ROUNDS = int(os.environ.get("RTRAIN_BENCH_ROUNDS", "5"))


def trials(work):
    """8 ASHA trials of the digits network, two at a time, on a warm node, imports counted on both sides: <= 1.3 x one process"""
    cluster = WarmCluster(work / "trials", nodes=1, resources="CPU=2")
    try:
        timed(cluster.env, "sweep")  # the environment has no template yet
        wait_for("a template", lambda: cluster.templates() == 1)
        ours, theirs, epochs = [], [], []
        for _ in range(ROUNDS):
            seconds, output = timed(cluster.env, "sweep")
            trained = re.search(r"^trials (.*)$", output, re.MULTILINE)[1]
            ours.append(seconds)
            epochs.append(sum(count for _, count in json.loads(trained)))
            theirs.append(timed(cluster.env, "alone", trained)[0])
    finally:
        cluster.stop()
    sweep_s, peer = statistics.median(ours), statistics.median(theirs)
    ratio = statistics.median(sweep / alone for sweep, alone in zip(ours, theirs, strict=True))
    return (
        f"{ratio:.2f} x",
        f"{sweep_s:.2f} s, one process {peer:.2f} s, medians of {ROUNDS} rounds; {min(epochs)} to {max(epochs)} epochs",
    )


def timed(environment, *arguments):
    begin = time.monotonic()
    done = subprocess.run([PYTHON, SCRIPT, *arguments], capture_output=True, text=True, env=environment, timeout=600, check=True)
    return time.monotonic() - begin, done.stdout
