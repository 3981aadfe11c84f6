"""Tests `rtrain run`: N workers run a program without a job file, on a temporary local cluster or on the cluster of a
context.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import pytest
from local_cluster import RTRAIN, LocalCluster, wait_for

PROGRAM = """
import os, signal, sys, time
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], os.getcwd(), os.environ.get("MINE"), *sys.argv[1:], flush=True)
if "--fail" in sys.argv and os.environ["RANK"] == "1":
    print("what went wrong", file=sys.stderr, flush=True)
    os._exit(7)
if "--wait" in sys.argv:
    signal.signal(signal.SIGTERM, lambda *_: (print("saved", flush=True), os._exit(0)))
    pathlib = __import__("pathlib"); pathlib.Path(sys.argv[-1]).write_text(str(os.getpid()))
    signal.pause()
"""


@pytest.fixture
def place(tmp_path):
    """Returns a folder with a home directory without a context, and a work directory with train.py."""
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "temporary").mkdir()
    (tmp_path / "work" / "train.py").write_text(PROGRAM)
    return tmp_path


def environment(place):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RTRAIN_", "XDG_"))}
    # Sockets lie below TMPDIR, and their paths are short.
    return kept | {"HOME": str(place / "home"), "MINE": "kept", "TMPDIR": tempfile.gettempdir()}


def run(place, *words, env=None):
    command = [RTRAIN, "run", *map(str, words)]
    return subprocess.run(command, cwd=place / "work", env=env or environment(place), capture_output=True, text=True, timeout=120)


def start(place, *words, env=None):
    command = [RTRAIN, "run", *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=place / "work", env=env or environment(place), text=True, **pipes)


def owners():
    """Returns the pids of the processes that own a temporary local cluster."""
    return {int(file.read_text().split()[0]) for file in pathlib.Path(tempfile.gettempdir()).glob("rtrain-local-*/owner")}


def is_alive(pid):
    stat = pathlib.Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_program_runs_in_place_with_its_own_words(place):
    process = start(place, "-n", "2", "train.py", "-o", "json", "--", "-n", "7")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert out.splitlines() == [f"rank 0 of 2 {place / 'work'} kept -o json -- -n 7"]
    assert f"its files: {place}/home/rtrain_results/train-" in err
    assert process.pid not in owners()
    assert not (place / "home" / ".config").exists()


def test_a_module_and_a_program_that_is_not_python(place):
    (place / "work" / "pkg").mkdir()
    (place / "work" / "pkg" / "train.py").write_text(PROGRAM)
    done = run(place, "-n", "2x1", "python", "-m", "pkg.train", "x")
    assert (done.returncode, done.stdout.split()[:4]) == (0, ["rank", "0", "of", "2"]), done.stderr
    done = run(place, "sh", "-c", "echo $WORLD_SIZE of $RANK; exit 3")
    assert (done.returncode, done.stdout) == (3, "1 of 0\n"), done.stderr


FIT = """
import sys
import rtrain.train
from rtrain.train import ScalingConfig
from rtrain.train.torch import TorchTrainer
def loop():
    rtrain.train.report({"ranks": rtrain.train.get_context().get_world_size()})
print(TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=int(sys.argv[1]))).fit().metrics["ranks"])
"""


def test_a_program_that_calls_fit_runs_once(place):
    (place / "work" / "fit.py").write_text(FIT)
    environ = environment(place)
    environ["PATH"] = f"{pathlib.Path(sys.executable).parent}:{environ['PATH']}"
    done = run(place, "fit.py", "2", env=environ)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["2"]), done.stderr
    for workers in "0", "2":
        done = run(place, "-n", "2", "fit.py", workers, env=environ)
        assert done.returncode == 1
        assert "fit() was called in each of the 2 workers of run fit-" in done.stdout


def test_the_exit_code_is_that_of_the_first_rank_that_failed(place):
    done = run(place, "-n", "2", "train.py", "--fail")
    assert done.returncode == 7, done.stderr
    assert "rank 1 | what went wrong" in done.stdout
    assert "FAILED: rank 1 on node-1" in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_the_run_and_its_handler_saves(place, number, code):
    process = start(place, "train.py", "--wait", place / "worker")
    wait_for("the worker", (place / "worker").exists)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert "saved" in out
    assert "STOPPED" in err


def test_a_command_that_was_killed_leaves_no_daemon_and_no_worker(place):
    process = start(place, "train.py", "--wait", place / "worker")
    wait_for("the worker", lambda: (place / "worker").exists() and (place / "worker").read_text())
    worker = int((place / "worker").read_text())
    process.kill()
    process.wait()
    wait_for("the end of the worker", lambda: not is_alive(worker))
    assert process.pid in owners()
    # The next command removes the killed command's directory once the daemons of that cluster have ended.
    wait_for("the removal", lambda: run(place, "true").returncode == 0 and process.pid not in owners())


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["nope.py"], 3, "there is no file"),
        (["-n", "0", "train.py"], 2, "neither a number of workers"),
        (["-n", "2x", "train.py"], 2, "NODESxWORKERS"),
        (["--memory", "lots", "train.py"], 4, "wants an amount"),
        (["./train.py"], 2, ""),
        (["--memory", "90000Gi", "train.py"], 9, "memory"),
        (["-n", "2x1", "--gpus", "1", "train.py"], 2, "-n 2"),
        ([], 2, "rtrain run [flags] train.py|PROGRAM [ARGUMENT ...]"),
    ],
)
def test_what_cannot_run_is_refused(place, words, code, text):
    if words == ["./train.py"]:
        words = ["./work.sh"]
        (place / "work" / "work.sh").write_text("#!/bin/sh\n")
        text = "is not executable"
    done = run(place, *words)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert text in done.stderr


def test_the_cluster_of_a_context_gets_a_copy_of_the_directory(place):
    cluster = LocalCluster(place / "c", nodes=1, resources="CPU=2")
    try:
        done = run(place, "-n", "2", "--name", "mine", "train.py", "a", env=cluster.env)
        assert done.returncode == 0, done.stderr
        words = done.stdout.split()
        assert (words[:4], words[-1]) == (["rank", "0", "of", "2"], "a")
        assert str(place / "work") not in done.stdout
        assert cluster.json("describe", "mine")["state"] == "SUCCEEDED"
        process = start(place, "--name", "stopped", "train.py", "--wait", place / "worker", env=cluster.env)
        wait_for("the worker", (place / "worker").exists)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert cluster.json("describe", "stopped")["state"] == "STOPPED"
    finally:
        cluster.stop()
    done = run(place, "train.py", env=cluster.env)
    assert done.returncode == 5
    assert "rtrain run --local" in done.stderr
    assert run(place, "--local", "train.py", env=cluster.env).returncode == 0
