"""Tests scripts/gpu-check itself: without a GPU, past its deadline, and from its archive with PyTorch only."""

import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from gpu_check import machine, pack, stand_in
from gpu_check_run import ROOT, run, verdicts
from local_cluster import RTRAIN, wait_for

WITHOUT_BINARY = {name: value for name, value in os.environ.items() if name != "RTRAIN_BINARY"}


@pytest.mark.skipif(bool(machine.gpus_or_reason()[0]), reason="there is a GPU")
def test_without_a_gpu_it_says_so_and_checks_nothing():
    done = run(env={**os.environ, "PATH": "/usr/bin:/bin"})
    assert done.returncode == 3
    assert re.fullmatch(r"no GPU: NVML says: .*; nvidia-smi .*; nothing was checked\n", done.stdout), done.stdout
    done = run("-o", "json", "nccl")
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["mode"], answer["rows"]) == (3, "none", [])


def test_arguments_that_are_none():
    for wrong in (("nothing",), ("--cpu-gpus", "0"), ("--checkpoint-gb", "0")):
        done = run(*wrong)
        assert done.returncode == 2 and "scripts/gpu-check: error" in done.stderr


def test_without_the_program_it_names_what_is_missing(tmp_path):
    done = run("--cpu", env={**os.environ, "RTRAIN_BINARY": str(tmp_path / "rtrain")})
    assert done.returncode == 4 and f"{tmp_path}/rtrain is not there" in done.stdout


@pytest.mark.skipif(bool(machine.gpus_or_reason()[0]), reason="there is a GPU")
def test_gpus_that_pytorch_cannot_use_or_may_not_see(tmp_path):
    env = {**os.environ, **stand_in.make(tmp_path / "driver", 1, ROOT)}
    env.pop("CUDA_VISIBLE_DEVICES", None)
    done = run(env=env)
    assert done.returncode == 4 and re.match(r"there are GPUs, but PyTorch .* (has no CUDA|finds none)", done.stdout), done.stdout
    done = run(env={**env, "CUDA_VISIBLE_DEVICES": "0"})
    assert done.returncode == 4 and done.stdout.startswith("CUDA_VISIBLE_DEVICES is set here"), done.stdout


def processes_below(folder):
    """Pids of processes whose command line names a file below `folder`."""
    pids = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if os.fsencode(f"{folder}/") in command and int(entry.name) != os.getpid():
            pids.append(int(entry.name))
    return pids


def test_a_group_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path):
    code, rows, _ = verdicts("--cpu", "--group-seconds", "3", "--dir", tmp_path, "memory")
    ended = rows["memory", "the group"]
    assert (code, ended["verdict"], ended["reason"]) == (1, "FAILED", "took longer than 3 s")
    assert not processes_below(tmp_path)
    assert not list(tmp_path.iterdir())


def test_what_a_killed_command_had_started_ends_too(tmp_path):
    command = [sys.executable, str(ROOT / "scripts" / "gpu-check"), "--cpu", "--dir", str(tmp_path), "memory"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as killed:
        wait_for("the head", lambda: any(tmp_path.glob("*/memory/cluster/head/ca.crt")), 120)
        killed.kill()
    wait_for("the end of all", lambda: not processes_below(tmp_path), 60)


def only_torch(folder):
    """Fills a folder with PyTorch and its dependencies from this interpreter's packages, and with nothing else."""
    wanted, taken = ["torch"], set()
    while wanted:
        name = wanted.pop()
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if name in taken:
            continue
        taken.add(name)
        needs = [one for one in distribution.requires or () if "extra ==" not in one]
        wanted += [re.match(r"[\w.-]+", one)[0].lower() for one in needs]
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            link = folder / top
            if not link.exists():
                link.symlink_to(distribution.locate_file(top))


def test_the_archive_runs_beside_pytorch_alone(tmp_path):
    archive = tmp_path / "carried.tar.gz"
    done = run("--pack", archive)
    assert done.returncode == 0 and " MiB" in done.stdout, done.stderr
    assert archive.stat().st_size < pack.MOST_BYTES
    subprocess.run(["tar", "-xf", archive, "-C", tmp_path], check=True)
    root = tmp_path / pack.FOLDER
    assert (root / "build/release/rtrain").stat().st_size < pathlib.Path(RTRAIN).stat().st_size
    packages = tmp_path / "packages"
    packages.mkdir()
    only_torch(packages)
    names = {path.name for path in packages.iterdir()}
    assert {"torch", "typing_extensions.py"} <= names and not {"numpy", "cloudpickle", "yaml"} & names
    python = pathlib.Path(sys.base_prefix) / "bin" / "python3"
    env = {**WITHOUT_BINARY, "PYTHONPATH": str(packages), "PYTHONNOUSERSITE": "1"}
    code, rows, _ = verdicts("--cpu", "--cpu-gpus", "1", "--dir", tmp_path, "nccl", "actors", root=root, python=python, env=env)
    reasons = {key: row["reason"] for key, row in rows.items() if row["verdict"] == "skipped"}
    assert reasons == {
        ("nccl", "a worker for each GPU"): "needs 2 GPUs",
        ("nccl", "a worker on each of two nodes"): "needs 2 GPUs",
        ("nccl", "TorchTrainer.fit(), use_gpu"): "needs the Python packages zstandard",
    }
    assert code == 0, {key: row["reason"] for key, row in rows.items() if row["verdict"] == "FAILED"}
