#!/usr/bin/env python3
"""Makes a state database in which runs wait, train and have ended for every reason that is easily reached.

usage: RTRAIN_BINARY=... tests/data/make_state.py FILE

Run the script with the last build before a change of the saved format, and with the build of a release. Keep the file as
tests/data/state-<version>.db: tests/unit/state/earlier.cpp opens it with every later build.
"""

import json
import os
import pathlib
import sqlite3
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
os.environ["PYTHONPATH"] = str(ROOT / "runtime" / "python")
from local_cluster import LocalCluster, wait_for  # noqa: E402

QUEUES = {
    "version": 1,
    "preemption_grace": "5s",
    "queues": {
        "default": {},
        "small": {"quota": {"CPU": 1}},
        "team": {"quota": {"CPU": 2}},
        "ours": {"parent": "team", "quota": {"CPU": 1}},
        "theirs": {"parent": "team", "quota": {"CPU": 1}},
        "urgent": {"preempt": True},
    },
}
os.environ["ELASTIC"] = f"{sys.executable} {ROOT}/tests/system/jobs/elastic.py"  # so that the file holds no path of this machine


class Cluster(LocalCluster):
    def start_head(self):
        queues = self.folder / "queues.yaml"
        queues.write_text(json.dumps(QUEUES))
        self.start(
            "head",
            "head",
            "start",
            "--port",
            self.port,
            "--data",
            self.folder / "head",
            "--queues",
            queues,
            "--node-timeout",
            "3s",
        )

    def submit(self, name, entrypoint="sleep 600", *arguments, **fields):
        job = {"version": 1, "name": name, "entrypoint": entrypoint, **fields}
        file = self.folder / f"{name}.yaml"
        file.write_text(json.dumps(job))
        self.rtrain("submit", file, *arguments)


def on(node, **more):
    return {"scaling": {"workers": 1, "nodes": [node], **more}}


def ended_runs(cluster):
    cluster.submit("succeeds", "true")
    cluster.submit("fails", "echo no such layer >&2; exit 3")
    cluster.submit("fails-fast", "exit 4", failure={"max_failures": 5, "fail_fast": True})
    cluster.submit("fails-twice", "kill -9 $$", failure={"max_failures": 1})
    cluster.submit("too-long", limits={"wall_time": "1s"})
    cluster.submit("no-storage", storage_path="/proc/nowhere")
    cluster.submit("stop-metric", "$ELASTIC 400 0.05 4", stop={"step": 9}, checkpoint={"num_to_keep": 2})
    cluster.submit("stopped")
    cluster.wait_state("stopped", "RUNNING")
    cluster.submit("after-stopped", "true", "--after", "stopped")
    cluster.rtrain("stop", "stopped")
    for name in ("succeeds", "stop-metric"):
        cluster.wait_state(name, "SUCCEEDED")
    for name in ("fails", "fails-fast", "fails-twice", "too-long", "no-storage"):
        cluster.wait_state(name, "FAILED")
    for name in ("stopped", "after-stopped"):
        cluster.wait_state(name, "STOPPED")


def running_runs(cluster):
    cluster.submit("holder", **on("node-1"))
    cluster.submit("lost", failure={"max_failures": 3, "backoff": "1h"}, **on("node-3"))
    cluster.submit("asked", "$ELASTIC 4000 0.5 100000", **on("node-2"))
    cluster.submit("low", priority=10, queue="urgent", **on("node-4"))
    cluster.submit("small-1", queue="small")
    cluster.submit("ours-1", queue="ours")
    for name in ("holder", "lost", "asked", "low", "small-1", "ours-1"):
        cluster.wait_state(name, "RUNNING")
    cluster.submit("high", priority=90, queue="urgent", **on("node-4", resources_per_worker={"CPU": 16}))
    cluster.wait_state("high", "RUNNING")
    cluster.rtrain("node", "drain", "node-2", "--reason", "kernel update")
    cluster.kill("node-3")
    wait_for("the loss of node-3", lambda: cluster.json("describe", "node-3")["state"] == "LOST")
    cluster.wait_state("lost", "RECOVERING")


def waiting_runs(cluster):
    cluster.submit("no-room", priority=20, **on("node-4", resources_per_worker={"CPU": 16}))
    cluster.submit("never", scaling={"workers": 1, "resources_per_worker": {"CPU": 99}})
    cluster.submit("small-2", queue="small")
    cluster.submit("theirs-1", queue="theirs", scaling={"workers": 2})
    cluster.submit("after-holder", "true", "--after", "holder:ended")
    cluster.submit("grid", "sleep 600", "--array", "1-2%1")
    cluster.submit("late", limits={"queue_time": "1s"}, **on("node-4", resources_per_worker={"CPU": 16}))
    cluster.wait_state("late", "FAILED")


def main(into):
    with tempfile.TemporaryDirectory(prefix="rtrain-old-") as folder:
        cluster = Cluster(pathlib.Path(folder) / "cluster", nodes=4, resources="CPU=16", pass_env="PYTHONPATH,ELASTIC")
        try:
            ended_runs(cluster)
            running_runs(cluster)
            waiting_runs(cluster)
            runs = {run["name"]: (run["state"], run["reason"]) for run in cluster.json("runs", "--all")["items"]}
            print(json.dumps(runs, indent=1))
        finally:
            cluster.stop()
        with sqlite3.connect(pathlib.Path(folder) / "cluster" / "head" / "state.db") as state:
            state.execute("PRAGMA journal_mode=DELETE")
            state.execute("DELETE FROM tokens")
            state.execute("DELETE FROM settings WHERE key='head.run_token_key'")
            state.commit()
            state.execute("PRAGMA page_size=1024")
            state.execute("VACUUM")
            state.execute("VACUUM INTO ?", (str(into),))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
