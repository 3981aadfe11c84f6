"""Measures the gain of forked workers on a node that joined with --warm: the first step, a restart, `fit()` and a remote
function, each in alternating rounds with torchrun, or with a plain start. Compares a sweep of eight trials with one process that
trains the same trials in turn; both times include imports.
"""

import json
import os
import re
import statistics
import subprocess
import time

from local_cluster import WarmCluster, wait_for

from benchmarks import recovery
from benchmarks.api import measured, torchrun_seconds
from benchmarks.first_step import first_steps
from benchmarks.measures import JOBS, PYTHON

ROUNDS = int(os.environ.get("RTRAIN_BENCH_ROUNDS", "20"))
CALLS = 10
SWEEPS = int(os.environ.get("RTRAIN_BENCH_ROUNDS", "5"))  # rounds of `trials`


class CountingCluster(WarmCluster):
    def templates(self):
        return (self.folder / "node-1.log").read_text().count("a template of warm workers is ready")


def warm(work):
    """on a warm node, beside torchrun: 2 workers to the first step <= 0.15 x, a restart <= 0.15 x, fit() <= 0.2 x; a remote function <= 100 ms"""
    cluster = CountingCluster(work / "warm", nodes=1, resources="CPU=2")
    files = work / "warm-files"
    files.mkdir()
    try:
        first_steps(cluster, work, PYTHON, 2, 1)  # the environment has no template yet
        wait_for("a template", lambda: cluster.templates() == 1)
        steps, launched = first_steps(cluster, files, PYTHON, 2, ROUNDS, prefix="warm")
        forked = forks(cluster, "warm-0")
        restarts, relaunched = restarts_of(cluster, work)
        measured(PYTHON, "rtrain", "first", files, cluster.env)
        fits, peers = fits_of(cluster, files)
        calls = remote_calls(cluster.env)
    finally:
        cluster.stop()
    step, peer, restart, again, fit, launch = map(statistics.median, (steps, launched, restarts, relaunched, fits, peers))
    reached = f"{step / peer:.2f} x, {restart / again:.2f} x, {fit / launch:.2f} x, {1e3 * statistics.median(calls):.0f} ms"
    how = (
        f"first step {step:.2f} s, torchrun {peer:.2f} s; restart {restart:.2f} s, torchrun {again:.2f} s; fit() {fit:.2f} s, torchrun "
        f"{launch:.2f} s; medians of {ROUNDS} alternating rounds; {CALLS} calls of a remote function; {forked}"
    )
    return reached, how


def forks(cluster, run):
    """Returns the node's texts about the run's start."""
    return "; ".join(start["text"] for start in cluster.json("describe", run)["starts"])


def restarts_of(cluster, work):
    ours, theirs = [], []
    for number in range(ROUNDS):
        # Uses a checkpoint, since a run with progress restarts without a backoff.
        ours.append(recovery.of_rtrain(cluster, PYTHON, work / f"restart-{number}", "checkpoints"))
        try:
            theirs.append(recovery.of_torchrun(cluster, PYTHON, work / f"relaunch-{number}"))
        except recovery.Failed:  # some of torchrun's restarts hang
            continue
    return ours, theirs


def fits_of(cluster, folder):
    """Measures fit(). Its first run makes a template unless the environment has one."""
    ours, theirs = [], []
    for _ in range(ROUNDS):
        theirs.append(torchrun_seconds(cluster.env))
        ours.append(measured(PYTHON, "rtrain", "first", folder, cluster.env)["seconds"])
    return ours, theirs


def remote_calls(environment):
    command = [PYTHON, JOBS / "remote_driver.py", str(CALLS)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=True)
    match = re.search(r"^measured (.*)$", done.stdout, re.MULTILINE)
    return json.loads(match[1])


def trials(work):
    """8 ASHA trials of the digits network, two at a time, on a warm node, imports counted on both sides: <= 1.3 x one process"""
    cluster = WarmCluster(work / "trials", nodes=1, resources="CPU=2")
    try:
        timed(cluster.env, "sweep")  # the environment has no template yet
        wait_for("a template", lambda: cluster.templates() == 1)
        ours, theirs, epochs = [], [], []
        for _ in range(SWEEPS):
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
        f"{sweep_s:.2f} s, one process {peer:.2f} s, medians of {SWEEPS} rounds; {min(epochs)} to {max(epochs)} epochs",
    )


def timed(environment, *arguments):
    begin = time.monotonic()
    done = subprocess.run(
        [PYTHON, JOBS / "trials.py", *arguments], capture_output=True, text=True, env=environment, timeout=600, check=True
    )
    return time.monotonic() - begin, done.stdout
