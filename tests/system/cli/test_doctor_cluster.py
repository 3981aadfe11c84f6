"""Tests `rtrain doctor --cluster` on two nodes, one of which has a Python without PyTorch on its agent's PATH."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from local_cluster import LocalCluster


class TwoPythons(LocalCluster):
    """The PATH of node-2's agent begins with a folder whose `python` is the interpreter below the virtual environment."""

    def start(self, name, *arguments):
        before = self.env
        if name == "node-2":
            folder = self.folder / "other-python"
            folder.mkdir(exist_ok=True)
            (folder / "python").symlink_to(os.path.realpath(sys.executable))
            self.env = {**before, "PATH": f"{folder}:/usr/bin:/bin"}
        try:
            super().start(name, *arguments)
        finally:
            self.env = before


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    base = subprocess.run([os.path.realpath(sys.executable), "-c", "import torch"], capture_output=True)
    if base.returncode == 0:
        pytest.skip("the interpreter below this virtual environment has PyTorch too")
    made = TwoPythons(tmp_path_factory.mktemp("doctor") / "c", nodes=2, resources="CPU=1")
    yield made
    made.stop()


def findings(cluster, *flags):
    done = cluster.run("doctor", "--cluster", *flags, "-o", "json")
    answer = json.loads(done.stdout)
    return done.returncode, answer["healthy"], [(one["check"], one["state"], one["text"], one["next"]) for one in answer["items"]]


def test_the_node_with_the_wrong_python_is_named_and_the_other_is_well(cluster):
    code, healthy, items = findings(cluster)
    assert (code, healthy) == (1, False)
    failed = [item for item in items if item[1] == "fail"]
    assert [item[0] for item in failed] == ["node node-2", "node node-2"], items
    assert "cannot import torch: ModuleNotFoundError: No module named 'torch'" in failed[0][2]
    assert str(cluster.folder / "other-python") in failed[0][2] or os.path.realpath(sys.executable) in failed[0][2]
    assert "has no rtrain" in failed[1][2] and "install the wheel of version 0.1.0" in failed[1][3]
    well = [item[2] for item in items if item[0] == "node node-1" and item[1] == "ok"]
    assert any("torch" in text and "rtrain 0.1.0" in text and "it stores in cluster://" in text for text in well), items


def test_the_programs_of_the_check_leave_no_run(cluster):
    findings(cluster)
    assert [run["name"] for run in cluster.json("runs", "--all")["items"] if run["name"].startswith("doctor")] == []


def test_an_interpreter_can_be_named_and_one_that_is_missing_is_a_failure(cluster):
    code, healthy, items = findings(cluster, "--interpreter", sys.executable)
    assert (code, healthy) == (0, True), items
    code, _, items = findings(cluster, "--interpreter", "/no/such/python")
    failed = [item for item in items if item[1] == "fail"]
    assert code == 1 and [item[0] for item in failed] == ["node node-1", "node node-2"], items
    assert all("no Python program ran there" in item[2] and "--interpreter" in item[3] for item in failed), failed


def test_a_storage_path_that_the_node_cannot_write_is_a_failure(cluster, tmp_path):
    file = pathlib.Path(tmp_path, "a-file")
    file.write_text("")
    code, _, items = findings(cluster, "--interpreter", sys.executable, "--storage-path", str(file / "below"))
    assert code == 1, items
    assert {item[0] for item in items if item[1] == "fail"} == {"node node-1", "node node-2"}, items
