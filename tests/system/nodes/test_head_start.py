"""Tests starts of a head that must fail: the error names the cause, no data are harmed, and the next start succeeds."""

import http.client
import json
import os
import pathlib
import socket
import ssl
import subprocess

import pytest
from jobs_on_disk import write_job
from local_cluster import RTRAIN, LocalCluster, environment, free_port, wait_for
from small_disk import room_for, small_disk

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small tmpfs needs root")


@pytest.fixture
def small(tmp_path):
    with small_disk(tmp_path / "small", "16m") as place:
        yield place


class LoneHead:
    """A head without a cluster. It is stopped at the end of its `with` block."""

    def __init__(self, folder, data):
        folder.mkdir()
        self.data, self.env, self.port = data, environment(folder / "config.yaml"), free_port()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.run("head", "stop", "--data", self.data)

    def run(self, *arguments):
        command = [RTRAIN, *map(str, arguments)]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=60)

    def start(self, port=None):
        return self.run("head", "start", "--detach", "--port", port or self.port, "--data", self.data)

    def stop(self):
        assert self.run("head", "stop", "--data", self.data).returncode == 0

    def sound(self):
        done = self.run("head", "verify", "--data", self.data)
        assert done.returncode == 0, done.stderr


def refused_as_full(done, below):
    """Checks that the error names the file, the cause and the next step, and does not advise to restore a backup over valid
    data.
    """
    assert done.returncode == 10, done.stdout + done.stderr
    printed = done.stderr.split("next:")
    assert str(below) in printed[0] and ("full" in printed[0] or "No space left" in printed[0]), done.stderr
    assert f"make room on the disk of {below}" in printed[1], done.stderr
    assert "damaged" not in done.stderr and "restore-backup" not in done.stderr
    return True


@needs_root
@pytest.mark.parametrize("ended", ["stopped", "killed"])
def test_a_head_that_finds_its_disk_full_without_a_reserve_harms_nothing_and_starts_once_there_is_room(small, tmp_path, ended):
    cluster = LocalCluster(small / "cluster", nodes=0)
    data = small / "cluster" / "head"
    try:
        job = write_job(tmp_path, "waits", ["true"], storage_path=str(tmp_path))
        for _ in range(3):
            cluster.rtrain("submit", job, "--new")
        if ended == "killed":
            cluster.kill("head")
        if ended == "stopped":
            cluster.rtrain("head", "stop", "--data", data)
            cluster.daemons.pop("head").wait(20)
        (data / "reserve").unlink(missing_ok=True)
        with room_for(small, 0):
            for how in ((), ("--detach",)):
                command = ["head", "start", *how, "--port", cluster.port, "--data", data]
                assert refused_as_full(cluster.run(*command), data)
            verified = cluster.run("head", "verify", "--data", data)  # verify may need a file beside the database, too
            assert verified.returncode == 0 or refused_as_full(verified, data)
        assert cluster.run("head", "verify", "--data", data).returncode == 0
        cluster.restart("head")
        runs = {run["name"] for run in cluster.json("runs")["items"]}
        assert {"waits", "waits-2", "waits-3"} <= runs
        cluster.rtrain("submit", job, "--new")
    finally:
        cluster.stop()


@needs_root
def test_a_first_start_that_runs_out_of_room_anywhere_is_begun_anew_by_the_next(small, tmp_path):
    places = [0, 4, 16, 40, 80, 92, 96, 120, 132, 160, 240]  # KiB
    refused = 0
    for room in places:
        with LoneHead(tmp_path / f"room-{room}", small / f"head-{room}") as head:
            with room_for(small, room << 10):
                done = head.start()
                refused += done.returncode != 0
                assert done.returncode == 0 or refused_as_full(done, head.data)
            if done.returncode != 0:
                assert (again := head.start()).returncode == 0, again.stderr
            assert (status := head.run("status")).returncode == 0, status.stderr  # the context has the admin token
            head.stop()
            head.sound()
    assert 4 <= refused < len(places)


def test_a_first_start_on_a_busy_port_locks_nobody_out(tmp_path):
    with LoneHead(tmp_path / "home", tmp_path / "head") as head:
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            busy = head.start(port=other.getsockname()[1])
        assert busy.returncode == 7 and "another port with --port" in busy.stderr, busy.stderr
        assert head.start().returncode == 0
        assert head.run("status").returncode == 0
        head.stop()


def test_an_admin_token_that_nobody_could_keep_is_made_anew_until_it_was_used(tmp_path):
    with LoneHead(tmp_path / "home", tmp_path / "head") as head:
        config = pathlib.Path(head.env["RTRAIN_CONFIG"])
        config.mkdir()  # blocks the path of the context file
        announced = head.start()
        assert (
            announced.returncode == 0 and "the context was not kept" in announced.stderr and "start it again" in announced.stderr
        )
        head.stop()
        config.rmdir()
        assert head.start().returncode == 0
        first = config.read_text()
        head.stop()
        assert head.start().returncode == 0  # makes a new token, as the first one was not used
        second = config.read_text()
        assert second != first and second.count("token:") == first.count("token:")
        assert head.run("status").returncode == 0
        head.stop()
        config.unlink()
        assert head.start().returncode == 0
        assert head.run("status").returncode != 0  # the token was used, so the head makes no new one
        config.write_text(second)
        assert head.run("status").returncode == 0
        assert [token["role"] for token in json.loads(head.run("token", "list", "-o", "json").stdout)["items"]].count(
            "admin"
        ) == 1
        head.stop()


def test_the_first_starts_print_a_join_token_and_later_ones_say_who_makes_one(tmp_path):
    with LoneHead(tmp_path / "home", tmp_path / "data") as head:
        assert " --token rtn1." in head.start().stdout  # the admin's token is in the context
        made = head.run("token", "create", "--role", "user", "--user", "ana", "-o", "json")
        assert made.returncode == 0, made.stderr
        head.stop()
        again = head.start().stdout
        assert "rtn1." not in again and "to join a node: rtrain token create --role node" in again, again


def test_the_line_of_a_new_token_works_where_no_file_of_the_cluster_is(tmp_path):
    with LoneHead(tmp_path / "home", tmp_path / "data") as head:
        assert head.start().returncode == 0
        line = json.loads(head.run("token", "create", "--role", "viewer", "--user", "eve", "-o", "json").stdout)["command"]
        elsewhere = environment(tmp_path / "other" / "config.yaml")
        words = line.replace("NAME", "lab").split()
        assert words[:3] == ["rtrain", "context", "add"]
        for command in (words[1:], ["runs", "-o", "json"]):
            done = subprocess.run([RTRAIN, *command], env=elsewhere, capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stderr
        other = ["context", "add", "other", *words[4:-1], "0" * 64, "--use"]
        assert subprocess.run([RTRAIN, *other], env=elsewhere, capture_output=True, timeout=60).returncode == 0
        refused = subprocess.run([RTRAIN, "runs"], env=elsewhere, capture_output=True, text=True, timeout=60)
        assert refused.returncode in (5, 6), refused.stderr


def is_healthy(port):
    """Returns True if the head answers GET /healthz."""
    plain = ssl.create_default_context()
    plain.check_hostname, plain.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=5, context=plain)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def test_a_head_is_healthy_only_after_its_context_is_written(tmp_path):
    for number in range(5):
        with LoneHead(tmp_path / f"home-{number}", tmp_path / f"head-{number}") as head:
            command = [RTRAIN, "head", "start", "--port", head.port, "--data", head.data]
            silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            process = subprocess.Popen(list(map(str, command)), env=head.env, **silent)
            try:
                wait_for("the head", lambda port=head.port: is_healthy(port), pause=0.002)
                assert pathlib.Path(head.env["RTRAIN_CONFIG"]).exists()
            finally:
                process.terminate()
                process.wait(30)
