"""Measures the steps of a run while its agent or the head is away, compared with the steps before."""

import json
import time

from local_cluster import LocalCluster, wait_for

from benchmarks.measures import JOBS, PYTHON

SCRIPT = JOBS / "keeps_on.py"
AROUND = 60  # seconds


def away(work):
    """an agent that is away for 8 s, a head for 60 s, one node: step rate over the 60 s around it >= 99 %"""
    rates = []
    for name, seconds in (("node-1", 8), ("head", 60)):
        cluster = LocalCluster(work / f"away-{name}", nodes=1, resources="CPU=2")
        try:
            rates.append(rate_while_away(cluster, work, name, seconds))
        finally:
            cluster.stop()
    (agent, stood), (head, head_stood) = rates
    return (
        f"agent {100 * agent:.1f} %, head {100 * head:.1f} %",
        f"longest step {stood:.2f} s, {head_stood:.2f} s; 2 workers, a report each 20 ms, a checkpoint each 0.5 s",
    )


def rate_while_away(cluster, work, name, seconds):
    """Returns (rate in the AROUND seconds around the absence / rate before, longest step in that time)."""
    steps = work / f"steps-{name}"
    entry = [str(PYTHON), str(SCRIPT), str(steps)]
    spec = {"version": 1, "name": "keeps-on", "entrypoint": entry, "scaling": {"workers": 2}, "checkpoint": {"num_to_keep": 2}}
    file = work / f"keeps-on-{name}.yaml"
    file.write_text(json.dumps(spec))
    cluster.rtrain("submit", file)
    wait_for("checkpoints", lambda: len(moments(steps)) > 100)
    begin = time.time()
    wait_for("the rate before", lambda: time.time() - begin > AROUND / 2, AROUND)
    left = time.time()
    cluster.kill(name)
    wait_for("the absence", lambda: time.time() - left > seconds, AROUND * 2)
    cluster.restart(name)
    wait_for("the time around", lambda: time.time() - left > max(AROUND, seconds), AROUND * 2)
    times = moments(steps)
    before = [moment for moment in times if begin <= moment < left]
    around = [moment for moment in times if left <= moment < left + AROUND]
    gaps = [late - early for early, late in zip([left, *around], around, strict=False)]
    return len(around) / AROUND / (len(before) / (left - begin)), max(gaps)


def moments(steps):
    file = steps.with_name(steps.name + "-0")
    return [float(line) for line in file.read_text().splitlines()] if file.exists() else []
