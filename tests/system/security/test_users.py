"""Tests the user of workers: a root agent uses the token's user and refuses root. Also tests all of it without root."""

import os
import pwd
import shutil
import subprocess

import pytest
from jobs_on_disk import write_job
from local_cluster import RTRAIN, LocalCluster
from mapped_users import PERSON, WORKER, MappedUsers, submit_as

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="changes users")


class WithoutRoot(LocalCluster):
    def start_head(self):
        shutil.chown(self.folder, PERSON)
        super().start_head()

    def command(self, name, *arguments):
        group = pwd.getpwnam(PERSON).pw_gid
        return ["setpriv", f"--reuid={PERSON}", f"--regid={group}", "--clear-groups", *super().command(name, *arguments)]


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


def run_raw_worker(cluster, folder, name, what, target):
    """Runs a worker of PERSON that implements the worker's protocol itself. Returns the run's events and directory."""
    script = folder / "worker.py"
    script.write_text(WORKER)
    script.chmod(0o644)
    runs = folder / "runs"
    runs.mkdir(exist_ok=True)
    shutil.chown(runs, PERSON)
    facts = submit_as(
        cluster, PERSON, write_job(folder, name, ["python3", str(script), what, str(target)], storage_path=str(runs))
    )
    assert facts["state"] == "SUCCEEDED", facts["reason"]
    return cluster.rtrain("events", "--run", name), runs / name


def test_a_worker_cannot_have_the_root_agent_take_or_remove_what_is_not_its_own(folder):
    precious = folder / "precious"
    precious.mkdir(mode=0o700)
    (precious / "file").write_text("for root alone")
    (precious / "file").chmod(0o600)
    readable = folder / "readable"
    readable.write_text("for all")
    cluster = MappedUsers(folder / "cluster", nodes=1)
    try:
        reply, run = run_raw_worker(cluster, folder, "foreign", "foreign", precious)
        assert (precious / "file").read_text() == "for root alone"
        assert f"names '{precious}' as its checkpoint" in reply, reply
        assert not list(run.glob("checkpoint_*"))

        reply, run = run_raw_worker(cluster, folder, "peeks", "links", precious / "file")
        assert not [path for path in run.rglob("*") if path.is_file() and "for root alone" in path.read_text()]
        assert "x is a link that leads out of its directory" in reply, reply

        reply, run = run_raw_worker(cluster, folder, "leads-out", "links", readable)
        assert "x is a link that leads out of its directory" in reply and not list(run.glob("checkpoint_*")), reply

        reply, run = run_raw_worker(cluster, folder, "links", "links", "newest")
        (made,) = run.glob("checkpoint_*")
        assert {name: (made / name).read_text() for name in ("model.bin", "newest", "x")} == {
            "model.bin": "weights",
            "newest": "weights",
            "x": "weights",
        }
        assert not any(path.is_symlink() for path in made.iterdir()) and readable.read_text() == "for all"
        assert {path.owner() for path in [run, *run.rglob("*")]} == {PERSON}
    finally:
        cluster.stop()


def test_what_lies_below_a_storage_path_is_written_with_the_rights_of_the_runs_user(folder):
    forbidden, runs, outside = folder / "forbidden", folder / "runs", folder / "outside"
    for made in (forbidden, runs, outside):
        made.mkdir()
    shutil.chown(runs, PERSON)
    (outside / "precious").write_text("root's")
    cluster = MappedUsers(folder / "cluster", nodes=1)
    try:
        for name, place in [("refused", forbidden), ("not-made", forbidden / "below")]:
            facts = submit_as(cluster, PERSON, write_job(folder, name, "true", storage_path=str(place)))
            assert facts["state"] == "FAILED" and f"user '{PERSON}' may not write there" in facts["reason"], facts["reason"]
            assert "node-1: storage path " + str(place) in facts["reason"] and "or name a storage_path" in facts["reason"]
        assert not list(forbidden.iterdir())

        script = f"mv {runs}/swapped {runs}/real && ln -s {outside} {runs}/swapped; echo done"
        submit_as(cluster, PERSON, write_job(folder, "swapped", script, storage_path=str(runs)))
        assert [path.name for path in outside.iterdir()] == ["precious"]

        first = write_job(folder, "old", "echo first", storage_path=str(runs))
        assert submit_as(cluster, PERSON, first)["state"] == "SUCCEEDED"
        old = runs / "old"
        for path in [old, *old.rglob("*")]:
            os.chown(path, 0, 0)  # an agent of an earlier version wrote them as root
        os.link(outside / "precious", old / "attempts" / "linked")
        token = cluster.json("token", "create", "--role", "user", "--user", PERSON)["token"]
        again = {**cluster.env, "RTRAIN_TOKEN": token}
        done = subprocess.run([RTRAIN, "submit", first, "--resume", "-f"], env=again, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert {path.owner() for path in [old, *old.rglob("*")] if path.name != "linked"} == {PERSON}
        assert (outside / "precious").owner() == "root"
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


def test_an_agent_that_is_not_root_says_that_it_does_not_separate_users(folder):
    cluster = WithoutRoot(folder / "cluster", nodes=1)
    try:
        printed = (cluster.folder / "node-1.log").read_text()
        assert "this agent is not root: all jobs on this node run as its user, who can read the node's key" in printed
        assert "all jobs there run as one user, who can read the node's key" in cluster.run("doctor").stdout
    finally:
        cluster.stop()
    cluster = MappedUsers(folder / "mapped", nodes=1)
    try:
        assert "not root" not in (cluster.folder / "node-1.log").read_text() + cluster.run("doctor").stdout
    finally:
        cluster.stop()
