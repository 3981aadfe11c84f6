"""Who workers run as: a root agent gives them the token's user, and refuses root; and everything without root at all."""

import json
import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile

import pytest
from jobs_on_disk import write_job
from local_cluster import RTRAIN, LocalCluster

PERSON = "nobody"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="changes users")


@pytest.fixture
def folder():
    """Other users may look into it, unlike pytest's own."""
    made = pathlib.Path(tempfile.mkdtemp(prefix="rtrain-users-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


class MappedUsers(LocalCluster):
    def command(self, name, *arguments):
        return [word for word in super().command(name, *arguments) if word != "--allow-root-workers"]


class WithoutRoot(LocalCluster):
    def start_head(self):
        shutil.chown(self.folder, PERSON)
        super().start_head()

    def command(self, name, *arguments):
        group = pwd.getpwnam(PERSON).pw_gid
        return ["setpriv", f"--reuid={PERSON}", f"--regid={group}", "--clear-groups", *super().command(name, *arguments)]


def submit_as(cluster, user, path):
    """The run's state and reason at its end."""
    token = cluster.json("token", "create", "--role", "user", "--user", user)["token"]
    subprocess.run([RTRAIN, "submit", path, "-f"], env={**cluster.env, "RTRAIN_TOKEN": token}, capture_output=True, text=True)
    return cluster.json("describe", json.loads(path.read_text())["name"])


def test_a_root_agent_runs_workers_as_the_tokens_user_and_refuses_root(folder):
    cluster = MappedUsers(folder / "cluster", nodes=1)
    try:
        script = 'id -un; id -G; echo "$HOME $USER"; touch file_of_worker && stat -c %U file_of_worker'
        facts = submit_as(cluster, PERSON, write_job(folder, "mapped", script))
        assert facts["state"] == "SUCCEEDED" and facts["user"] == PERSON, facts["reason"]
        person = pwd.getpwnam(PERSON)
        lines = cluster.rtrain("logs", "mapped", "--stream", "out").splitlines()
        assert lines == [PERSON, str(person.pw_gid), f"{person.pw_dir} {PERSON}", PERSON]
        for user, why in [("root", "would run as root"), ("no-such-person", "there is no user")]:
            facts = submit_as(cluster, user, write_job(folder, f"as-{user}", "id"))
            assert facts["state"] == "FAILED" and why in facts["reason"] and "--allow-root-workers" in facts["reason"]
    finally:
        cluster.stop()


def test_head_agent_and_a_whole_job_without_root(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    cluster = WithoutRoot(folder / "cluster", nodes=1)
    try:
        done = cluster.run("submit", write_job(folder, "plain", "id -un; echo made > file; cat file"), "-f")
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [PERSON, "made"]
        assert all(path.owner() == PERSON for path in (cluster.folder / "head").iterdir())
    finally:
        cluster.stop()
