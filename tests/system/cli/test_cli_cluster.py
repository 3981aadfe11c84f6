"""Tests the verbs about the cluster: up, down, head, node, token, doctor."""

import json
import os
import re
import shlex
import socket
import subprocess
import tempfile

import pytest
from local_cluster import RTRAIN, LocalCluster, environment, free_port, wait_for


def run_in(env, *arguments, **more):
    return subprocess.run([RTRAIN, *map(str, arguments)], env=env, capture_output=True, text=True, **more)


@pytest.fixture
def home(tmp_path):
    return {**environment(tmp_path / "config.yaml"), "XDG_DATA_HOME": str(tmp_path / "data")}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = LocalCluster(tmp_path_factory.mktemp("cluster") / "c", nodes=1, resources="CPU=2")
    yield made
    made.stop()


def test_up_makes_a_cluster_that_runs_jobs_and_down_ends_it(home, tmp_path):
    up = run_in(home, "up", "--nodes", "2", "--port", "0", "--resources", "CPU=1", "-o", "json")
    try:
        assert up.returncode == 0, up.stderr
        document = json.loads(up.stdout)
        assert [node["node"] for node in document["nodes"]] == ["node-1", "node-2"]
        assert run_in(home, "up").returncode == 7
        assert {node["state"] for node in json.loads(run_in(home, "nodes", "-o", "json").stdout)["items"]} == {"READY"}
        (tmp_path / "job.yaml").write_text("version: 1\nname: quick\nentrypoint: echo up and running\n")
        done = run_in(home, "submit", tmp_path / "job.yaml", "-f")
        assert (done.returncode, done.stdout) == (0, "up and running\n"), done.stderr
        assert len(json.loads(run_in(home, "down", "--dry-run", "-o", "json").stdout)["items"]) == 3
    finally:
        down = run_in(home, "down", "-o", "json")
    assert down.returncode == 0, down.stderr
    assert {entry["name"]: entry["killed"] for entry in json.loads(down.stdout)["items"]} == {
        "node-1": False,
        "node-2": False,
        "head": False,
    }
    assert run_in(home, "down").returncode == 3
    assert run_in(home, "status").returncode == 5


def test_up_removes_the_nodes_that_it_does_not_start_and_waits_for_its_own(home, tmp_path):
    assert run_in(home, "up", "--nodes", "2", "--port", "0", "--resources", "CPU=1").returncode == 0
    assert run_in(home, "down").returncode == 0
    up = run_in(home, "up", "--port", "0", "--resources", "CPU=1", "--fake-gpus", "2xA100")
    try:
        assert up.returncode == 0, up.stderr
        nodes = json.loads(run_in(home, "nodes", "-o", "json").stdout)["items"]
        assert [(node["node"], node["state"], node["gpus"]) for node in nodes] == [("node-1", "READY", 2)]
        (tmp_path / "job.yaml").write_text("version: 1\nname: quick\nentrypoint: echo here\n")
        assert run_in(home, "submit", tmp_path / "job.yaml", "-f").stdout == "here\n"
    finally:
        assert run_in(home, "down").returncode == 0
    up = run_in(home, "up", "--nodes", "2", "--port", "0", "--resources", "CPU=1")
    assert (up.returncode, run_in(home, "down").returncode) == (0, 0), up.stderr


def pids_of_daemons(env):
    return {entry["name"]: entry["pid"] for entry in json.loads(run_in(env, "down", "--dry-run", "-o", "json").stdout)["items"]}


def test_up_starts_the_daemons_that_are_missing_and_keeps_the_others(home, tmp_path):
    up = ("up", "--nodes", "2", "--port", "0", "--resources", "CPU=1")
    first = json.loads(run_in(home, *up, "-o", "json").stdout)
    try:
        job = tmp_path / "job.yaml"
        job.write_text("version: 1\nname: busy\nentrypoint: sleep 1000\n")
        assert run_in(home, "submit", job).returncode == 0
        pid = wait_for("its worker", lambda: worker_of(home, "busy"))
        before = pids_of_daemons(home)
        assert run_in(home, "head", "stop", "--data", tmp_path / "data/rtrain/up/head").returncode == 0

        elsewhere = run_in(home, "up", "--port", "1")
        assert elsewhere.returncode == 2 and first["address"] in elsewhere.stderr, elsewhere.stderr
        again = run_in(home, *up)
        assert again.returncode == 0 and "node-1, node-2 run already" in again.stderr, again.stderr
        after = pids_of_daemons(home)
        assert {**after, "head": 0} == {**before, "head": 0} and after["head"] != before["head"]
        nodes = json.loads(run_in(home, "nodes", "-o", "json").stdout)["items"]
        assert [(node["node"], node["connected"]) for node in nodes] == [("node-1", True), ("node-2", True)]
        assert worker_of(home, "busy") == pid and alive(pid)

        assert run_in(home, "node", "stop", "--data", tmp_path / "data/rtrain/up/node-2").returncode == 0
        third = json.loads(run_in(home, *up, "-o", "json").stdout)
        assert third["address"] == first["address"] and third["cluster_id"] == first["cluster_id"]
        assert [node["node"] for node in third["nodes"]] == ["node-1", "node-2"]
        assert {**pids_of_daemons(home), "node-2": 0} == {**after, "node-2": 0}
        assert run_in(home, *up).returncode == 7
    finally:
        assert run_in(home, "down", "--yes").returncode == 0


def test_down_asks_before_it_ends_trainings_and_leaves_no_worker(home, tmp_path):
    assert run_in(home, "up", "--port", "0", "--resources", "CPU=1").returncode == 0
    try:
        job = tmp_path / "job.yaml"
        job.write_text("version: 1\nname: busy\nentrypoint: sleep 1000\n")
        assert run_in(home, "submit", job).returncode == 0
        pid = wait_for("its worker", lambda: worker_of(home, "busy"))
        refused = run_in(home, "down", stdin=subprocess.DEVNULL)
        assert refused.returncode == 2 and "busy" in refused.stderr and "--yes" in refused.stderr, refused.stderr
        assert run_in(home, "status").returncode == 0
        assert json.loads(run_in(home, "down", "--dry-run", "-o", "json").stdout)["runs"] == ["busy"]
        kept = run_in(home, "down", "--keep-runs")
        assert kept.returncode == 0 and "busy" in kept.stderr and alive(pid)
        assert run_in(home, "up", "--port", "0", "--resources", "CPU=1").returncode == 0
        wait_for("the run to be found", lambda: worker_of(home, "busy") == pid)
    finally:
        down = run_in(home, "down", "--yes")
    assert down.returncode == 0, down.stderr
    assert not alive(pid)
    assert run_in(home, "up", "--port", "0", "--resources", "CPU=1").returncode == 0
    state = json.loads(run_in(home, "describe", "busy", "-o", "json").stdout)["state"]
    assert run_in(home, "down").returncode == 0 and state == "STOPPED"


def worker_of(env, run):
    printed = run_in(env, "describe", run, "-o", "json")
    attempts = json.loads(printed.stdout)["attempt_list"] if printed.returncode == 0 else []
    workers = attempts[-1]["workers"] if attempts else []
    return workers[0]["pid"] if workers else None


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_node_that_leaves_ends_its_workers(cluster, tmp_path):
    cluster.join("leaving", "CPU=3")
    wait_for("the node", lambda: cluster.ready_nodes() == 2)
    for name, dead in (("told", False), ("heard-later", True)):
        job = tmp_path / f"{name}.yaml"
        job.write_text(f"version: 1\nname: {name}\nentrypoint: sleep 1000\nscaling: {{nodes: [leaving]}}\n")
        cluster.rtrain("submit", job)
        cluster.wait_state(name, "RUNNING")
        pid = cluster.json("describe", name)["attempt_list"][-1]["workers"][0]["pid"]
        if dead:
            cluster.kill("leaving")
        cluster.rtrain("node", "leave", "leaving", "--data", tmp_path / "elsewhere", "--yes")
        if dead:
            cluster.restart("leaving")
        wait_for("its worker to end", lambda pid=pid: not alive(pid))
        cluster.rtrain("stop", name)
        cluster.kill("leaving")
        if not dead:
            cluster.join("leaving", "CPU=3")
            wait_for("the node to be back", lambda: cluster.ready_nodes() == 2)


def test_up_again_finds_what_was_there(home, tmp_path):
    first = json.loads(run_in(home, "up", "--port", "0", "-o", "json").stdout)
    run_in(home, "down")
    second = json.loads(run_in(home, "up", "--port", "0", "-o", "json").stdout)
    run_in(home, "down")
    stranger = {**home, "RTRAIN_CONFIG": str(tmp_path / "other.yaml")}
    refused = run_in(stranger, "up", "--port", "0")
    assert refused.returncode == 6 and "no context of it" in refused.stderr
    assert run_in(stranger, "down").returncode == 3, "the head that was started for nothing has to be ended"
    assert second["cluster_id"] == first["cluster_id"]
    assert second["context"] == first["context"]


def test_a_detached_head_prints_the_whole_join_line_and_its_end(home, tmp_path):
    data = tmp_path / "head"
    started = run_in(home, "head", "start", "--detach", "--port", "0", "--data", data, "--name", "lab")
    try:
        assert started.returncode == 0, started.stderr
        line = re.search(r"rtrain node join (127\.0\.0\.1:\d+) --token (rtn1\.\S+) --name \S+", started.stdout)
        assert line and "before 20" in started.stdout
        again = run_in(home, "head", "start", "--port", "0", "--data", data)
        assert again.returncode == 7 and "pid" in again.stderr
        status = json.loads(run_in(home, "head", "status", "--data", data, "-o", "json").stdout)
        assert status["name"] == "lab" and status["pid"] > 0
        node = tmp_path / "n1"
        joined = run_in(home, "node", "join", line[1], "--token", line[2], "--name", "n1", "--data", node, "--peer-port", "0",
                        "--resources", "CPU=1", "--label", "rack=r1", "--fake-gpus", "2xA100", "--allow-root-workers", "--detach")  # fmt: skip
        assert joined.returncode == 0, joined.stderr
        facts = wait_for("the node", lambda: json.loads(run_in(home, "nodes", "-o", "json").stdout)["items"])[0]
        assert facts["labels"]["rack"] == "r1" and facts["gpus"] == 2
        reused = run_in(
            home,
            "node",
            "join",
            line[1],
            "--token",
            line[2],
            "--name",
            "n2",
            "--data",
            tmp_path / "n2",
            "--peer-port",
            "0",
            "--detach",
        )
        assert reused.returncode == 6, reused.stderr
        left = run_in(home, "node", "leave", "n1", "--data", node, "--yes")
        assert left.returncode == 0, left.stderr
        assert not (node / "agent.pid").exists()
    finally:
        stopped = run_in(home, "head", "stop", "--data", data)
    assert stopped.returncode == 0, stopped.stderr
    assert run_in(home, "head", "stop", "--data", data).returncode == 3
    assert run_in(home, "head", "status", "--data", data).returncode == 5


def test_a_busy_port_names_its_owner(home, tmp_path):
    with socket.socket() as owner:
        owner.bind(("127.0.0.1", 0))
        owner.listen()
        done = run_in(home, "head", "start", "--port", owner.getsockname()[1], "--data", tmp_path / "head")
    assert done.returncode == 7
    assert "python" in done.stderr


def test_a_head_that_cannot_start_says_so_in_the_format_that_was_asked_for(home, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = run_in(home, "head", "start", "--port", port, "--data", tmp_path / "head", "-o", "json")
    error = json.loads(done.stdout)["error"]
    assert done.returncode == error["exit_code"] == 7
    assert port in error["message"] and "--port" in error["next"]


def test_a_head_on_a_disk_that_does_not_last_says_so_at_start_and_beside_its_runs(home, tmp_path):
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("there is no tmpfs here")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as root:
        up = run_in(home, "up", "--port", "0", "--resources", "CPU=1", "--storage-root", root)
        try:
            assert f"not durable: the storage root {root} is on tmpfs" in up.stderr
            (tmp_path / "job.yaml").write_text("version: 1\nname: lost\nentrypoint: 'true'\n")
            done = run_in(home, "submit", tmp_path / "job.yaml", "-f")
            assert done.returncode == 0 and "not durable" in done.stderr
            facts = json.loads(run_in(home, "describe", "lost", "-o", "json").stdout)
            assert facts["state"] == "SUCCEEDED" and any("not durable" in warning for warning in facts["warnings"])
            (tmp_path / "job.yaml").write_text(f"version: 1\nname: kept\nentrypoint: 'true'\nstorage_path: {tmp_path}\n")
            assert "not durable" not in run_in(home, "submit", tmp_path / "job.yaml", "-f").stderr
            assert "not durable" in run_in(home, "doctor").stdout
        finally:
            run_in(home, "down", "--yes")


def test_the_state_is_verified_backed_up_and_restored(home, tmp_path):
    data, backup, other = tmp_path / "head", tmp_path / "backup.db", tmp_path / "other"
    port = free_port()
    assert run_in(home, "head", "start", "--detach", "--port", port, "--data", data).returncode == 0
    try:
        made = run_in(home, "head", "backup", backup, "--state-only", "--data", data)
        assert made.returncode == 0, made.stderr
        assert backup.exists()
        assert run_in(home, "head", "backup", backup, "--state-only", "--data", data).returncode == 7
        assert run_in(home, "head", "restore-backup", backup, "--data", data).returncode == 7  # refused: the head is running
    finally:
        run_in(home, "head", "stop", "--data", data)
    assert run_in(home, "head", "verify", "--data", data).returncode == 0
    assert run_in(home, "head", "restore-backup", tmp_path / "none", "--data", other).returncode == 3
    assert run_in(home, "head", "restore-backup", backup, "--data", other, "--dry-run").returncode == 0
    assert not other.exists()
    assert run_in(home, "head", "restore-backup", backup, "--data", other).returncode == 0
    assert run_in(home, "head", "verify", "--data", other).returncode == 0
    # Refused: would replace data without --yes.
    assert run_in(home, "head", "restore-backup", backup, "--data", other).returncode == 2
    assert run_in(home, "head", "restore-backup", backup, "--data", other, "--yes").returncode == 0


def test_nodes_are_drained_and_taken_back(cluster):
    assert cluster.json("node", "drain", "node-1", "--reason", "kernel update")["state"] == "DRAINING"
    assert "kernel update" in cluster.rtrain("describe", "node-1")
    assert cluster.json("node", "undrain", "node-1")["state"] == "READY"
    assert cluster.run("node", "drain", "node-9").returncode == 3
    assert cluster.run("node", "leave", "node-1").returncode == 2
    assert cluster.run("node", "leave", "node-1", "--dry-run").returncode == 0


def test_tokens_open_what_their_role_says_until_they_are_revoked(cluster):
    made = cluster.json("token", "create", "--role", "viewer", "--user", "ana", "--expires", "1h")
    env = {**cluster.env, "RTRAIN_TOKEN": made["token"]}
    assert run_in(env, "runs").returncode == 0
    assert run_in(env, "token", "list").returncode == 6
    listed = cluster.rtrain("token", "list", "-o", "json")
    assert made["id"] in listed and made["token"] not in listed
    assert cluster.run("token", "revoke", made["id"]).returncode == 2
    cluster.rtrain("token", "revoke", made["id"], "--dry-run")
    assert run_in(env, "runs").returncode == 0
    cluster.rtrain("token", "revoke", made["id"], "--yes")
    assert run_in(env, "runs").returncode == 6
    assert cluster.run("token", "create", "--role", "king").returncode == 2
    assert cluster.rtrain("token", "create").startswith("rtn1.")
    assert cluster.json("token", "create", "--user", "ana")["role"] == "user"  # a token with --user has the role user


def test_doctor_finds_the_cluster_well_and_names_what_is_not(cluster):
    checks = cluster.json("doctor")
    states = {check["check"]: check["state"] for check in checks["items"]}
    assert states["head"] == "ok" and states["CA"] == "ok" and states["clock"] == "ok" and states["node node-1"] == "ok"
    (cluster.folder / "config.yaml").chmod(0o644)
    try:
        done = cluster.run("doctor")
        assert done.returncode == 1 and "chmod 600" in done.stdout
    finally:
        (cluster.folder / "config.yaml").chmod(0o600)


def test_status_and_nodes_in_every_format(cluster):
    status = cluster.json("status")
    assert status["schema_version"] == 1 and status["nodes"] == {"READY": 1}
    assert "1 READY" in cluster.rtrain("status")
    assert cluster.rtrain("nodes").splitlines()[0].startswith("NODE")
    assert "LABELS" in cluster.rtrain("nodes", "-o", "wide")
    assert cluster.rtrain("nodes", "-o", "name") == "node-1\n"
    assert json.loads(cluster.rtrain("nodes", "-o", "jsonl"))["schema_version"] == 1
    assert "node: node-1" in cluster.rtrain("nodes", "-o", "yaml")


def test_a_queues_file_with_a_problem_starts_no_head_and_a_good_one_makes_the_queues(home, tmp_path):
    data = tmp_path / "head"
    wrong = tmp_path / "queues.yaml"
    wrong.write_text("queues:\n  a: {parent: b, quota: {GPU: -1}}\n  b: {parent: a}\n  c: {shares: 2}\n")
    refused = run_in(home, "head", "start", "--detach", "--port", "0", "--data", data, "--queues", wrong)
    assert refused.returncode == 4
    assert "queues.yaml:2:" in refused.stderr and "borrowing goes in a circle: a -> b -> a" in refused.stderr
    assert "queues.yaml:4:" in refused.stderr and 'did you mean "share"?' in refused.stderr
    assert run_in(home, "status").returncode == 5
    wrong.write_text("queues:\n  a: {quota: {CPU: 1}}\n")
    try:
        started = run_in(home, "head", "start", "--detach", "--port", "0", "--data", data, "--queues", wrong)
        assert started.returncode == 0, started.stderr
        job = tmp_path / "job.yaml"
        job.write_text("version: 1\nname: lost\nentrypoint: 'true'\nqueue: b\n")
        lost = run_in(home, "submit", job)
        assert lost.returncode == 4
        assert 'job.yaml:4: queue: there is no queue "b", this cluster has a, default' in lost.stderr
        job.write_text("version: 1\nname: waits\nentrypoint: 'true'\nqueue: a\nscaling:\n  workers: 2\n")
        assert run_in(home, "submit", job).returncode == 0
        explained = run_in(home, "explain", "waits")
        assert 'queue "a" holds 0 of its quota of 1 CPU, this needs 2 more; it can never start' in explained.stdout
        assert [run["queue"] for run in json.loads(run_in(home, "queue", "-o", "json").stdout)["items"]] == ["a"]
    finally:
        run_in(home, "head", "stop", "--data", data)


@pytest.fixture
def second(tmp_path):
    made = LocalCluster(tmp_path / "second", nodes=1, resources="CPU=1")
    yield made
    made.stop()


def test_node_leave_takes_the_node_whose_directory_is_named(cluster, second, tmp_path):
    cluster.join("elsewhere-named", "CPU=1")
    data = cluster.folder / "elsewhere-named"
    wait_for("the node", lambda: cluster.ready_nodes() == 2)
    assert "elsewhere-named would leave" in cluster.rtrain("node", "leave", "--data", data, "--dry-run")
    other = cluster.run("node", "leave", "node-1", "--data", data, "--yes")
    assert other.returncode == 7 and "identity of node elsewhere-named, not of node-1" in other.stderr, other.stderr
    empty = cluster.run("node", "leave", "--data", tmp_path / "none", "--yes")
    assert empty.returncode == 3 and f"no node is in {tmp_path}/none" in empty.stderr, empty.stderr
    foreign = cluster.run("node", "leave", "--data", second.folder / "node-1", "--yes")
    assert foreign.returncode == 7 and "is of cluster" in foreign.stderr, foreign.stderr
    assert cluster.ready_nodes() == 2 and second.ready_nodes() == 1
    cluster.rtrain("node", "leave", "--data", data, "--yes")
    assert [node["node"] for node in cluster.json("nodes")["items"]] == ["node-1"]
    assert cluster.daemons.pop("elsewhere-named").wait(20) == 0 and not (data / "identity").exists()


def test_head_status_is_of_the_head_that_data_names(cluster, second):
    ids = [made.json("status")["cluster_id"] for made in (cluster, second)]
    assert ids[0] != ids[1]
    asked = cluster.run("head", "status", "--data", second.folder / "head")
    assert asked.returncode == 6 and f"no context of the head on {second.folder}/head" in asked.stderr, asked.stderr
    token = second.json("token", "create", "--role", "admin", "--user", "ana")["token"]
    add = ("--address", second.head_address(), "--token", token, "--ca", second.folder / "head" / "ca.crt")
    cluster.rtrain("context", "add", "second", *add)
    shown = cluster.json("head", "status", "--data", second.folder / "head")
    assert shown["cluster_id"] == ids[1] and shown["pid"] == second.daemons["head"].pid
    cluster.rtrain("context", "remove", "second", "--yes")


@pytest.mark.parametrize("verb", ["head status", "head stop", "head backup /nowhere/b", "token create", "audit", "audit verify"])
def test_a_directory_and_a_context_that_name_two_heads_are_refused(home, tmp_path, verb):
    refused = run_in(home, *verb.split(), "--data", tmp_path / "head", "--context", "lab")
    assert refused.returncode == 2 and "--context another one" in refused.stderr, refused.stderr


def test_a_first_start_without_data_says_where_it_writes(home, tmp_path):
    up = run_in(home, "up", "--port", "0", "--resources", "CPU=1")
    again = (run_in(home, "down"), run_in(home, "up", "--port", "0", "--resources", "CPU=1"), run_in(home, "down"))[1]
    place = f"makes {tmp_path}/data/rtrain/up and keeps its data there (--data DIR names another directory)"
    assert up.returncode == 0 and up.stderr.startswith(place), up.stderr
    assert f"of {tmp_path}/config.yaml is in use" in up.stdout
    assert again.returncode == 0 and "makes" not in again.stderr, again.stderr


def test_a_command_to_paste_names_a_directory_with_a_space_as_one_word(home, tmp_path):
    data = tmp_path / "odd plätze" / "head"
    refused = run_in(home, "head", "stop", "--data", data)
    (next_line,) = [line for line in refused.stderr.splitlines() if "next:" in line]
    assert shlex.split(next_line.partition("next: ")[2]) == ["rtrain", "head", "start", "--data", str(data)]
