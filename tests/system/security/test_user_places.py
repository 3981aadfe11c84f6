"""Tests a job's files on a node: which its user can write, and that another user can read none."""

import json
import os
import pathlib
import pwd
import subprocess

import pytest
from jobs_on_disk import write_job
from local_cluster import RTRAIN, LocalCluster, wait_for
from mapped_users import PERSON, WORKER, MappedUsers, submit_as

OTHER = "daemon"
PATH = {"PATH": "/usr/bin:/bin"}  # an interpreter that every user may run
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="changes users")

LOOK = """
import json, os, sys
paths = json.load(sys.stdin)
print(json.dumps({what: [path for path in paths if os.access(path, mode)] for what, mode in [("read", os.R_OK), ("write", os.W_OK)]}))
"""


def seen_by(user, top):
    """Returns the paths below `top` that `user` may read and write if every name is known. Links are left out, since only
    their targets count.
    """
    paths = [str(path) for path in top.rglob("*") if not path.is_symlink() and not path.is_socket()]
    person = pwd.getpwnam(user)
    become = ["setpriv", f"--reuid={person.pw_uid}", f"--regid={person.pw_gid}", "--clear-groups"]
    done = subprocess.run(
        [*become, "/usr/bin/python3", "-c", LOOK], input=json.dumps(paths), capture_output=True, text=True, check=True
    )
    return {what: [pathlib.Path(path).relative_to(top) for path in places] for what, places in json.loads(done.stdout).items()}


def owned_by_user(path):
    """Returns true for start directories, files that `setup:` made, caches of compiled code, and scratch directories."""
    parts = path.parts
    return (
        (parts[0] == "attempts" and parts[2].startswith("rank-") and parts[3:4] == ("cwd",))
        or (parts[0] == "setups" and parts[2:3] in (("work",), ("venv",)))
        or (parts[0] == "caches" and parts[2:3] == ("files",))
        or (parts[0] == "scratch" and len(parts) > 1)
    )


def submit_and_wait(cluster, user, path):
    token = cluster.json("token", "create", "--role", "user", "--user", user)["token"]
    subprocess.run([RTRAIN, "submit", path], env={**cluster.env, "RTRAIN_TOKEN": token}, check=True, capture_output=True)
    wait_for("the worker's file", lambda: list(cluster.folder.glob("node-1/attempts/*/rank-00000/cwd/there")), seconds=60)


def test_a_user_writes_where_only_he_reads_and_the_agents_own_files_are_nobodys(folder):  # noqa: F811
    cluster = MappedUsers(folder / "cluster", nodes=1)
    try:
        code = folder / "code"
        code.mkdir()
        (code / "train.sh").write_text("echo secret > $TMPDIR/scratch; cp train.sh there; sleep 600\n")
        fields = {"working_dir": "code", "setup": "echo made > made.txt; echo said", "env": PATH}
        submit_and_wait(cluster, PERSON, write_job(folder, "places", ["sh", "train.sh"], **fields))
        node = cluster.folder / "node-1"

        own = seen_by(PERSON, node)
        assert [path for path in own["write"] if not owned_by_user(path)] == []
        for name in ("cwd/train.sh", "cwd/there", "work/made.txt", "scratch/"):
            assert any(name in str(path) for path in own["write"]), name

        others = seen_by(OTHER, node)
        assert others["write"] == []
        assert {path.name for path in others["read"]} <= {
            "agent.pid",
            "peer-port",
            "bin",
            "python",
        }  # `python` starts an interpreter
        assert seen_by(PERSON, cluster.folder / "head") == seen_by(OTHER, cluster.folder / "head") == {"read": [], "write": []}
    finally:
        cluster.stop()


def test_root_follows_no_link_that_a_setup_leaves(folder):  # noqa: F811
    precious = folder / "precious"
    precious.write_text("the administrator's")
    precious.chmod(0o600)
    cluster = MappedUsers(folder / "cluster", nodes=1)
    try:
        setup = f"for name in done done.new; do ln -s {precious} ../$name; done; true"
        submit_and_wait(cluster, PERSON, write_job(folder, "links", "touch there; sleep 600", setup=setup, env=PATH))
        assert precious.read_text() == "the administrator's"
        (mark,) = cluster.folder.glob("node-1/setups/*/done")
        assert not mark.is_symlink() and mark.owner() == mark.parent.owner() == "root"
    finally:
        cluster.stop()


GOES_ON = """
checkpoint = hear("welcome")["checkpoint"]
if checkpoint:
    print(open(checkpoint["path"] + "/model.bin").read(), os.listdir(checkpoint["path"]), oct(os.stat(checkpoint["path"]).st_mode & 0o777))
    sys.exit(0)
send(type="stage")
stage = hear("staged")["path"]
open(stage + "/model.bin", "w").write("weights")
report(1, stage, "async")
hear("committed")
sys.exit(1)
"""


def test_a_worker_reads_the_checkpoint_that_it_starts_from(folder):  # noqa: F811
    script = folder / "worker.py"
    script.write_text(WORKER.partition('hear("welcome")')[0] + GOES_ON)
    script.chmod(0o644)
    cluster = MappedUsers(folder / "cluster", nodes=1)
    try:
        failure = {"max_failures": 1, "backoff": "100ms..1s"}
        facts = submit_as(cluster, PERSON, write_job(folder, "again", ["python3", str(script)], failure=failure))
        assert facts["state"] == "SUCCEEDED" and facts["attempts"] == 2, facts["reason"]
        assert cluster.rtrain("logs", "again", "--stream", "out").splitlines()[-1] == "weights ['model.bin'] 0o500"
    finally:
        cluster.stop()


class StorageElsewhere(LocalCluster):
    def start_head(self):
        storage = self.folder.parent / "results"
        self.start("head", "head", "start", "--port", self.port, "--data", self.folder / "head", "--storage-root", storage)


@pytest.mark.parametrize("made", [None, 0o700, 0o755])
def test_what_runs_keep_at_the_head_is_open_to_others_only_where_an_operator_made_it_so(folder, made):  # noqa: F811
    if made:
        (folder / "results").mkdir()
        (folder / "results").chmod(made)
    cluster = StorageElsewhere(folder / "cluster", nodes=0)
    try:
        assert (folder / "results").stat().st_mode & 0o777 == (made or 0o700)
    finally:
        cluster.stop()
