"""Compares this tree with an earlier built tree: the cost of a report, and the time from a plain start to the first step."""

import json
import os
import pathlib
import re
import statistics
import time

from local_cluster import ROOT, EarlierCluster, LocalCluster

from benchmarks.first_step import SCRIPT, moment
from benchmarks.measures import JOBS, PYTHON

REPORTS = JOBS / "report.py"
ROUNDS = int(os.environ.get("RTRAIN_BENCH_ROUNDS", "12"))


def beside(work):
    """report() without a checkpoint, and submit to the first optimizer step by plain starts, 2 Python workers, beside the built tree that RTRAIN_BENCH_BESIDE names: <= 1.1 x, <= 1.05 x"""
    if "RTRAIN_BENCH_BESIDE" not in os.environ:
        return "not measured", "RTRAIN_BENCH_BESIDE names no tree"
    trees = {"before": pathlib.Path(os.environ["RTRAIN_BENCH_BESIDE"]).resolve(), "now": ROOT}
    reports, steps = {name: [] for name in trees}, {name: [] for name in trees}
    clusters = {}
    try:
        for name, tree in trees.items():
            program = tree / "build" / "release" / "rtrain"
            kind = LocalCluster if name == "now" else EarlierCluster  # plain starts in both
            clusters[name] = kind(work / f"beside-{name}", nodes=1, resources="CPU=2", program=program)
        for number in range(ROUNDS):
            for name in list(trees)[:: 1 if number % 2 else -1]:
                _, output = followed(clusters[name], trees[name], work, f"report-{name}-{number}", REPORTS, "20000")
                reports[name].append(float(re.search(r"report_us p50 ([0-9.]+)", output)[1]))
                begin, output = followed(clusters[name], trees[name], work, f"step-{name}-{number}", SCRIPT)
                steps[name].append(moment(output, "") - begin)
    finally:
        for cluster in clusters.values():
            cluster.stop()
    report, step = ({name: statistics.median(of[name]) for name in trees} for of in (reports, steps))
    how = (
        f"p50 of 20,000 reports {report['now']:.2f} us, before {report['before']:.2f} us; first step {step['now']:.3f} s, before "
        f"{step['before']:.3f} s; medians of {ROUNDS} alternating rounds"
    )
    return f"{report['now'] / report['before']:.2f} x, {step['now'] / step['before']:.2f} x", how


def followed(cluster, tree, folder, name, *entrypoint):
    """Returns (submission time, output) of a run with that tree's Python package."""
    spec = {
        "version": 1,
        "name": name,
        "entrypoint": [str(PYTHON), *map(str, entrypoint)],
        "env": {"PYTHONPATH": str(tree / "runtime" / "python")},
        "scaling": {"workers": 2},
    }
    file = folder / f"{name}.yaml"
    file.write_text(json.dumps(spec))
    begin = time.time()
    return begin, cluster.rtrain("submit", "--follow", file)
