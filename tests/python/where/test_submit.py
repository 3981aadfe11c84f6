"""`rtrain submit train.py`: the driver runs on a node, takes no CPU, and its trainings end with it when it is stopped."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from homes import Home, wait_for

DRIVER = """
import sys, threading
import rtrain.train as train
from rtrain.train import DataParallelTrainer, RunConfig, ScalingConfig

def loop(config):
    train.report({"asked": config["asked"]})
    if config["asked"] == "--for-ever":
        threading.Event().wait()
    return "trained"

trainer = DataParallelTrainer(
    loop,
    train_loop_config={"asked": sys.argv[1]},
    scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 1}),
    run_config=RunConfig(name="inner"),
)
result = trainer.fit()
print("driver:", result.return_value, result.metrics["asked"], flush=True)
"""


@pytest.fixture
def cluster(home: Home) -> Iterator[Home]:
    home.rtrain("up", "--port", "0", "--resources", "CPU=2")
    (home.folder / "code").mkdir()
    (home.folder / "code" / "train.py").write_text(DRIVER)
    yield home
    home.rtrain("down", "--yes")


def submit(home: Home, *words: str) -> str:
    return home.rtrain("submit", "--set", f"python.interpreter={sys.executable}", "--set", "name=outer", *words)


def run(home: Home, name: str) -> dict[str, Any]:
    found = [one for one in json.loads(home.rtrain("runs", "--all", "-o", "json"))["items"] if one["name"] == name]
    return found[0] if found else {"state": "none"}


def test_a_driver_on_a_node(cluster: Home) -> None:
    out = submit(cluster, "-f", "code/train.py", "--quick", "-x")
    assert "driver: trained --quick" in out
    outer, inner = run(cluster, "outer"), run(cluster, "inner")
    assert (outer["state"], inner["state"]) == ("SUCCEEDED", "SUCCEEDED")
    assert inner["labels"]["rtrain.parent"] == outer["run_id"]
    assert "driver: trained" in cluster.rtrain("logs", "outer")


def test_its_trainings_are_stopped_with_it(cluster: Home) -> None:
    submit(cluster, "code/train.py", "--for-ever")
    wait_for("the inner run", lambda: run(cluster, "inner")["state"] == "RUNNING", 120)
    cluster.rtrain("stop", "outer", "--yes")
    wait_for("both to end", lambda: {run(cluster, name)["state"] for name in ("outer", "inner")} == {"STOPPED"}, 120)
