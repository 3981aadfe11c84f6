"""Tests that `scripts/demo.py` leaves no daemon behind if a step fails or it is interrupted."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest
from local_cluster import ROOT, RTRAIN, wait_for


def processes_of(folder):
    """Returns {pid: command line} of the processes that name `folder`."""
    lines = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # the process has ended
            continue
        if str(folder) in line:
            lines[int(entry.parent.name)] = line
    return lines


def pids_of(folder, words):
    """Returns the pids of the processes that name `folder` and whose command line contains `words`."""
    return [pid for pid, line in processes_of(folder).items() if words in line]


@pytest.fixture
def demo(tmp_path):
    """Starts the demo with temporary files below `tmp_path`; `rtrain submit` fails there."""
    program = tmp_path / "rtrain"
    program.write_text(f"""#!/bin/sh
if [ "$1" = submit ]; then
  echo $$ > "$0.submits"
  [ -z "$SUBMIT_TAKES" ] || exec sleep "$SUBMIT_TAKES"
  exit 3
fi
exec "{RTRAIN}" "$@"
""")
    program.chmod(0o755)

    def start(**more):
        env = {**os.environ, "TMPDIR": str(tmp_path), "RTRAIN_BINARY": str(program), **more}
        return subprocess.Popen([sys.executable, ROOT / "scripts/demo.py"], env=env, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)  # fmt: skip

    return start


def test_a_step_that_fails_ends_the_demo_and_its_daemons(demo, tmp_path):
    process = demo()
    _, errors = process.communicate(timeout=180)
    assert process.returncode == 1 and "`rtrain submit" in errors and "every daemon is stopped" in errors, errors
    assert processes_of(tmp_path) == {}


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_ends_the_demo_and_its_daemons(demo, tmp_path, name):
    process = demo(SUBMIT_TAKES="600")
    wait_for("the submission", (tmp_path / "rtrain.submits").exists)
    process.send_signal(getattr(signal, name))
    _, errors = process.communicate(timeout=180)
    assert process.returncode == 1 and f"interrupted by {name}" in errors, errors
    assert processes_of(tmp_path) == {}


def test_a_signal_while_daemons_end_leaves_none_of_them(demo, tmp_path):
    process = demo(SUBMIT_TAKES="600")
    wait_for("the submission", (tmp_path / "rtrain.submits").exists)
    (agent,) = pids_of(tmp_path, "--name node-2")
    os.kill(agent, signal.SIGSTOP)
    os.kill(int(wait_for("the submission's pid", (tmp_path / "rtrain.submits").read_text)), signal.SIGKILL)
    wait_for("the head's end", lambda: not pids_of(tmp_path, "head start"))
    process.send_signal(signal.SIGTERM)
    os.kill(agent, signal.SIGCONT)
    _, errors = process.communicate(timeout=180)
    assert process.returncode == 1 and processes_of(tmp_path) == {}, errors
