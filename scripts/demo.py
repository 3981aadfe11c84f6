"""The story that scripts/demo tells: two real jobs on a head and two agents, on loopback, with TLS and tokens on.

1. A Python DDP job loses a worker to SIGKILL and recovers from its last checkpoint.
2. A C++ LibTorch job is stopped half-way; the whole cluster goes; a brand-new head finishes it from its storage path.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RTRAIN = ROOT / "build" / "release" / "rtrain"
WORK = pathlib.Path(tempfile.mkdtemp(prefix="rtrain-demo-"))
STORAGE = WORK / "runs"
ENV = {
    **os.environ,
    "RTRAIN_CONFIG": str(WORK / "config.yaml"),
    "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}",
    "NO_COLOR": "1",
}
for name in ("RTRAIN_ADDRESS", "RTRAIN_TOKEN", "RTRAIN_CONTEXT", "RTRAIN_CA"):
    ENV.pop(name, None)
START = time.monotonic()


def say(text):
    print(f"\n[{time.monotonic() - START:5.1f} s] {text}", flush=True)


def fail(text):
    raise SystemExit(f"demo: {text}\ndemo: logs of the daemons lie in {WORK}")


def rtrain(*arguments, show=True):
    """Runs one rtrain command; its standard output, or the end of the demo when it fails."""
    if show:
        print(f"$ rtrain {' '.join(str(a) for a in arguments)}", flush=True)
    done = subprocess.run([RTRAIN, *map(str, arguments)], env=ENV, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        fail(f"`rtrain {' '.join(map(str, arguments))}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    if show:
        print(done.stdout, end="", flush=True)
    return done.stdout


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(what, condition, seconds=60):
    """Polls `condition` until it gives something true; the demo fails when `seconds` pass."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.1)
    fail(f"waited {seconds} s for {what}")


class Cluster:
    """A head and two agents of one CPU each, as real daemons with their own data directories."""

    def __init__(self, name):
        self.folder = WORK / name
        self.folder.mkdir()
        self.daemons = []
        port = free_port()
        self.start("head", "head", "start", "--port", port, "--data", self.folder / "head")
        wait_for("the head", lambda: self.healthy())
        for number in (1, 2):
            token = json.loads(rtrain("token", "create", "--role", "node", "-o", "json", show=False))["token"]
            # fmt: off
            self.start(f"node-{number}", "node", "join", f"127.0.0.1:{port}", "--token", token, "--name", f"node-{number}",
                       "--data", self.folder / f"node-{number}", "--peer-port", 0, "--resources", "CPU=1", "--allow-root-workers")
            # fmt: on
        wait_for("two nodes", lambda: self.ready_nodes() == 2)

    def start(self, name, *arguments):
        with open(self.folder / f"{name}.log", "w") as log:
            self.daemons.append(subprocess.Popen([RTRAIN, *map(str, arguments)], env=ENV, stdout=log, stderr=log, start_new_session=True))

    def healthy(self):
        if self.daemons[0].poll() is not None:
            fail((self.folder / "head.log").read_text())
        return subprocess.run([RTRAIN, "status"], env=ENV, capture_output=True).returncode == 0

    def ready_nodes(self):
        items = json.loads(rtrain("nodes", "-o", "json", show=False))["items"]
        return sum(1 for n in items if n["state"] == "READY")

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self.daemons = []


def run_facts(name):
    return json.loads(rtrain("describe", name, "-o", "json", show=False))


def state(name):
    return run_facts(name)["state"]


def follow(name):
    """`rtrain logs -f`, shown as it comes; the caller waits for it."""
    print(f"$ rtrain logs {name} -f --rank 0", flush=True)
    return subprocess.Popen([RTRAIN, "logs", name, "-f", "--rank", "0"], env=ENV)


def committed(name):
    return json.loads(rtrain("checkpoints", "list", name, "-o", "json", show=False))["items"]


def ended(name, follower, seconds=120):
    wait_for(f"the end of {name}", lambda: state(name) in ("SUCCEEDED", "FAILED", "STOPPED"), seconds)
    follower.wait(20)
    facts = run_facts(name)
    if facts["state"] != "SUCCEEDED":
        rtrain("describe", name)
        rtrain("logs", name, "--rank", "all", "--attempt", "all")
        fail(f"{name} ended as {facts['state']}: {facts['reason']}")
    return facts


def accuracy(name):
    lines = rtrain("logs", name, "--rank", "0", "--attempt", "all", show=False)
    found = re.findall(r"final accuracy:? ([0-9.]+)", lines)
    if not found:
        fail(f"{name} printed no final accuracy")
    return float(found[-1])


def kill_and_recover():
    say("A Python DDP job, 2 workers. Rank 1 gets SIGKILL in mid-run.")
    follower = follow("digits")
    wait_for("three checkpoints of digits", lambda: len(committed("digits")) >= 3)
    worker = [w for w in run_facts("digits")["attempt_list"][-1]["workers"] if w["rank"] == 1][0]
    print(f"\n--- kill -9 {worker['pid']}   (rank 1 on {worker['node']})\n", flush=True)
    os.kill(worker["pid"], signal.SIGKILL)
    facts = ended("digits", follower)
    rtrain("describe", "digits")
    attempts = facts["attempt_list"]
    if len(attempts) < 2 or not attempts[-1]["from"]:
        fail("digits did not recover from a checkpoint in a second attempt")
    return accuracy("digits")


def stop_and_restore(cluster):
    say("A C++ LibTorch ResNet-18, 2 workers, stopped half-way.")
    follower = follow("digits-cpp")
    wait_for("a checkpoint of digits-cpp", lambda: len(committed("digits-cpp")) >= 2, 120)
    rtrain("stop", "digits-cpp")
    wait_for("digits-cpp to stop", lambda: state("digits-cpp") == "STOPPED")
    follower.wait(20)
    say("The whole cluster goes down. A brand-new head with an empty data directory starts.")
    cluster.stop()
    fresh = Cluster("second")
    try:
        rtrain("restore", STORAGE / "digits-cpp")
        facts = ended("digits-cpp", follow("digits-cpp"), 180)
        if not facts["attempt_list"][-1]["from"]:
            fail("digits-cpp did not start from its checkpoint")
        rtrain("describe", "digits-cpp")
        return accuracy("digits-cpp")
    finally:
        fresh.stop()


def main():
    say("A head and two agents on loopback; TLS and tokens are on.")
    cluster = Cluster("first")
    try:
        rtrain("nodes")
        rtrain("submit", "examples/digits/job.yaml", "--set", "name=digits", "--set", f"storage_path={STORAGE}")
        rtrain("submit", "examples/digits-cpp/job.yaml", "--set", "name=digits-cpp", "--set", f"storage_path={STORAGE}")
        rtrain("explain", "digits-cpp")
        python = kill_and_recover()
        cpp = stop_and_restore(cluster)
    finally:
        cluster.stop()
    say("Done; everything is stopped.")
    print(f"digits      (Python DDP, killed and recovered)        final accuracy {python:.4f}")
    print(f"digits-cpp  (C++ LibTorch, restored on a new cluster)  final accuracy {cpp:.4f}")
    if python <= 0.95 or cpp <= 0.9:
        fail("an accuracy is below its mark (0.95 Python, 0.9 C++)")
    shutil.rmtree(WORK)
    return 0


if __name__ == "__main__":
    sys.exit(main())
