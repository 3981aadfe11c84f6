"""Tests a head whose disk is full to the last byte. One user's data cannot fill the disk. If other programs fill it, the
head still starts and accepts changes that end or remove something.
"""

import json
import os
import ssl
import subprocess
import urllib.error
import urllib.request

import pytest
from jobs_on_disk import write_job
from local_cluster import RTRAIN, LocalCluster, wait_for
from small_disk import fill, small_disk

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small tmpfs needs root")
DISK = "64m"  # 8 MiB of it are closed to users' data, and the reserve file has 4 MiB
KEPT = 8 << 20


@pytest.fixture
def cluster(tmp_path):
    """Starts a head with its data on a small disk, and nodes with their data elsewhere."""
    with small_disk(tmp_path / "small", DISK) as small:
        cluster = LocalCluster(small / "cluster", nodes=0)
        cluster.small = small
        try:
            join(cluster, tmp_path, "node-1")
            yield cluster
        finally:
            cluster.stop()


def join(cluster, folder, name):
    place, cluster.folder = cluster.folder, folder
    cluster.join(name, "CPU=4")
    cluster.folder = place
    wait_for(
        f"{name} to be ready", lambda: any(n["node"] == name and n["state"] == "READY" for n in cluster.json("nodes")["items"])
    )


def free(cluster):
    disk = os.statvfs(cluster.small)
    return disk.f_bavail * disk.f_frsize


def token_of(cluster, user):
    return cluster.json("token", "create", "--role", "user", "--user", user)["token"]


def as_user(cluster, token, *arguments):
    env = {**cluster.env, "RTRAIN_TOKEN": token}
    return subprocess.run([RTRAIN, *map(str, arguments)], env=env, capture_output=True, text=True)


def put_value(cluster, token, run, key, size):
    """Stores a value; returns the response's status and text."""
    request = urllib.request.Request(
        f"https://{cluster.head_address()}/v1/runs/{run}/values/{key}",
        data=bytes(size),
        headers={"Authorization": f"Bearer {token}"},
        method="PUT",
    )
    try:
        with urllib.request.urlopen(request, context=ssl._create_unverified_context(), timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def long_job(folder, name):
    return write_job(folder, name, ["sleep", "1000"], storage_path=str(folder))


def test_values_and_reports_of_one_user_do_not_reach_the_reserve(cluster, tmp_path):
    ann, bob = token_of(cluster, "ann"), token_of(cluster, "bob")
    script = tmp_path / "floods.py"
    script.write_text(
        "import os\nfrom rtrain import train\n"
        "for step in range(300):\n    train.report({'step': step, 'noise': os.urandom(100_000).hex()})\n"
    )
    done = as_user(cluster, ann, "submit", write_job(tmp_path, "floods", ["python", str(script)], storage_path=str(tmp_path)))
    assert done.returncode == 0, done.stderr
    cluster.wait_state("floods", "SUCCEEDED", "FAILED")
    assert cluster.json("describe", "floods")["state"] == "SUCCEEDED"
    notes = [event["text"] for event in cluster.json("events", "--run", "floods")["items"] if "not all reports" in event["text"]]
    assert len(notes) == 1 and "user ann has" in notes[0] and "state database" in notes[0], notes
    for number in range(20):
        status, text = put_value(cluster, ann, "floods", f"v{number}", 4 << 20)
        if status != 200:
            break
    assert status == 507 and "user ann has" in text and "rtrain access quota ann" in text, text
    assert number > 0 and free(cluster) > KEPT
    assert as_user(cluster, bob, "submit", write_job(tmp_path, "bobs", ["true"], storage_path=str(tmp_path))).returncode == 0
    cluster.wait_state("bobs", "SUCCEEDED")
    assert put_value(cluster, bob, "bobs", "v", 1 << 20)[0] == 200
    assert as_user(cluster, ann, "runs", "rm", "floods", "--yes").returncode == 0
    wait_for(
        "ann to have room again", lambda: as_user(cluster, ann, "submit", long_job(tmp_path, "again"), "--new").returncode == 0
    )


def test_on_a_full_disk_what_ends_things_goes_through_and_the_head_starts(cluster, tmp_path):
    for name in ("first", "second"):
        cluster.rtrain("submit", long_job(tmp_path, name))
        cluster.wait_state(name, "RUNNING")
    data = cluster.folder / "head"
    wait_for("the reserve", lambda: (data / "reserve").exists())
    way = cluster.small / "in-the-way"
    with open(way, "wb", buffering=0) as file:
        fill(file)
    assert free(cluster) == 0
    refused = wait_for("a submit to be refused", lambda: refusal(cluster.run("submit", long_job(tmp_path, "late"), "--new")))
    assert "nearly full" in refused.stderr and "make room" in refused.stderr, refused.stderr

    def changes(round, run, node):
        cluster.rtrain("stop", run)
        cluster.wait_state(run, "STOPPED")
        cluster.rtrain("runs", "rm", run, "--yes")
        assert run not in {known["name"] for known in cluster.json("runs", "--all")["items"]}
        for number in range(20):
            user = token_of(cluster, f"user-{round}-{number}")
        assert as_user(cluster, user, "status").returncode == 0
        made = cluster.json("token", "create", "--data", data, "--user", f"admin-{round}")
        assert made["opens"], made
        cluster.rtrain("token", "revoke", made["id"], "--yes")
        join(cluster, tmp_path, node)
        cluster.rtrain("node", "drain", node)
        cluster.rtrain("node", "leave", node, "--yes")

    with open(way, "ab", buffering=0) as file:  # another program takes the space that the head frees
        changes("before", "first", "node-2")
        fill(file)
        cluster.kill("head")
        fill(file)
        cluster.restart("head")
        wait_for("node-1 to be back", lambda: cluster.ready_nodes() == 1)
        changes("after", "second", "node-3")
    assert cluster.run("submit", long_job(tmp_path, "late"), "--new").returncode != 0
    way.unlink()
    wait_for("a submit to be taken", lambda: cluster.run("submit", long_job(tmp_path, "late"), "--new").returncode == 0)
    wait_for("the reserve to be whole", lambda: (data / "reserve").stat().st_size == 4 << 20)
    cluster.wait_state("late", "RUNNING")
    cluster.rtrain("stop", "late")
    audited = json.dumps(cluster.json("audit"))
    assert "user-before-19" in audited and "user-after-19" in audited
    cluster.rtrain("audit", "verify")


def refusal(done):
    return done if done.returncode != 0 else None
