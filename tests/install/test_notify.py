"""Receives the messages of daemons to a service manager, on a socket of the test's own: systemd's protocol, sd_notify(3)."""

import contextlib
import os
import resource
import signal
import socket
import subprocess
import uuid

import pytest
from local_cluster import RTRAIN, environment, free_port, wait_for


class Manager:
    """The receiving end of NOTIFY_SOCKET, and a daemon that uses it."""

    def __init__(self, address, folder, *words, before=None, **more):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address.replace("@", "\0", 1) if address.startswith("@") else address)
        self.address = self.socket.getsockname()
        if before:
            before(self)
        self.env = {**environment(folder / "config.yaml"), "NOTIFY_SOCKET": address, **more}
        self.log = folder / f"{words[0]}.log"
        with open(self.log, "a") as log:
            command = [str(word) for word in (RTRAIN, *words)]
            self.daemon = subprocess.Popen(command, env=self.env, stdout=log, stderr=log)

    def fill(self):
        """Sends messages to itself until there is no room for another."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
            other.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    other.sendto(b"STATUS=busy", self.address)

    def next_message(self, seconds):
        """Returns the next message; None if none arrives within `seconds`."""
        self.socket.settimeout(seconds)
        with contextlib.suppress(TimeoutError):
            return self.socket.recv(4096).decode()
        return None

    def wait_for(self, word):
        while message := self.next_message(60):
            if word in message.splitlines():
                return message
        raise AssertionError(f"no {word}:\n{self.log.read_text()}")

    def stop(self):
        if self.daemon.poll() is None:
            self.daemon.send_signal(signal.SIGCONT)
            self.daemon.terminate()
        self.daemon.wait(60)
        self.socket.close()


@pytest.fixture(params=["path", "abstract"])
def address(request, tmp_path):
    return str(tmp_path / "notify") if request.param == "path" else f"@rtrain-test-{uuid.uuid4().hex}"


def head_words(folder):
    return ("head", "start", "--port", free_port(), "--data", folder / "head")


def test_a_head_is_ready_once_it_answers_and_prints_no_token(address, tmp_path):
    manager = Manager(address, tmp_path, *head_words(tmp_path))
    try:
        ready = manager.wait_for("READY=1")
        assert "STATUS=serves at 127.0.0.1:" in ready
        asked = subprocess.run([RTRAIN, "status"], env=manager.env, capture_output=True, text=True)
        assert asked.returncode == 0, asked.stderr
        assert "rtn1." not in manager.log.read_text()  # a join token would stay in the machine's log
        assert manager.next_message(1) is None  # no watchdog was requested
    finally:
        manager.stop()


def test_the_watchdog_is_fed_as_often_as_it_wants_and_not_by_a_process_that_does_not_run(address, tmp_path):
    manager = Manager(address, tmp_path, *head_words(tmp_path), WATCHDOG_USEC="600000")
    try:
        manager.wait_for("READY=1")
        for _ in range(5):
            assert manager.next_message(10) == "WATCHDOG=1"
        manager.daemon.send_signal(signal.SIGSTOP)
        while manager.next_message(1):  # discards messages that were already sent
            pass
        manager.daemon.send_signal(signal.SIGCONT)
        assert manager.next_message(5) == "WATCHDOG=1"
    finally:
        manager.stop()


def test_a_manager_that_is_busy_hears_of_a_daemon_that_is_ready_all_the_same(address, tmp_path):
    manager = Manager(address, tmp_path, *head_words(tmp_path), before=lambda one: one.fill())
    try:
        wait_for("the head", lambda: "serves at" in manager.log.read_text(), 60)
        with contextlib.suppress(subprocess.TimeoutExpired):  # the head may serve already, or wait for the manager
            subprocess.run([RTRAIN, "status"], env=manager.env, capture_output=True, timeout=2)
        manager.wait_for("READY=1")
    finally:
        manager.stop()


def test_a_daemon_without_a_free_descriptor_feeds_the_watchdog(address, tmp_path):
    manager = Manager(address, tmp_path, *head_words(tmp_path), WATCHDOG_USEC="300000")
    try:
        manager.wait_for("READY=1")
        resource.prlimit(manager.daemon.pid, resource.RLIMIT_NOFILE, (1, 1))
        while manager.next_message(0.01):  # discards messages that were already sent
            pass
        for _ in range(3):
            assert manager.next_message(10) == "WATCHDOG=1"
    finally:
        manager.stop()


def test_a_watchdog_of_another_process_is_not_fed(address, tmp_path):
    manager = Manager(address, tmp_path, *head_words(tmp_path), WATCHDOG_USEC="300000", WATCHDOG_PID=str(os.getpid()))
    try:
        manager.wait_for("READY=1")
        assert manager.next_message(1) is None
    finally:
        manager.stop()


def test_a_node_is_ready_once_it_serves_and_its_jobs_cannot_speak_for_it(tmp_path):
    head = Manager(str(tmp_path / "of-head"), tmp_path, *head_words(tmp_path))
    node = None
    try:
        head.wait_for("READY=1")
        port = next(word for word in head.daemon.args if word.isdigit())
        token = subprocess.run([RTRAIN, "token", "create", "-o", "name"], env=head.env, capture_output=True, text=True).stdout
        words = ("node", "join", f"127.0.0.1:{port}", "--token", token.strip(), "--name", "n1", "--data", tmp_path / "n1",
                 "--peer-port", 0, "--allow-root-workers", "--pass-env", "NOTIFY_*,WATCHDOG_*")  # fmt: skip
        node = Manager(str(tmp_path / "of-node"), tmp_path, *words, WATCHDOG_USEC="300000")
        assert "STATUS=node n1 of the head at" in node.wait_for("READY=1")
        job = tmp_path / "job.yaml"
        job.write_text('version: 1\nname: look\nentrypoint: [sh, -c, "env | grep -c -e NOTIFY_ -e WATCHDOG_ || true"]\n')
        done = subprocess.run([RTRAIN, "submit", job, "-f"], env=head.env, capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout.splitlines()[-1].split()[-1] == "0", done.stdout + done.stderr
    finally:
        for one in filter(None, (node, head)):
            one.stop()


@pytest.mark.parametrize("address", ["{}/gone", "relative", "/" + "long" * 40])
def test_a_manager_that_is_gone_or_has_no_such_socket_stops_nobody(address, tmp_path):
    env = {**environment(tmp_path / "config.yaml"), "NOTIFY_SOCKET": address.format(tmp_path), "WATCHDOG_USEC": "300000"}
    head = subprocess.Popen([str(word) for word in (RTRAIN, *head_words(tmp_path))], env=env, stdout=subprocess.DEVNULL)
    try:
        wait_for("the head", lambda: subprocess.run([RTRAIN, "status"], env=env, capture_output=True).returncode == 0, 60)
    finally:
        head.terminate()
        assert head.wait(60) == 0
