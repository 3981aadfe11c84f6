"""Tests `rtrain node join`: it reports success only once the agent serves, a mistake does not use up the token, and it warns
about an address that other machines cannot dial.
"""

import json
import os
import pathlib
import socket
import stat
import subprocess

import pytest
from local_cluster import RTRAIN, LocalCluster, wait_for


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = LocalCluster(tmp_path_factory.mktemp("join") / "c", nodes=1, resources="CPU=1")
    yield made
    made.stop()


class Joining:
    """Runs `node join` for one node with one token."""

    def __init__(self, cluster, name):
        self.cluster, self.name = cluster, name
        self.token = cluster.json("token", "create", "--role", "node")["token"]

    def __call__(self, *more):
        data = self.cluster.folder / self.name
        return self.cluster.run("node", "join", self.cluster.head_address(), "--token", self.token, "--name", self.name,
                                "--data", data, "--allow-root-workers", "-o", "json", *more)  # fmt: skip

    def leave(self):
        self.cluster.rtrain("node", "leave", self.name, "--data", self.cluster.folder / self.name, "--yes")


def refused(done, code, exit_code, *printed):
    """Checks that the output is the error alone, in the requested format."""
    document = json.loads(done.stdout)
    assert done.returncode == exit_code and "node" not in document, done.stdout + done.stderr
    error = document["error"]
    assert (error["code"], error["exit_code"]) == (code, exit_code)
    for text in printed:
        assert text in error["message"] + " next: " + error["next"], error
    return True


@pytest.mark.parametrize("how", [(), ("--detach",)], ids=["foreground", "detached"])
def test_an_agent_whose_port_is_taken_has_not_joined(cluster, how):
    join = Joining(cluster, "second-detached" if how else "second")
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        taken = str(other.getsockname()[1])
        done = join("--peer-port", taken, *how)
    assert refused(done, "conflict", 7, f"port {taken}", "python", "with --peer-port")
    assert " --port" not in done.stdout, done.stdout
    assert not (cluster.folder / join.name / "agent.pid").exists()
    again = join("--peer-port", taken, "--detach")  # repeats the command; the node keeps the identity that it received
    assert again.returncode == 0, again.stdout
    wait_for("both nodes", lambda: cluster.ready_nodes() == 2)
    join.leave()


@pytest.mark.parametrize("how", [(), ("--detach",)], ids=["foreground", "detached"])
def test_a_wrong_offer_is_a_usage_error_and_the_token_stays_good(cluster, how):
    join = Joining(cluster, "slip-detached" if how else "slip")
    for flag, wrong, printed in (
        ("--fake-gpus", "8 A100", "--fake-gpus 8 A100: "),
        ("--accelerator-type", "two words", "--accelerator-type two words: "),
        ("--resources", "CPU=1,GPU=4000", "--resources GPU=4000: this node has "),
    ):
        assert refused(join("--peer-port", "0", flag, wrong, *how), "usage", 2, printed, f"for example {flag} ")
    good = join("--peer-port", "0", "--fake-gpus", "2xA100", "--detach")
    assert good.returncode == 0 and json.loads(good.stdout)["node"] == join.name, good.stdout
    wait_for("the node", lambda: [node["gpus"] for node in cluster.json("nodes")["items"] if node["node"] == join.name] == [2])
    join.leave()


@pytest.mark.parametrize("form", ["--token {}", "--token={}"])
def test_the_token_is_not_readable_in_the_list_of_processes(cluster, form):
    join = Joining(cluster, f"hidden-{len(form)}")
    words = [RTRAIN, "node", "join", cluster.head_address(), *form.format(join.token).split(), "--name", join.name,
             "--data", cluster.folder / join.name, "--allow-root-workers", "--peer-port", "0"]  # fmt: skip
    agent = subprocess.Popen(list(map(str, words)), env=cluster.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for("the node", lambda: any(node["node"] == join.name for node in cluster.json("nodes")["items"]))
        arguments = pathlib.Path(f"/proc/{agent.pid}/cmdline").read_bytes()
        assert join.token.encode() not in arguments and join.name.encode() in arguments
        assert b"*" * len(join.token) in arguments
    finally:
        join.leave()
        agent.wait(30)


def test_a_token_for_several_nodes_goes_by_standard_input(cluster):
    created = cluster.json("token", "create", "--role", "node", "--uses", "2")
    assert created["command"].endswith(" --token-file -") and "--token " not in created["command"]
    name = "by-input"
    command = [RTRAIN, "node", "join", cluster.head_address(), "--token-file", "-", "--name", name, "--data",
               cluster.folder / name, "--allow-root-workers", "--peer-port", "0", "--detach"]  # fmt: skip
    done = subprocess.run(list(map(str, command)), env=cluster.env, input=created["token"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    cluster.rtrain("node", "leave", name, "--data", cluster.folder / name, "--yes")
    empty = subprocess.run(list(map(str, command)), env=cluster.env, input="", capture_output=True, text=True)
    assert empty.returncode == 2 and "no token is in standard input" in empty.stderr, empty.stderr


def test_join_returns_when_the_head_lists_the_node_and_says_so_when_it_does_not(cluster):
    join = Joining(cluster, "listed")
    done = join("--peer-port", "0", "--detach")
    assert done.returncode == 0 and json.loads(done.stdout)["registered"] is True, done.stdout
    assert "listed" in [node["node"] for node in cluster.json("nodes")["items"]]
    cluster.rtrain("node", "stop", "--data", cluster.folder / join.name)
    with socket.socket() as nobody:  # a bound port that does not listen refuses each connection
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        words = [RTRAIN, "node", "join", address, "--name", join.name, "--data", cluster.folder / join.name,
                 "--allow-root-workers", "--peer-port", "0", "--detach"]  # fmt: skip
        done = subprocess.run(list(map(str, words)), env=cluster.env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"the head at {address} does not list it yet; the agent goes on trying" in done.stdout
    join.leave()


def test_pid_files_are_writable_by_their_owner_alone_under_any_umask(cluster):
    join = Joining(cluster, "loose")
    before = os.umask(0)
    try:
        done = join("--peer-port", "0", "--detach")
    finally:
        os.umask(before)
    assert done.returncode == 0, done.stdout
    written = [path for path in (cluster.folder / join.name).iterdir() if path.suffix == ".pid"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in written] == [0o644]
    join.leave()


def test_up_tells_of_a_wrong_offer_as_join_does(cluster, tmp_path):
    env = {**cluster.env, "RTRAIN_CONFIG": str(tmp_path / "config.yaml")}
    cluster.env, kept = env, cluster.env
    try:
        done = cluster.run("up", "--port", "0", "--data", tmp_path / "up", "--fake-gpus", "8 A100", "-o", "json")
    finally:
        cluster.env = kept
    assert refused(done, "usage", 2, "--fake-gpus 8 A100: ", "for example --fake-gpus 8xA100")


def test_a_node_known_at_loopback_beside_one_that_is_not_is_warned_of_until_it_is_mended(cluster):
    assert cluster.json("describe", "node-1")["warnings"] == []
    assert "WARNING" not in cluster.rtrain("nodes")
    join = Joining(cluster, "elsewhere")
    assert join("--peer-port", "0", "--address", "192.0.2.7", "--detach").returncode == 0
    warning = wait_for("the warning", lambda: cluster.json("describe", "node-1")["warnings"])[0]
    assert warning.startswith("127.0.0.1 leads other machines to themselves, and elsewhere is at 192.0.2.7")
    assert cluster.json("describe", "elsewhere")["warnings"] == []
    assert f"warning      {warning}" in cluster.rtrain("describe", "node-1")
    listed = cluster.rtrain("nodes").splitlines()
    assert listed[0].endswith("WARNING") and warning in next(line for line in listed if line.startswith("node-1"))
    events = [event for event in cluster.json("events")["items"] if event["text"] == warning]
    assert [event["node"] for event in events] == ["node-1"]
    checks = cluster.json("doctor")["items"]
    warnings = [check for check in checks if check["check"] == "node node-1" and check["state"] == "warn"]
    assert [check["text"] for check in warnings] == [warning] and "node join --address" in warnings[0]["next"]
    before = cluster.daemons.pop("node-1")
    before.terminate()
    before.wait(60)
    cluster.start("node-1", *cluster.join_arguments["node-1"], "--address", "192.0.2.8")
    wait_for("its new address", lambda: cluster.json("describe", "node-1")["address"] == "192.0.2.8")
    assert cluster.json("describe", "node-1")["warnings"] == []
    join.leave()


def test_joining_beside_a_running_agent_leaves_its_identity_alone(cluster):
    data = cluster.folder / "node-1"
    before = (data / "identity" / "node.json").read_bytes()
    (data / "agent.pid").unlink()  # simulates an agent that is just starting
    token = cluster.json("token", "create", "--role", "node")["token"]
    for how in ((), ("--detach",)):
        done = cluster.run("node", "join", f"localhost:{cluster.port}", "--token", token, "--name", "node-1", "--data", data,
                           "--peer-port", 0, "--allow-root-workers", "-o", "json", *how)  # fmt: skip
        assert refused(done, "conflict", 7, f"serves from {data} already", "another --data directory")
        assert (data / "identity" / "node.json").read_bytes() == before
