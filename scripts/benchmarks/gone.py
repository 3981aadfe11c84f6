"""Measures the loss of a node with its run: the time from the cut of its network link to the first new step on another node,
compared with torchrun's start of as many workers. All nodes are warm. Needs root, since each node has a network namespace.
"""

import json
import os
import statistics
import time

from local_cluster import wait_for
from namespaces import NamespacedCluster, possible

from benchmarks.first_step import first_steps
from benchmarks.measures import JOBS, PYTHON

SCRIPT = JOBS / "recovers.py"
ROUNDS = int(os.environ.get("RTRAIN_BENCH_ROUNDS", "5"))
WORKERS, NODE_TIMEOUT = 2, 10


class WarmNetwork(NamespacedCluster):
    warm_flags = ("--warm",)

    def templates(self):
        logs = [self.folder / f"{name}.log" for name in self.daemons if name != "head"]
        return [log.read_text().count("a template of warm workers is ready") for log in logs]


def gone(work):
    """a node without a link to the first new step elsewhere: <= 3 s + 0.2 x torchrun's start with neighbours, <= --node-timeout (10 s) + the same without"""
    if not possible():
        raise SystemExit("bench gone: needs root and network namespaces")
    seen, starts = {}, []
    for nodes in (4, 2):
        cluster = WarmNetwork(work / f"gone-{nodes}", nodes=nodes, resources=f"CPU={WORKERS}")
        try:
            wait_for_templates(cluster, work / f"everywhere-{nodes}", nodes)
            seen[nodes] = [of_cut(cluster, work / f"gone-{nodes}-{number}", nodes) for number in range(ROUNDS)]
            starts += first_steps(cluster, work, PYTHON, WORKERS, 1, prefix=f"start-{nodes}")[1]
        finally:
            cluster.stop()
    near, far, start = statistics.median(seen[4]), statistics.median(seen[2]), statistics.median(starts)
    return (
        f"{near:.2f} s with neighbours (asked {3 + 0.2 * start:.2f}), {far:.2f} s without (asked {NODE_TIMEOUT + 0.2 * start:.2f})",
        f"medians of {ROUNDS} cuts each, longest {max(seen[4]):.2f} and {max(seen[2]):.2f} s; torchrun's start {start:.2f} s",
    )


def submit(cluster, folder, workers):
    folder.mkdir()
    spec = {
        "version": 1,
        "name": folder.name,
        "entrypoint": [str(PYTHON), str(SCRIPT), str(folder), "checkpoints"],
        "scaling": {"workers": workers},
        "failure": {"max_failures": 1},
    }
    file = folder.with_suffix(".yaml")
    file.write_text(json.dumps(spec))
    cluster.rtrain("submit", file)


def end(cluster, name):
    cluster.rtrain("stop", name, "--now")
    cluster.wait_state(name, "STOPPED")


def wait_for_templates(cluster, folder, nodes):
    submit(cluster, folder, WORKERS * nodes)
    wait_for("a template on each node", lambda: all(cluster.templates()) and len(cluster.templates()) == nodes)
    end(cluster, folder.name)


def of_cut(cluster, folder, nodes):
    submit(cluster, folder, WORKERS)
    wait_for("a checkpoint", lambda: cluster.json("checkpoints", "list", folder.name)["items"])
    node = cluster.json("describe", folder.name)["attempt_list"][-1]["workers"][0]["node"]
    cut = time.time()
    cluster.cut(node)
    ranks = range(WORKERS)
    wait_for("steps after the cut", lambda: all((folder / f"step-1-{rank}").exists() for rank in ranks), 120, 0.01)
    seconds = max(float((folder / f"step-1-{rank}").read_text().split()[0]) for rank in ranks) - cut
    cluster.mend(node)
    end(cluster, folder.name)
    wait_for("the node's return", lambda: cluster.ready_nodes() == nodes)
    return seconds
