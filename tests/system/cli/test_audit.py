"""Tests `rtrain audit` and `audit verify`, against the head and its data directory, and doctor's check of expiring tokens."""

import re
import shlex
import sqlite3

import pytest
from jobs_on_disk import write_job
from local_cluster import LocalCluster, program_in, wait_for

DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    place = tmp_path_factory.mktemp("audit") / "odd plätze"  # the program's path has spaces, as jobs use it in shell commands
    made = LocalCluster(place / "a cluster", nodes=1, resources="CPU=4", program=program_in(place / "a program"))
    yield made
    made.stop()


def logged_ends(cluster):
    return re.findall(r"the audit ends at (\d+:[0-9a-f]{64})", (cluster.folder / "head.log").read_text())


def change(data, statement):
    with sqlite3.connect(data / "state.db") as state:
        assert state.execute(statement).rowcount > 0


def test_doctor_warns_of_a_token_that_expires_within_two_weeks(cluster):
    soon = cluster.json("token", "create", "--role", "user", "--user", "ann", "--expires", "13d")["id"]
    later = cluster.json("token", "create", "--role", "user", "--user", "ann", "--expires", "15d")["id"]
    printed = cluster.run("doctor").stdout
    assert soon in printed and later not in printed


def test_a_run_that_is_stopped_with_the_one_that_submitted_it_has_a_row(cluster, tmp_path):
    child = write_job(tmp_path, "child", "sleep 600")
    cluster.json("submit", write_job(tmp_path, "parent", f"{shlex.quote(str(cluster.program))} submit {child}; sleep 600"))
    wait_for("the child", lambda: cluster.run("describe", "child").returncode == 0, seconds=60)
    cluster.wait_state("child", "RUNNING")
    cluster.rtrain("stop", "parent")
    for name in ("parent", "child"):
        cluster.wait_state(name, "STOPPED")
        run = cluster.json("describe", name)["run_id"]
        rows = [row for row in cluster.json("audit")["items"] if row["run"] == run and "/stop" in row["action"]]
        assert len(rows) == 1, rows


def test_a_checkpoint_that_is_asked_for_again_and_a_stop_said_again_leave_one_row(cluster, tmp_path):
    run = cluster.json("submit", write_job(tmp_path, "asked", "trap '' TERM; sleep 600"))["run_id"]
    cluster.wait_state("asked", "RUNNING")
    for _ in range(5):
        cluster.rtrain("checkpoints", "ask", "asked")
    for _ in range(3):
        cluster.rtrain("stop", "asked")
    rows = [row["action"] for row in cluster.json("audit")["items"] if row["run"] == run]
    assert rows.count("POST /v1/runs/{run}/checkpoint") == 1
    assert rows.count("POST /v1/runs/{run}/stop") == 1
    cluster.rtrain("stop", "asked", "--now")


def test_the_audit_tells_who_changed_what_and_shows_a_changed_row_and_a_cut_end(cluster, tmp_path):
    made = cluster.json("submit", write_job(tmp_path, "seen", "true"))
    cluster.wait_state("seen", "SUCCEEDED")
    rows = cluster.json("audit", "--run", "seen")["items"]
    assert [(row["action"], row["run"], row["role"]) for row in rows] == [("POST /v1/runs", made["run_id"], "admin")]
    assert cluster.json("audit", "--user", "nobody-of-that-name")["items"] == []
    sound = cluster.json("audit", "verify")
    assert sound["sound"] and sound["rows"] == len(cluster.json("audit")["items"])

    data = cluster.folder / "head"
    cluster.kill("head")
    cluster.restart("head")
    wait_for("the end in the head's log", lambda: sound["head"] in logged_ends(cluster), seconds=30)
    assert cluster.run("audit", "verify", "--head", sound["head"]).returncode == 0
    cluster.kill("head")
    assert cluster.run("audit", "verify", "--data", data, "--head", sound["head"]).returncode == 0
    change(data, f"DELETE FROM audit WHERE seq = {sound['rows']}")
    assert cluster.run("audit", "verify", "--data", data).returncode == 0
    cut = cluster.run("audit", "verify", "--data", data, "--head", sound["head"])
    assert cut.returncode != 0 and "its end was cut off" in cut.stderr
    change(data, "UPDATE audit SET user = 'mallory' WHERE seq = 2")
    changed = cluster.run("audit", "verify", "--data", data)
    assert changed.returncode != 0 and "row 2" in changed.stderr, changed.stderr
