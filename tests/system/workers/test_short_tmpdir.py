"""Tests that a worker's TMPDIR is short wherever the agent keeps its files, so that a data loader's sockets fit, and that
jobs of a user id without a name have a user name.
"""

import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import cloudpickle
import pytest
from jobs_on_disk import JOBS, write_job
from local_cluster import ROOT, RTRAIN, LocalCluster, environment, free_port, wait_for
from mapped_users import PERSON, MappedUsers

MOST = 40  # maximum bytes of TMPDIR
NAMELESS = 54_321  # no passwd entry has this user id
PROGRAM = ["python", str(JOBS / "short_tmpdir.py")]
BARE = ["/usr/bin/python3", *PROGRAM[1:], "bare"]  # an interpreter that every user may run
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="changes users")


@pytest.fixture
def deep():
    """Makes a folder whose path has more than 72 characters, and which other users may enter."""
    top = pathlib.Path(tempfile.mkdtemp(prefix="rtrain-deep-"))
    path = top / ("d" * 40) / ("e" * 20)
    path.mkdir(parents=True)
    for folder in (top, path.parent, path):
        folder.chmod(0o755)
    yield path
    shutil.rmtree(top)


class Nameless(LocalCluster):
    """A cluster whose agents run as a user id without a name, in an environment without HOME, USER and LOGNAME."""

    def command(self, name, *arguments):
        if name == "head":
            return super().command(name, *arguments)
        become = ["setpriv", f"--reuid={NAMELESS}", f"--regid={NAMELESS}", "--clear-groups"]
        unset = [word for variable in ("HOME", "USER", "LOGNAME") for word in ("-u", variable)]
        return [*become, "env", *unset, *super().command(name, *arguments)]

    def start_head(self):
        self.folder.chmod(0o777)
        super().start_head()


def directory_of_root(data):
    """Returns the directory that root's agent uses outside of its data directory."""
    return pathlib.Path("/run") / f"rtrain-{hashlib.sha256(os.fsencode(str(data))).hexdigest()[:16]}"


def facts_of(logs):
    return [json.loads(line.split("facts ", 1)[1]) for line in logs.splitlines() if "facts " in line]


def run(cluster, folder, name, program=PROGRAM, **fields):
    cluster.rtrain("submit", write_job(folder, name, program, **fields))
    cluster.wait_state(name, "SUCCEEDED", "FAILED")
    assert cluster.json("describe", name)["state"] == "SUCCEEDED", cluster.rtrain("logs", name)
    return facts_of(cluster.rtrain("logs", name, "--stream", "out"))


def check(facts):
    assert facts["total"] in (None, 4 * sum(range(8)))
    assert len(facts["tmpdir"]) <= MOST and facts["python"] == facts["tmpdir"]
    assert facts["longest"] <= 107, "a Unix socket's path has at most 107 bytes"
    assert facts["target"] == facts["scratch"] and facts["mode"] == 0o700


@needs_root
def test_roots_agent_with_deep_data_gives_short_names_and_removes_them(deep):
    cluster = LocalCluster(deep / "cluster", nodes=1, resources="CPU=2")
    try:
        assert len(str(cluster.folder / "node-1")) >= 72
        own = directory_of_root(cluster.folder / "node-1")
        ranks = run(cluster, deep, "deep", workers=2)
        for facts in ranks:
            check(facts)
            assert facts["total"] is not None
            assert len(facts["target"]) > 72 and facts["tmpdir"].startswith(f"{own}/")
        assert len(ranks) == 2
        wait_for("the link to go with its attempt", lambda: [entry for entry in own.iterdir() if entry.is_symlink()] == [])
    finally:
        cluster.stop()
    assert not own.exists()


@needs_root
def test_an_agent_without_a_name_gives_its_jobs_one(deep):
    cluster = Nameless(deep / "cluster", nodes=1, resources="CPU=2")
    try:
        (facts,) = run(cluster, deep, "nameless", BARE)
        check(facts)
        assert len(facts["target"]) > 72
        assert facts["user"] == facts["logname"] == f"uid-{NAMELESS}"
        assert (
            facts["home"] == str(cluster.folder / "node-1" / "home")
            and pathlib.Path(facts["home"]).stat().st_mode & 0o777 == 0o700
        )
        own = pathlib.Path((cluster.folder / "node-1" / "short-directory").read_text())
        assert facts["tmpdir"].startswith(f"{own}/") and own.stat().st_uid == NAMELESS
        assert own.stat().st_mode & 0o7777 == 0o700
        (facts,) = run(cluster, deep, "named", BARE, env={"USER": "ana", "LOGNAME": "ana", "HOME": "/tmp"})
        assert (facts["user"], facts["home"]) == ("ana", "/tmp")
    finally:
        cluster.stop()
    assert not own.exists()


@needs_root
def test_a_killed_agents_links_are_removed_by_the_next_one(deep):
    cluster = Nameless(deep / "cluster", nodes=1, resources="CPU=2")
    try:
        cluster.rtrain("submit", write_job(deep, "sleeps", ["sh", "-c", "echo $TMPDIR; touch $TMPDIR/here; exec sleep 600"]))
        wait_for("its line", lambda: "/" in cluster.rtrain("logs", "sleeps", "--stream", "out"))
        link = pathlib.Path(cluster.rtrain("logs", "sleeps", "--stream", "out").split()[-1])
        wait_for("its file", lambda: (link / "here").exists())
        worker = cluster.json("describe", "sleeps")["attempt_list"][-1]["workers"][0]["pid"]
        cluster.kill("node-1")
        stray = link.parent / "77"
        stray.symlink_to("/nonexistent")  # simulates an agent that was killed between the link and its attempt
        assert (link / "here").exists()
        cluster.restart("node-1")
        wait_for("the link of no attempt to go", lambda: not stray.is_symlink())
        assert link.is_symlink()  # the attempt was adopted
        os.kill(worker, signal.SIGKILL)
        wait_for("the link to go with its attempt", lambda: not link.is_symlink())
    finally:
        cluster.stop()
    assert not link.parent.exists()


@needs_root
def test_users_of_roots_agent_do_not_look_into_each_others(deep):
    cluster = MappedUsers(deep / "cluster", nodes=1)
    try:
        for folder in (deep, cluster.folder):
            folder.chmod(0o755)
        look = "echo $TMPDIR; echo secret > $TMPDIR/file; stat -L -c '%a %U' $TMPDIR/; exec sleep 600"
        token = cluster.json("token", "create", "--role", "user", "--user", PERSON)["token"]
        job = write_job(deep, "mapped", ["sh", "-c", look], env={"PATH": "/usr/bin:/bin"})
        subprocess.run([RTRAIN, "submit", job], env={**cluster.env, "RTRAIN_TOKEN": token}, check=True, capture_output=True)
        printed = wait_for("its lines", lambda: cluster.rtrain("logs", "mapped", "--stream", "out").splitlines()[1:])
        assert printed == [f"700 {PERSON}"], cluster.rtrain("logs", "mapped")
        link = cluster.rtrain("logs", "mapped", "--stream", "out").splitlines()[0]
        assert len(link) <= MOST
        other = ["setpriv", "--reuid=daemon", "--regid=daemon", "--clear-groups"]
        assert subprocess.run([*other, "cat", f"{link}/file"], capture_output=True).returncode != 0
        for change in (["rm", link], ["ln", "-sfn", "/etc", link], ["touch", f"{pathlib.Path(link).parent}/1"]):
            assert subprocess.run([*other, *change], capture_output=True).returncode != 0
        cluster.rtrain("stop", "mapped", "--now", "--wait")
    finally:
        cluster.stop()


@needs_root
@pytest.mark.parametrize("how", ["up", "init", "slurm"])
def test_the_other_ways_to_start_an_agent_give_short_names_too(deep, how):
    """Starts each agent as a user other than root. `up`: HOME has more than 32 characters. `slurm`: the data directory is
    that of the script.
    """
    home = deep / "home-of-somebody-with-a-long-name"
    home.mkdir()
    os.chown(home, NAMELESS, NAMELESS)
    env = {**environment(home / "config.yaml"), "HOME": str(home), "TMPDIR": str(home), "USER": "ana"}
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        env.pop(name, None)
    become = ["setpriv", f"--reuid={NAMELESS}", f"--regid={NAMELESS}", "--clear-groups"]

    def start(*command):
        done = subprocess.run([*become, *map(str, command)], env=env, cwd=home, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    job = write_job(home, "loads", BARE)
    if how == "init":
        driver = home / "driver.py"
        driver.write_text(
            "import pathlib, subprocess, sys, rtrain\nrtrain.init(num_cpus=1)\n"
            f"print(subprocess.run([{str(RTRAIN)!r}, 'submit', {str(job)!r}, '-f'], capture_output=True, text=True).stdout)\n"
        )
        packages = home / "packages"
        shutil.copytree(pathlib.Path(cloudpickle.__file__).parent, packages / "cloudpickle")
        variables = [f"RTRAIN_BINARY={RTRAIN}", f"PYTHONPATH={ROOT}/runtime/python:{packages}"]
        logs = start("env", *variables, "/usr/bin/python3", driver)
    elif how == "up":
        start(RTRAIN, "up", "--port", free_port(), "--resources", "CPU=1")
        try:
            logs = start(RTRAIN, "submit", job, "-f")
        finally:
            start(RTRAIN, "down")
    else:
        node = home / "rtrain-1234567-a-node-of-the-cluster-AbCdEfGh" / "node"  # a name like those of the script's `mktemp`
        node.parent.mkdir()
        os.chown(node.parent, NAMELESS, NAMELESS)
        cluster = LocalCluster(deep / "cluster", nodes=0)
        try:
            token = cluster.json("token", "create", "--role", "node")["token"]
            cluster.command = lambda _, *arguments: [*become, str(RTRAIN), *map(str, arguments)]
            joins = ["node", "join", cluster.head_address(), "--token", token, "--name", "n", "--data", node, "--peer-port", 0]
            cluster.start("n", *joins, "--resources", "CPU=1")
            wait_for("the node", lambda: cluster.ready_nodes() == 1)
            (facts,) = run(cluster, home, "loads", BARE)
            check(facts)
        finally:
            cluster.stop()
    if how != "slurm":
        (facts,) = facts_of(logs)
        check(facts)
    assert not pathlib.Path(facts["tmpdir"]).parent.exists()
