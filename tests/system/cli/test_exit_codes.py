"""Tests each exit code of docs/cli.md by a real command, and that the JSON error has the same code."""

import json
import pathlib
import signal
import subprocess

import pytest
from jobs_on_disk import write_job
from local_cluster import RTRAIN, LocalCluster, free_port, wait_for

DEAF = "trap '' TERM; while :; do read -t 0.2 x <> <(:); done"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("exits")


@pytest.fixture(scope="module")
def cluster(folder):
    made = LocalCluster(folder / "cluster", nodes=1, resources="CPU=3")
    for name, script in (("taken", "sleep 1000"), ("deaf", DEAF)):
        made.rtrain("submit", write_job(folder, name, ["bash", "-c", script]))
        made.wait_state(name, "RUNNING")
    yield made
    made.stop()


def wrong_spec(folder):
    path = folder / "wrong.yaml"
    path.write_text("version: 1\nentrypoint: true\nworkers: NO\n")
    return path


def damaged(folder):
    data = folder / "damaged"
    data.mkdir(exist_ok=True)
    (data / "state.db").write_text("no database\n" * 1000)
    return data


CASES = {
    0: lambda folder: ["version"],
    1: lambda folder: ["submit", write_job(folder, "fails", ["false"]), "-f", "--new"],
    2: lambda folder: ["runs", "--nope"],
    3: lambda folder: ["describe", "nobody"],
    4: lambda folder: ["validate", wrong_spec(folder)],
    5: lambda folder: ["runs", "--address", f"127.0.0.1:{free_port()}"],
    6: lambda folder: ["runs", "--token", "rtu1.nobody.nothing"],
    7: lambda folder: ["submit", write_job(folder, "taken", ["true"])],
    8: lambda folder: ["stop", "deaf", "--wait", "--timeout", "100ms"],
    9: lambda folder: ["submit", write_job(folder, "never", ["true"], 50, scaling={"wait_for_nodes": False})],
    10: lambda folder: ["head", "backup", folder / "absent" / "state.backup", "--state-only"],
    11: lambda folder: ["head", "verify", "--data", damaged(folder)],
}


@pytest.mark.parametrize("code", CASES)
def test_a_command_ends_with(cluster, folder, code):
    words = CASES[code](folder)
    for_people = cluster.run(*words)
    assert for_people.returncode == code, for_people.stderr
    if code > 1:
        assert "error: " in for_people.stderr and "next: " in for_people.stderr, for_people.stderr
    for_programs = cluster.run(*CASES[code](folder), "-o", "json")
    assert for_programs.returncode == code
    if code > 1:
        error = json.loads(for_programs.stdout)["error"]
        assert error["exit_code"] == code and error["message"] and error["next"], error


FOLLOWING = ["events -f", "logs taken -f", "metrics taken -w", "nodes -w", "runs -w", "queue -w", "status -w"]


@pytest.mark.parametrize("words", FOLLOWING)
def test_ctrl_c_ends_what_follows_with_130(cluster, words):
    command = [RTRAIN, *words.split(), "-o", "jsonl"]
    started = subprocess.Popen(command, env=cluster.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for("it to listen to Ctrl-C", lambda: waits_for(started.pid, signal.SIGINT), 20)
    started.send_signal(signal.SIGINT)
    out, _ = started.communicate(timeout=20)
    assert started.returncode == 130
    for line in out.splitlines():
        assert json.loads(line)["schema_version"] == 1


def waits_for(pid, signal_number):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    blocked = next(line.split()[1] for line in status.splitlines() if line.startswith("SigBlk:"))
    return int(blocked, 16) >> (signal_number - 1) & 1  # a blocked signal is read by a separate thread
