"""Tests an upgrade of a cluster with a running job, and the way back. RTRAIN_EARLIER is the program of release 0.1.0;
scripts/nightly builds it.
"""

import os
import pathlib

import pytest
from jobs_on_disk import write_job
from local_cluster import RTRAIN, EarlierCluster, alive, wait_for

EARLIER = os.environ.get("RTRAIN_EARLIER", "")


@pytest.mark.skipif(not EARLIER, reason="RTRAIN_EARLIER names no program of an earlier release")
def test_head_then_agents_are_upgraded_while_a_worker_trains(tmp_path):
    cluster = EarlierCluster(tmp_path / "c", nodes=2, resources="CPU=2", program=pathlib.Path(EARLIER))

    def restart(name, program):
        cluster.daemons[name].terminate()
        cluster.daemons.pop(name).wait(30)
        cluster.program = program
        cluster.restart(name)
        wait_for("two nodes", lambda: cluster.ready_nodes() == 2, seconds=60)

    def works(name):
        cluster.rtrain("submit", write_job(tmp_path, name, ["true"], workers=2, scaling={"placement": "SPREAD"}))
        cluster.wait_state(name, "SUCCEEDED")

    try:
        cluster.rtrain("submit", write_job(tmp_path, "training", ["sleep", "600"]))
        cluster.wait_state("training", "RUNNING")
        pid = cluster.json("describe", "training")["attempt_list"][-1]["workers"][0]["pid"]
        for step, name in enumerate(["head", "node-1", "node-2"]):
            restart(name, RTRAIN)  # upgrades the head first, then each agent
            works(f"after-{step}")
        restart("node-1", pathlib.Path(EARLIER))  # downgrades an agent
        works("back")
        run = cluster.json("describe", "training")
        assert alive(pid) and run["state"] == "RUNNING" and run["attempts"] == 1, run
    finally:
        cluster.stop()
