"""Tests that a job never gains rights: files and programs that it names are used with its user's rights, and it sees no
secret of the agent.
"""

import os
import pathlib
import pwd
import shutil
import subprocess

import pytest
from jobs_on_disk import write_job
from mapped_users import PERSON, MappedUsers, submit_as

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="changes users")

EVIL = """
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void say(void) {
    int file = open(PLACE, O_WRONLY | O_APPEND);
    dprintf(file, "%d\\n", (int)geteuid());
    close(file);
}
"""
STATUS = "grep -E '^(NoNewPrivs|CapEff|CapPrm|CapInh|CapAmb|CapBnd):' /proc/self/status | tr -d '\\t'"
SETUP = {"setup": "true", "python": {"interpreter": "no-python-here"}}  # PERSON may not reach such an interpreter
NONE = "0000000000000000"


class AllowsSetuid(MappedUsers):
    def command(self, name, *arguments):
        return [*super().command(name, *arguments), *(["--allow-setuid"] if name != "head" else [])]


@pytest.fixture
def evil(folder):
    """Builds a library that records each program that loads it. Returns the library and the file of the records."""
    place, library, source = folder / "loaded-by", folder / "evil.so", folder / "evil.c"
    place.touch()
    place.chmod(0o666)
    source.write_text(EVIL)
    compiler = shutil.which("cc") or "cc"
    subprocess.run([compiler, "-shared", "-fPIC", f'-DPLACE="{place}"', "-o", library, source], check=True)
    library.chmod(0o755)
    return library, place


def printed(cluster, name):
    return cluster.rtrain("logs", name, "--stream", "out").splitlines()


def test_a_library_that_a_job_preloads_is_never_run_by_root(folder, evil):
    library, place = evil
    cluster = MappedUsers(folder / "cluster", nodes=1)
    try:
        env = {"LD_PRELOAD": str(library)}
        facts = submit_as(cluster, PERSON, write_job(folder, "evil", f"{STATUS}; true", env=env, **SETUP))
        assert facts["state"] == "SUCCEEDED", facts["reason"]
        loaded_by = place.read_text().split()
        assert set(loaded_by) == {str(pwd.getpwnam(PERSON).pw_uid)}
        assert printed(cluster, "evil") == [f"{one}:{NONE}" for one in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")] + [
            "NoNewPrivs:1"
        ]
    finally:
        cluster.stop()


def test_jobs_see_of_the_agents_environment_what_it_passes_on(folder, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-agent")
    monkeypatch.setenv("KEPT_FOR_JOBS", "yes")
    monkeypatch.setenv("TZ", "Europe/Madrid")
    cluster = MappedUsers(folder / "cluster", nodes=1, pass_env="LC_ALL,KEPT_*")
    try:
        job = write_job(folder, "sees", "env; echo ---; cat of-setup", **{**SETUP, "setup": "env > of-setup"})
        facts = submit_as(cluster, PERSON, job)
        assert facts["state"] == "SUCCEEDED", facts["reason"]
        lines = printed(cluster, "sees")
        of_worker, of_setup = set(lines[: lines.index("---")]), set(lines[lines.index("---") :])
        for seen in (of_worker, of_setup):
            assert not [line for line in seen if "of-the-agent" in line]
            assert {"KEPT_FOR_JOBS=yes", "TZ=Europe/Madrid", f"USER={PERSON}", f"LOGNAME={PERSON}"} <= seen
        agent = pathlib.Path(f"/proc/{cluster.daemons['node-1'].pid}/environ")
        assert b"of-the-agent" in agent.read_bytes()  # the agent's environment contains the secret
    finally:
        cluster.stop()


def test_an_operator_may_let_programs_of_jobs_gain_rights(folder):
    cluster = AllowsSetuid(folder / "cluster", nodes=1)
    try:
        facts = submit_as(cluster, PERSON, write_job(folder, "may", STATUS))
        assert facts["state"] == "SUCCEEDED", facts["reason"]
        lines = printed(cluster, "may")
        assert "NoNewPrivs:0" in lines and f"CapEff:{NONE}" in lines and f"CapBnd:{NONE}" not in lines
        refused = cluster.run(
            "node", "join", "h:1", "--token", "t", "--pass-env", "RTRAIN_TOKEN", "--name", "x", "--data", folder / "x"
        )
        assert refused.returncode == 2 and "RTRAIN_TOKEN is rtrain's own" in refused.stderr
    finally:
        cluster.stop()
