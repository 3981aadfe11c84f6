"""Tests that a run whose reported checkpoints never reached the storage says so in every view of its end."""

import os

import pytest
from jobs_on_disk import ranks_job
from local_cluster import LocalCluster, wait_for
from small_disk import room_for, small_disk

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


@pytest.fixture
def cluster(tmp_path):
    made = LocalCluster(tmp_path / "cluster", nodes=1, resources="CPU=2")
    yield made
    made.stop()


def test_a_run_that_is_stopped_while_its_disk_is_full_says_what_it_lost(cluster, tmp_path):
    with small_disk(tmp_path / "disk", "16m") as disk:
        cluster.rtrain("submit", ranks_job(tmp_path, "loses", 4, 2.0, storage_path=str(disk)))
        wait_for("the first checkpoint", lambda: cluster.json("describe", "loses")["checkpoints"] == 1)
        with room_for(disk, 0):
            wait_for("the last report", lambda: cluster.json("describe", "loses")["last_report"]["index"] == 4)
            wait_for(
                "the end of its rank",
                lambda: cluster.json("describe", "loses")["attempt_list"][-1]["workers"][0]["exit_code"] == 0,
            )
            waited = cluster.run("stop", "loses", "--now", "--wait", "--yes")
        run = cluster.json("describe", "loses")
        assert run["state"] == "SUCCEEDED" and run["checkpoints"] == 1 and run["checkpoints_lost"] == 3, run
        assert "3 checkpoints never reached the storage" in run["reason"], run["reason"]
        assert waited.returncode == 0, waited
        warning = [line for line in waited.stderr.splitlines() if line.startswith("warning: ")]
        assert warning and "3 checkpoints never reached the storage" in warning[0] and "no space left" in warning[0], (
            waited.stderr
        )
        shown = cluster.rtrain("describe", "loses")
        assert "never reached the storage" in shown and "warning" in shown, shown
        text = cluster.fetched("/metrics", cluster.json("token", "create", "--user", "eve", "--role", "viewer")["token"])
        lost = [
            line
            for line in text.splitlines()
            if line.startswith("rtrain_checkpoint_failures_total") and "checkpoint_given_up" in line
        ]
        assert lost, "no metric for the alert"
