"""Tests commands of operators at a running cluster: changes of queues, usage reports, several agents on one machine."""

import csv
import io
import json
import subprocess
import time

import pytest
from jobs_on_disk import write_job
from local_cluster import RTRAIN, LocalCluster, alive, wait_for


@pytest.fixture
def cluster(tmp_path):
    made = LocalCluster(tmp_path / "c", nodes=1, resources="CPU=4")
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def gpu_cluster(tmp_path):
    made = LocalCluster(tmp_path / "c", nodes=0)
    try:
        token = made.json("token", "create", "--role", "node")["token"]
        made.start("node-1", "node", "join", made.head_address(), "--token", token, "--name", "node-1", "--data",
                   tmp_path / "n", "--peer-port", 0, "--resources", "CPU=4", "--fake-gpus", "2xA100",
                   "--allow-root-workers")  # fmt: skip
        wait_for("the node", lambda: made.ready_nodes() == 1)
        yield made
    finally:
        made.stop()


def queues(cluster):
    return {queue["name"]: queue for queue in cluster.json("queue", "list")["items"]}


def run_as(cluster, token, *arguments):
    return subprocess.run(
        [RTRAIN, *map(str, arguments)], env={**cluster.env, "RTRAIN_TOKEN": token}, capture_output=True, text=True, timeout=60
    )


def test_a_queue_is_made_changed_and_removed_while_runs_work(cluster, tmp_path):
    made = cluster.json("queue", "set", "small", "--quota", "CPU=1", "--share", "3", "--preempt", "yes")
    assert [queue["name"] for queue in made["items"]] == ["default", "small"]
    assert queues(cluster)["small"]["quota"] == {"CPU": "1"} and queues(cluster)["small"]["share"] == 3
    for name in ("first", "second"):
        cluster.rtrain("submit", write_job(tmp_path, name, ["sleep", "600"], queue="small"))
    cluster.wait_state("first", "RUNNING")
    assert "holds 1 of its quota of 1" in cluster.rtrain("explain", "second")
    cluster.rtrain("queue", "set", "small", "--quota", "CPU=2")
    cluster.wait_state("second", "RUNNING")
    assert queues(cluster)["small"] | {"share": 3, "preempt": True} == queues(cluster)["small"]  # other fields are unchanged
    held = cluster.run("queue", "remove", "small")
    assert held.returncode == 7 and "which the new configuration does not have" in held.stderr
    for name in ("first", "second"):
        cluster.rtrain("stop", name, "--now", "--yes")
        cluster.wait_state(name, "STOPPED")
    cluster.rtrain("queue", "set", "small", "--quota", "CPU=none")
    assert queues(cluster)["small"]["quota"] == {}
    cluster.rtrain("queue", "remove", "small")
    assert list(queues(cluster)) == ["default"]
    assert cluster.run("queue", "remove", "small").returncode == 3
    audit = cluster.rtrain("audit")
    assert "PUT /v1/queues/small" in audit or "/v1/queues/small" in audit


def test_a_limit_for_one_user_keeps_runs_waiting_until_it_is_lifted(cluster, tmp_path):
    cluster.rtrain("queue", "set", "lab", "--user-runs", "1", "--user-gpus", "0.5")
    assert (queues(cluster)["lab"]["user_runs"], queues(cluster)["lab"]["user_gpus"]) == (1, "0.5")
    cluster.rtrain("queue", "set", "lab", "--share", "2")
    assert queues(cluster)["lab"]["user_runs"] == 1  # other fields are unchanged
    for name in ("mine", "waits"):
        cluster.rtrain("submit", write_job(tmp_path, name, ["sleep", "600"], queue="lab"))
    cluster.wait_state("mine", "RUNNING")
    explained = cluster.rtrain("explain", "waits")
    assert 'queue "lab" allows one user 1 live runs at once' in explained, explained
    assert cluster.json("describe", "waits")["reason_kind"] == "queue_user_limit"
    for words in (("--user-runs", "0"), ("--user-runs", "1.5"), ("--user-gpus", "-1")):
        assert cluster.run("queue", "set", "lab", *words).returncode == 4, words
    assert cluster.run("queue", "set", "lab", "--user-runs", "many").returncode == 2
    cluster.rtrain("queue", "set", "lab", "--user-runs", "none", "--user-gpus", "none")
    cluster.wait_state("waits", "RUNNING")
    assert (queues(cluster)["lab"]["user_runs"], queues(cluster)["lab"]["user_gpus"]) == (None, None)
    for name in ("mine", "waits"):
        cluster.rtrain("stop", name, "--now", "--yes")
        cluster.wait_state(name, "STOPPED")
    cluster.rtrain("queue", "remove", "lab")


def test_a_budget_of_gpu_hours_keeps_runs_waiting_over_a_restart_until_it_is_raised(gpu_cluster, tmp_path):
    cluster, scaling = gpu_cluster, {"resources_per_worker": {"GPU": 1, "CPU": 1}}
    cluster.rtrain("queue", "set", "lab", "--gpu-hours", "100", "--user-gpu-hours", "0.0005", "--budget-window", "7d")
    cluster.rtrain("submit", write_job(tmp_path, "first", ["sleep", "600"], queue="lab", scaling=scaling))
    cluster.wait_state("first", "RUNNING")
    wait_for("the budget to be used up", lambda: any(one["used_up"] for one in queues(cluster)["lab"]["budgets"]))
    cluster.rtrain("submit", write_job(tmp_path, "second", ["sleep", "600"], queue="lab", scaling=scaling))
    wait_for("the reason", lambda: cluster.json("describe", "second")["reason_kind"] == "budget_used")
    assert cluster.json("describe", "first")["state"] == "RUNNING"
    explained = cluster.rtrain("explain", "second")
    assert 'queue "lab" gives its user 0.0005 GPU hours within 7 days, and the user has used them' in explained, explained
    assert "of 100 GPU hours within 7 days" in explained, explained
    assert "GPU HOURS" in cluster.rtrain("queue", "list")
    viewer = cluster.json("token", "create", "--role", "viewer", "--user", "eve")["token"]
    assert 'rtrain_budget_gpu_hours{queue="lab",user=""} 100' in cluster.fetched("/metrics", viewer)
    assert 'rtrain_budget_used_gpu_hours{queue="lab",user=""} 0.0' in cluster.fetched("/metrics", viewer)
    used = {one["user"]: one["used"] for one in queues(cluster)["lab"]["budgets"]}
    cluster.kill("head")
    cluster.restart("head")
    again = {one["user"]: one["used"] for one in queues(cluster)["lab"]["budgets"]}
    assert set(again) == set(used) and all(again[user] >= used[user] > 0 for user in used), (used, again)
    assert cluster.json("describe", "second")["reason_kind"] == "budget_used"
    owner = cluster.json("describe", "second")["user"]
    for words in (("--gpu-hours", "-1"), ("--budget-window", "5m"), ("--gpu-hours-of", "ana=lots")):
        assert cluster.run("queue", "set", "lab", *words).returncode == 4, words
    assert cluster.run("queue", "set", "lab", "--gpu-hours-of", "ana").returncode == 2
    cluster.rtrain("queue", "set", "lab", "--gpu-hours-of", f"{owner}=5")
    cluster.wait_state("second", "RUNNING")
    assert queues(cluster)["lab"]["user_gpu_hours_of"] == {owner: "5"}
    report = cluster.json("report", "--by", "user")["items"]
    assert [budget["gpu_hours"] for row in report if row["user"] == owner for budget in row["budgets"]] == [5]
    for name in ("first", "second"):
        cluster.rtrain("stop", name, "--now", "--yes")
        cluster.wait_state(name, "STOPPED")
    cluster.rtrain("queue", "remove", "lab")


def test_wrong_rules_of_a_queue_change_nothing_and_say_what_is_wrong(cluster):
    cluster.rtrain("queue", "set", "top", "--quota", "GPU=8")
    before = queues(cluster)
    for words, sentence in [
        (("low", "--parent", "absent"), "there is no queue"),
        (("top", "--parent", "top"), "circle"),
        (("low", "--parent", "top", "--quota", "GPU=9"), "has 8"),
        (("low", "--share", "0"), "1 to 1000000"),
        (("low", "--quota", "GPU=lots"), "GPU"),
        (("no name",), "is no name"),
    ]:
        refused = cluster.run("queue", "set", *words)
        assert refused.returncode == 4 and sentence in refused.stdout + refused.stderr, (words, refused.stdout + refused.stderr)
    assert cluster.run("queue", "set", "low", "--quota", "GPU").returncode == 2
    assert queues(cluster) == before
    user = cluster.json("token", "create", "--role", "user", "--user", "ana")["token"]
    assert run_as(cluster, user, "queue", "set", "low").returncode == 6
    assert run_as(cluster, user, "queue", "list").returncode == 0


def test_queues_of_a_file_are_applied_and_what_was_set_later_outlives_a_restart(cluster, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text("version: 1\nqueues:\n  lab:\n    quota: {CPU: 2}\n")
    assert "sound" in cluster.rtrain("queue", "apply", file, "--dry-run") and "lab" not in queues(cluster)
    cluster.rtrain("queue", "apply", file)
    assert queues(cluster)["lab"]["quota"] == {"CPU": "2"}
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("version: 1\nqueues:\n  lab:\n    quta: {CPU: 2}\n")
    refused = cluster.run("queue", "apply", wrong)
    assert refused.returncode == 4 and "4:" in refused.stderr, refused.stderr

    def restart():
        cluster.daemons["head"].terminate()
        cluster.daemons.pop("head").wait(20)
        cluster.start("head", "head", "start", "--port", cluster.port, "--data", cluster.folder / "head", "--queues", file)
        wait_for("the head", cluster.healthy)

    restart()
    cluster.rtrain("queue", "set", "lab", "--quota", "CPU=3")
    restart()
    assert queues(cluster)["lab"]["quota"] == {"CPU": "3"}  # the file is unchanged since its last import
    file.write_text("version: 1\nqueues:\n  lab:\n    quota: {CPU: 4}\n")
    restart()
    assert queues(cluster)["lab"]["quota"] == {"CPU": "4"}


def test_a_report_adds_up_the_hours_of_a_month(cluster, tmp_path):
    cluster.rtrain("queue", "set", "lab")
    cluster.rtrain("submit", write_job(tmp_path, "one", ["sleep", "2"], workers=2))
    cluster.rtrain("submit", write_job(tmp_path, "two", ["sleep", "1"], queue="lab"))
    for name in ("one", "two"):
        cluster.wait_state(name, "SUCCEEDED")
    month = time.strftime("%Y-%m", time.gmtime())
    by_run = {row["name"]: row for row in cluster.json("report", "--month", month, "--by", "run")["items"]}
    assert set(by_run) == {"one", "two"}
    assert 2 * 2 / 3600 <= by_run["one"]["cpu_hours"] < 2 * 30 / 3600 and by_run["one"]["gpu_hours"] == 0
    assert 0 < by_run["one"]["efficiency"] <= 1
    (by_user,) = cluster.json("report", "--month", month)["items"]
    assert by_user["runs"] == 2
    assert by_user["cpu_hours"] == pytest.approx(sum(row["cpu_hours"] for row in by_run.values()))
    by_queue = {row["queue"]: row["runs"] for row in cluster.json("report", "--by", "queue")["items"]}
    assert by_queue == {"default": 1, "lab": 1}
    rows = list(csv.DictReader(io.StringIO(cluster.rtrain("report", "--by", "run", "--csv"))))
    assert {row["name"]: float(row["cpu_hours"]) for row in rows} == {
        name: pytest.approx(row["cpu_hours"], abs=1e-4) for name, row in by_run.items()
    }
    assert "EFFICIENCY" in cluster.rtrain("report")
    empty = cluster.json("report", "--month", "2001-12")
    assert empty["items"] == []
    for wrong in ("2001-13", "2001", "march"):
        assert cluster.run("report", "--month", wrong).returncode == 2


def test_a_stopped_agent_leaves_its_workers_which_the_next_one_adopts(cluster, tmp_path):
    cluster.rtrain("submit", write_job(tmp_path, "busy", ["sleep", "600"]))
    cluster.wait_state("busy", "RUNNING")
    pid = json.loads(cluster.rtrain("describe", "busy", "-o", "json"))["attempt_list"][-1]["workers"][0]["pid"]
    data = cluster.folder / "node-1"
    agent = cluster.daemons.pop("node-1")
    stopped = cluster.run("node", "stop", "--data", data)
    agent.wait(20)
    assert stopped.returncode == 0 and "workers go on" in stopped.stdout, stopped.stderr
    assert alive(pid)
    again = cluster.run("node", "stop", "--data", data)
    assert again.returncode == 3 and str(data) in again.stderr
    cluster.restart("node-1")
    wait_for("the node", lambda: cluster.ready_nodes() == 1)
    assert alive(pid) and cluster.json("describe", "busy")["state"] == "RUNNING"
