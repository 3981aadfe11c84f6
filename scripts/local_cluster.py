"""A head and agents on loopback as real daemons, for demo, benchmarks and tests. It ends the processes that it started, by
pid.
"""

import contextlib
import gzip
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RTRAIN = pathlib.Path(os.environ.get("RTRAIN_BINARY", ROOT / "build" / "release" / "rtrain"))
AMBIENT = ("RTRAIN_ADDRESS", "RTRAIN_TOKEN", "RTRAIN_CONTEXT", "RTRAIN_CA", "RTRAIN_CONFIG")


class Failed(Exception):
    """A command or a wait failed. The text is for users."""


def environment(config):
    """Returns the environment of rtrain commands and daemons: a separate configuration file, and the venv's Python first."""
    kept = {name: value for name, value in os.environ.items() if name not in AMBIENT}
    return {**kept, "RTRAIN_CONFIG": str(config), "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}", "NO_COLOR": "1"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(what, condition, seconds=180, pause=0.1):
    """Calls `condition` until it returns a true value, and returns that. Raises Failed after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(pause)
    raise Failed(f"waited {seconds} s for {what}")


@contextlib.contextmanager
def signals_blocked():
    """Delays the signals that end a program until the block's end, so that no handler can interrupt the block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def alive(pid):
    """Returns true while the process runs; false for a zombie. The process may end while its file is read."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class LocalCluster:
    """`nodes` agents named node-1, node-2, ... with `resources` each, joined to one head; data below `folder`. `pass_env`:
    variables of this process that jobs get besides PATH, HOME and the like. `program`: the `rtrain` to use. Each worker
    starts plainly: `warm_flags` are the flags of the agents about warm starts.
    """

    warm_flags = ("--no-warm",)

    def __init__(self, folder, nodes=2, resources="CPU=1", pass_env="", program=RTRAIN):
        self.program = program
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        self.env = environment(self.folder / "config.yaml")
        self.daemons = {}
        self.join_arguments = {}
        self.pass_env = ["--pass-env", pass_env] if pass_env else []
        self.port = free_port()
        try:
            self.start_head()
            wait_for("the head", self.healthy)
            for number in range(1, nodes + 1):
                self.join(f"node-{number}", resources)
            wait_for(f"{nodes} nodes", lambda: self.ready_nodes() == nodes)
        except BaseException:
            self.stop()
            raise

    def start_head(self):
        self.start("head", "head", "start", "--port", self.port, "--data", self.folder / "head")

    def fetched(self, target, token=""):
        """Returns the body of the head's answer to a GET with any status. Requests compression, as browsers do."""
        headers = {"Accept-Encoding": "gzip"} | ({"Authorization": f"Bearer {token}"} if token else {})
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=ssl._create_unverified_context(), timeout=20)
        try:
            connection.request("GET", target, headers=headers)
            answer = connection.getresponse()
            body = answer.read()
            return (gzip.decompress(body) if answer.getheader("Content-Encoding") == "gzip" else body).decode()
        finally:
            connection.close()

    def head_address(self):
        return f"127.0.0.1:{self.port}"

    def join(self, name, resources):
        token = self.json("token", "create", "--role", "node")["token"]
        self.join_arguments[name] = [
            "node", "join", self.head_address(), "--token", token, "--name", name, "--data", self.folder / name,
            "--peer-port", 0, "--resources", resources, "--allow-root-workers", *self.warm_flags, *self.pass_env,
        ]  # fmt: skip
        self.start(name, *self.join_arguments[name])

    def restart(self, name):
        """Restarts a daemon on its data directory. An agent keeps its identity and adopts its workers."""
        if name == "head":
            self.start_head()
            wait_for("the head", self.healthy)
        else:
            self.start(name, *self.join_arguments[name])

    def command(self, name, *arguments):
        """Returns the command of the daemon `name`."""
        return [self.program, *map(str, arguments)]

    def start(self, name, *arguments):
        with open(self.folder / f"{name}.log", "a") as log:
            command = self.command(name, *arguments)
            self.daemons[name] = subprocess.Popen(command, env=self.env, stdout=log, stderr=log, start_new_session=True)

    def healthy(self):
        if self.daemons["head"].poll() is not None:
            raise Failed(f"the head ended:\n{(self.folder / 'head.log').read_text()}")
        return self.run("status").returncode == 0

    def ready_nodes(self):
        return sum(1 for node in self.json("nodes")["items"] if node["state"] == "READY")

    def run(self, *arguments):
        return subprocess.run([self.program, *map(str, arguments)], env=self.env, cwd=ROOT, capture_output=True, text=True)

    def rtrain(self, *arguments):
        """Returns the standard output of a command that must succeed."""
        done = self.run(*arguments)
        if done.returncode != 0:
            shown = " ".join(map(str, arguments))
            raise Failed(f"`rtrain {shown}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def json(self, *arguments):
        return json.loads(self.rtrain(*arguments, "-o", "json"))

    def wait_state(self, run, *states, seconds=120):
        try:
            return wait_for(f"{run} to be {' or '.join(states)}", lambda: self.json("describe", run)["state"] in states, seconds)
        except Failed as late:
            printed = [self.run("describe", run), self.run("explain", run), self.run("logs", run, "--tail", "20")]
            raise Failed("\n".join([str(late), *(process.stdout + process.stderr for process in printed)])) from None

    def kill(self, name):
        """Kills the daemon by SIGKILL, which simulates a power cut."""
        self.daemons[name].kill()
        self.daemons.pop(name).wait()

    def stop(self):
        with signals_blocked():
            self.end_daemons()
            self.end_workers()

    def end_daemons(self):
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()
        for daemon in self.daemons.values():
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self.daemons = {}

    def end_workers(self):
        """Ends the shims of all workers by pid, as no agent follows that would adopt them."""
        for pid in shims_below(self.folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)  # the shim's worker ends with it


class WarmCluster(LocalCluster):
    """Its nodes fork workers from a template that has imported PyTorch: those of an environment, from its second start on."""

    warm_flags = ("--warm",)


class EarlierCluster(LocalCluster):
    """Its agents get no flag about warm starts, which the program of an earlier release refuses."""

    warm_flags = ()


def shims_below(folder):
    """Yields the pids of shims of attempts below `folder`."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if b"__shim" in command and any(part.startswith(os.fsencode(f"{folder}/")) for part in command):
            yield int(entry.name)


def program_in(place):
    """Returns a copy of the program in the new folder `place`, beside the workers' library, as an installation has them."""
    place = pathlib.Path(place)
    place.mkdir(parents=True)
    shutil.copy(RTRAIN.parent / "librtrain_worker.so", place)
    return pathlib.Path(shutil.copy(RTRAIN, place / "rtrain"))
