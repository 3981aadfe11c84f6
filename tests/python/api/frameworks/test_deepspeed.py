"""DeepSpeed's ZeRO on two CPU ranks, and on with one. The tests' environment does not include it: scripts/frameworks runs this."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[4]
IS_THERE = importlib.util.find_spec("deepspeed") is not None
pytestmark = pytest.mark.skipif(
    not IS_THERE and os.environ.get("RTRAIN_FRAMEWORKS") != "required", reason="deepspeed is not installed"
)


def trained(cluster, *options):
    """Runs the example. Returns its last loss."""
    command = [sys.executable, str(ROOT / "examples" / "deepspeed" / "train.py"), *map(str, options)]
    environment = {**cluster.environment, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return float(done.stdout.rsplit("loss ", 1)[1].split()[0])


@pytest.fixture(scope="module")
def undisturbed(cluster, tmp_path_factory):
    """The losses of epochs 0 and 1 without ZeRO, in one run each."""
    return [
        trained(
            cluster, "--stage", 0, "--epochs", epochs, "--name", cluster.name("zero"), "--storage", tmp_path_factory.mktemp("z")
        )
        for epochs in (1, 2)
    ]


@pytest.mark.parametrize("stage", range(4))
def test_zero_trains_alike_and_goes_on_with_another_number_of_ranks(stage, undisturbed, cluster, tmp_path):
    options = ("--stage", stage, "--name", cluster.name("zero"), "--storage", tmp_path)
    assert trained(cluster, *options, "--epochs", 1) == pytest.approx(undisturbed[0], abs=2e-5)
    assert trained(cluster, *options, "--epochs", 2, "--workers", 1) == pytest.approx(undisturbed[1], abs=2e-5)
