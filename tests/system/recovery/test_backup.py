"""Backups of a head: what a backup brings back, who may make and read it, and what a restore refuses."""

import subprocess

import pytest
from local_cluster import RTRAIN, environment, free_port


@pytest.fixture
def home(tmp_path):
    return {**environment(tmp_path / "config.yaml"), "XDG_DATA_HOME": str(tmp_path / "data")}


def run_in(env, *arguments, **more):
    return subprocess.run([RTRAIN, *map(str, arguments)], env=env, capture_output=True, text=True, timeout=60, **more)


def test_a_head_with_records_makes_no_new_authority_unless_it_is_told_to(home, tmp_path):
    data = tmp_path / "head"
    start = ("head", "start", "--detach", "--port", free_port(), "--data", data)
    try:
        assert run_in(home, *start).returncode == 0
        assert run_in(home, "head", "stop", "--data", data).returncode == 0
        for name in ("ca.crt", "ca.key"):
            (data / name).unlink()
        refused = run_in(home, *start)
        assert refused.returncode == 3 and "not its authority" in refused.stderr, refused.stdout + refused.stderr
        assert "rtrain head restore" in refused.stderr and not (data / "ca.crt").exists()
        begun = run_in(home, *start, "--new-ca")
        assert begun.returncode == 0, begun.stderr
        assert (data / "ca.key").stat().st_mode & 0o777 == 0o600
        assert run_in(home, "head", "stop", "--data", data).returncode == 0
        assert run_in(home, *start).returncode == 0
    finally:
        run_in(home, "head", "stop", "--data", data)
