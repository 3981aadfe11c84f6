"""Measures calls of an empty remote function in a warm pool, beside a ProcessPoolExecutor of two processes."""

import json
import re
import statistics
import subprocess

from local_cluster import LocalCluster

from benchmarks.measures import JOBS, PYTHON, quantile

CALLS, ROUNDS, SINGLE = 1000, 15, 2000


def tasks(work):
    """one node with 2 CPUs, a warm pool: 1,000 empty tasks <= 0.4 s, one call <= 1 ms (p50)"""
    cluster = LocalCluster(work / "tasks", nodes=1, resources="CPU=2")
    try:
        command = [PYTHON, JOBS / "tasks_driver.py", *map(str, (CALLS, ROUNDS, SINGLE))]
        done = subprocess.run(command, capture_output=True, text=True, env=cluster.env, timeout=600, check=True)
    finally:
        cluster.stop()
    measured = json.loads(re.search(r"^measured (.*)$", done.stdout, re.MULTILINE)[1])
    ours, theirs = statistics.median(measured["ours"]), statistics.median(measured["theirs"])
    p50, p99 = (1e3 * quantile(measured["single"], share) for share in (0.5, 0.99))
    their_p50, their_p99 = (1e3 * quantile(measured["their_single"], share) for share in (0.5, 0.99))
    reached = f"{CALLS:,} tasks {ours:.2f} s ({CALLS / ours:,.0f}/s), one call {p50:.2f} ms (p99 {p99:.1f} ms)"
    how = f"medians of {ROUNDS} alternating rounds, {SINGLE:,} single calls; the first call of a cold pool {1e3 * measured['cold']:.0f} ms"
    return reached, f"{how}; a ProcessPoolExecutor: {theirs:.2f} s, {their_p50:.2f} ms (p99 {their_p99:.1f} ms)"
