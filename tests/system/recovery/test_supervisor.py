"""Tests that `rtrain up` restarts a killed head or agent unless it would end the same way again, and that `rtrain down` ends
all of them.
"""

import json
import os
import signal
import subprocess

import pytest
from jobs_on_disk import ranks_job
from local_cluster import ROOT, RTRAIN, environment, wait_for
from test_faults import alive


class Up:
    def __init__(self, folder):
        self.folder = folder
        self.env = {**environment(folder / "config.yaml"), "XDG_DATA_HOME": str(folder)}
        self.base = folder / "up"

    def rtrain(self, *arguments):
        command = [RTRAIN, *map(str, arguments)]
        return subprocess.run(command, env=self.env, cwd=ROOT, capture_output=True, text=True, timeout=120)

    def value(self, *arguments):
        return json.loads(self.rtrain(*arguments, "-o", "json").stdout)

    def pid(self, name, file):
        path = self.base / name / file
        words = path.read_text().split() if path.exists() else []  # the file may not be written yet
        return int(words[0]) if words else 0

    def head(self):
        return self.pid("head", "head.pid")

    def agent(self):
        return self.pid("node-1", "agent.pid")


@pytest.fixture
def up(tmp_path):
    made = Up(tmp_path)
    done = made.rtrain("up", "--data", made.base, "--port", 0, "--resources", "CPU=2")
    assert done.returncode == 0, done.stderr
    yield made
    made.rtrain("down", "--data", made.base, "--yes")


def workers(up, run):
    return [worker["pid"] for worker in up.value("describe", run)["attempt_list"][-1]["workers"]]


def step(up, run):
    report = up.value("describe", run)["last_report"]
    return report["metrics"]["step"] if report else 0


def test_a_killed_head_and_a_killed_agent_are_back_and_the_workers_are_the_same(up, tmp_path):
    assert up.rtrain("submit", ranks_job(tmp_path, "goes-on", 4000, 0.05, storage_path=str(tmp_path))).returncode == 0
    wait_for("reports", lambda: step(up, "goes-on") >= 3)
    before = workers(up, "goes-on")
    for which in (up.agent, up.head):
        old = which()
        os.kill(old, signal.SIGKILL)
        wait_for("another process", lambda which=which, old=old: which() not in (0, old) and alive(which()), 20, 0.01)
        seen = wait_for("an answer", lambda: up.rtrain("status").returncode == 0 and step(up, "goes-on"), 30)
        wait_for("more reports", lambda seen=seen: step(up, "goes-on") > seen, 30)
    facts = up.value("describe", "goes-on")
    assert len(facts["attempt_list"]) == 1 and workers(up, "goes-on") == before
    daemons = [up.head(), up.agent(), up.pid("head", "head.pid.supervisor"), up.pid("node-1", "agent.pid.supervisor")]
    assert all(map(alive, daemons))
    assert up.rtrain("down", "--data", up.base, "--yes").returncode == 0
    assert not any(map(alive, daemons + before))
    assert "was ended by signal 9" in (up.base / "head" / "head.log").read_text()


def written_to(pid):
    """Returns the current path of the process's standard error."""
    return os.readlink(f"/proc/{pid}/fd/2")


def test_a_full_log_is_rotated_and_the_daemons_write_the_new_one(up):
    head, agent = up.base / "head" / "head.log", up.base / "node-1" / "agent.log"
    before = head.read_text()
    for log, pid in ((head, up.head()), (agent, up.agent())):
        for number in range(5):
            with log.open("ab") as file:
                file.write(b"filler %d\n" % number + bytes(17 << 20))
            wait_for("a small log", lambda log=log: log.exists() and log.stat().st_size < 1 << 20)
            wait_for("the daemon", lambda log=log, pid=pid: written_to(pid) == str(log))
        old = sorted(path.name for path in log.parent.glob(log.name + ".*"))
        assert old == [f"{log.name}.{number}" for number in (1, 2, 3)], old
        assert [b"filler %d" % (4 - at) in (log.parent / name).read_bytes() for at, name in enumerate(old)] == [True] * 3
        assert log.stat().st_mode & 0o777 == 0o600
    assert before not in head.read_text()
    supervisor, killed = up.pid("head", "head.pid.supervisor"), up.head()
    os.kill(killed, signal.SIGKILL)
    wait_for("another head", lambda: up.head() not in (0, killed) and alive(up.head()), 20, 0.01)
    wait_for("the supervisor's line", lambda: "was ended by signal 9" in head.read_text())
    wait_for("its log", lambda: written_to(up.head()) == str(head))
    head.rename(up.base / "head" / "moved.log")  # simulates logrotate
    os.kill(supervisor, signal.SIGHUP)
    wait_for("both", lambda: written_to(supervisor) == written_to(up.head()) == str(head))
    assert alive(supervisor)


def test_a_head_whose_data_is_damaged_is_not_started_again(up, tmp_path):
    supervisor, old = up.pid("head", "head.pid.supervisor"), up.head()
    for name in ("state.db", "state.db-wal"):
        if (path := up.base / "head" / name).exists():
            path.write_bytes(b"this is no database" * 1000)
    os.kill(old, signal.SIGKILL)
    wait_for("the supervisor to give up", lambda: not alive(supervisor), 30)
    assert up.head() in (0, old) and not alive(old)
    assert not (up.base / "head" / "head.pid.supervisor").exists()


def test_down_ends_a_daemon_that_is_about_to_be_started_again(up, tmp_path):
    supervisor = up.pid("node-1", "agent.pid.supervisor")
    (up.base / "node-1" / "identity").rename(tmp_path / "identity")  # makes each start fail or be given up
    os.kill(up.agent(), signal.SIGKILL)
    up.rtrain("down", "--data", up.base, "--yes")
    wait_for("everything to end", lambda: not alive(supervisor) and not alive(up.head()), 20)
