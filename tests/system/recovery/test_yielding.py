"""Tests runs that yield: a child of a run fills the node, and ends for another user's run or with its owner. The head is
killed and started again in between.
"""

import json
import ssl
import urllib.error
import urllib.request

import pytest
from jobs_on_disk import write_job
from local_cluster import LocalCluster, wait_for

CPUS = 4
# Submits the job in its first argument as a child that yields, and stays until it is stopped.
OWNER = """
import json, os, signal, ssl, sys, urllib.request

body = json.dumps({"job": json.loads(sys.argv[1]), "key": "child", "yields": True}).encode()
request = urllib.request.Request(
    f"https://{os.environ['RTRAIN_ADDRESS']}/v1/runs", data=body, method="POST",
    headers={"Authorization": f"Bearer {os.environ['RTRAIN_TOKEN']}", "Content-Type": "application/json"})
with urllib.request.urlopen(request, context=ssl._create_unverified_context()) as answer:
    print(json.loads(answer.read())["yields"], flush=True)
signal.pause()
"""


@pytest.fixture
def cluster(tmp_path):
    made = LocalCluster(tmp_path / "cluster", nodes=1, resources=f"CPU={CPUS}")
    yield made
    made.stop()


def job(name, entrypoint, cpus):
    return {
        "version": 1,
        "name": name,
        "entrypoint": entrypoint,
        "scaling": {"workers": 1, "resources_per_worker": {"CPU": cpus}},
    }


def post(cluster, target, body):
    """Returns the head's answer to an admin's request, with any status."""
    token = cluster.json("token", "create", "--role", "admin", "--user", "root")["token"]
    request = urllib.request.Request(
        f"https://{cluster.head_address()}{target}",
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, context=ssl._create_unverified_context()) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        return json.loads(refused.read())


def start_owner_and_child(cluster, folder):
    child = json.dumps(job("child", ["sleep", "1000"], CPUS - 1))
    cluster.rtrain(
        "submit", write_job(folder, "owner", ["python", "-c", OWNER, child], scaling={"resources_per_worker": {"CPU": 1}})
    )
    wait_for("the child", lambda: cluster.run("describe", "child").returncode == 0)
    cluster.wait_state("child", "RUNNING")
    facts = cluster.json("describe", "child")
    assert facts["yields"] is True
    assert facts["labels"]["rtrain.parent"] == cluster.json("describe", "owner")["run_id"]


def restart_head(cluster):
    cluster.kill("head")
    cluster.restart("head")
    wait_for("the node", lambda: cluster.ready_nodes() == 1)


def test_a_child_yields_to_another_users_run(cluster, tmp_path):
    start_owner_and_child(cluster, tmp_path)
    restart_head(cluster)
    token = cluster.json("token", "create", "--role", "user", "--user", "bob")["token"]
    admin = cluster.env.copy()
    cluster.env["RTRAIN_TOKEN"] = token
    path = write_job(tmp_path, "other", ["sleep", "1000"], scaling={"resources_per_worker": {"CPU": 2}}, priority=0)
    cluster.rtrain("submit", path)
    cluster.env = admin
    cluster.wait_state("other", "RUNNING", seconds=60)
    facts = cluster.wait_state("child", "STOPPED", seconds=60) and cluster.json("describe", "child")
    assert facts["reason_kind"] == "yielded_to" and "ended for run other of bob" in facts["reason"]
    assert cluster.json("describe", "owner")["state"] == "RUNNING"


def test_a_child_ends_with_its_owner(cluster, tmp_path):
    start_owner_and_child(cluster, tmp_path)
    restart_head(cluster)
    cluster.rtrain("stop", "owner")
    cluster.wait_state("owner", "STOPPED")
    cluster.wait_state("child", "STOPPED")
    assert not any(run["state"] == "RUNNING" for run in cluster.json("runs")["items"])


def test_a_run_without_an_owner_may_not_yield(cluster, tmp_path):
    answer = post(cluster, "/v1/runs", {"job": job("alone", ["true"], 1), "yields": True})
    assert answer["problems"][0]["path"] == "yields" and "no owner" in answer["problems"][0]["message"]
    helper = post(cluster, "/v1/runs", {"job": job("pool", ["sleep", "1000"], 1), "yields": False, "session": "s"})
    assert helper["yields"] is False
    assert post(cluster, f"/v1/runs/{helper['run_id']}/yields", {"yields": True})["yields"] is True
    cluster.rtrain("submit", write_job(tmp_path, "plain", ["sleep", "1000"]))
    assert "not submitted with yields" in post(cluster, "/v1/runs/plain/yields", {"yields": True})["message"]
