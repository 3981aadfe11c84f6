"""Tests paths with a space and an umlaut everywhere: the program, a user's home and configuration, the cluster's data, a
project with its script, a setup, an interpreter, a storage path.
"""

import json
import os
import pathlib
import shlex
import subprocess

import pytest
from local_cluster import ROOT, environment, program_in

TRAIN = """\
import os, pathlib, sys
import rtrain.train
from rtrain.train import Checkpoint
assert sys.argv[1:] == ["a word", "plätze"], sys.argv
where = rtrain.train.get_context().get_world_rank()
print("rank", where, pathlib.Path("with a space.txt").read_text(), (pathlib.Path(os.environ["RTRAIN_WORKING_DIR"]) / "made").exists())
with rtrain.train.checkpoint_dir() as folder:
    pathlib.Path(folder, f"rank {where}.txt").write_text("kept")
    rtrain.train.report({"step": 1}, checkpoint=Checkpoint(folder))
"""
DRIVER = """\
from rtrain.train import DataParallelTrainer, ScalingConfig, get_context
import names_of_places
def loop():
    print("from", get_context().get_world_rank(), names_of_places.HERE)
DataParallelTrainer(loop, scaling_config=ScalingConfig(num_workers=1)).fit()
"""


class Place:
    def __init__(self, folder):
        self.folder = folder / "odd plätze"
        self.program = program_in(self.folder / "a program")
        self.project = self.folder / "my project"
        self.project.mkdir()
        (self.folder / "home").mkdir()
        self.env = {
            **environment(self.folder / "my config.yaml"),
            "HOME": str(self.folder / "home"),
            "XDG_DATA_HOME": str(self.folder / "my data"),
            "RTRAIN_BINARY": str(self.program),
            "PYTHONPATH": str(ROOT / "runtime" / "python"),
        }

    def run(self, *words):
        command = [self.program, *map(str, words)]
        return subprocess.run(command, env=self.env, cwd=self.project, capture_output=True, text=True)

    def rtrain(self, *words):
        done = self.run(*words)
        assert done.returncode == 0, f"rtrain {' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    made = Place(tmp_path_factory.mktemp("place"))
    made.rtrain("up", "--port", 0, "--resources", "CPU=3", "--pass-env", "PYTHONPATH")
    yield made
    made.rtrain("down", "--yes")


def test_a_job_with_a_setup_trains_and_keeps_its_files(place):
    (place.project / "train it.py").write_text(TRAIN)
    (place.project / "with a space.txt").write_text("is read")
    python = place.folder / "my python"
    os.symlink(ROOT / ".venv" / "bin" / "python", python)
    job = {
        "version": 1,
        "name": "odd",
        "entrypoint": f"{shlex.quote(str(python))} 'train it.py' 'a word' plätze",
        "working_dir": ".",
        "setup": "echo made > made",
        "storage_path": str(place.folder / "all runs"),
        "scaling": {"workers": 2},
    }
    (place.project / "my job.yaml").write_text(json.dumps(job))
    assert "valid" in place.rtrain("validate", "my job.yaml")
    printed = place.rtrain("submit", "my job.yaml", "-f")
    lines = sorted(line.partition("| ")[2] for line in printed.splitlines())
    assert lines == ["rank 0 is read True", "rank 1 is read True"], printed
    (checkpoint,) = (place.folder / "all runs" / "odd").glob("checkpoint_*")
    assert {file.name for file in checkpoint.glob("rank*")} == {"rank 0.txt", "rank 1.txt"}
    assert checkpoint.name in place.rtrain("checkpoints", "list", place.folder / "all runs" / "odd")
    place.rtrain("checkpoints", "verify", place.folder / "all runs" / "odd")
    again = place.rtrain("restore", place.folder / "all runs" / "odd", "--set", "entrypoint=echo gone on", "-f")
    assert again.count("gone on") == 2, again


def test_a_driver_trains_there_by_submit_and_by_hand(place):
    (place.project / "names_of_places.py").write_text("HERE = 'the odd place'\n")
    (place.project / "my driver.py").write_text(DRIVER)
    printed = place.run("submit", "my driver.py", "-f", "--set", f"python.interpreter={ROOT}/.venv/bin/python")
    assert printed.returncode == 0 and "the odd place" in printed.stdout, printed.stdout + printed.stderr
    command = [ROOT / ".venv" / "bin" / "python", "my driver.py"]
    by_hand = subprocess.run(command, env=place.env, cwd=place.project, capture_output=True, text=True)
    assert by_hand.returncode == 0 and "from 0 the odd place" in by_hand.stdout, by_hand.stdout + by_hand.stderr


def test_a_cluster_of_init_lives_there_too(place):
    script = "import rtrain\nrtrain.init('local', num_cpus=1)\nprint(rtrain.get(rtrain.remote(lambda: 6 * 7).remote()))"
    env = {**place.env, "TMPDIR": str(place.folder), "HOME": str(place.folder / "home")}
    command = [ROOT / ".venv" / "bin" / "python", "-c", script]
    done = subprocess.run(command, env=env, cwd=place.project, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.split() == ["42"], done.stdout + done.stderr


def test_a_node_and_its_unit_are_written_for_it(place):
    with_data = ("node", "install", "head:7433", "--root", place.folder / "image", "--data", place.folder / "a node")
    image = place.folder / "image" / str(place.program).lstrip("/")
    image.parent.mkdir(parents=True)
    image.write_text("#!/bin/sh\n")
    for folder in [image, *image.parents]:
        if folder.is_relative_to(place.folder / "image"):
            folder.chmod(0o755)
    place.rtrain(*with_data)
    unit = pathlib.Path(place.folder / "image/etc/systemd/system/rtrain-node.service").read_text()
    assert f'ExecStart="{place.program}" node join head:7433 --data "{place.folder}/a node"' in unit
