"""`rtrain submit train.py`: the driver runs on a node, takes no CPU, and a stop ends its trainings too."""

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
    print("the worker asks for", config["asked"], flush=True)
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
    home.rtrain("up", "--pass-env", "PYTHONPATH", "--port", "0", "--resources", "CPU=2")
    (home.folder / "code").mkdir()
    (home.folder / "code" / "train.py").write_text(DRIVER)
    yield home
    home.rtrain("down", "--yes")


def submit(home: Home, *words: str) -> str:
    return home.rtrain("submit", "--set", f"python.interpreter={sys.executable}", "--set", "name=outer", *words)


def run(home: Home, name: str) -> dict[str, Any]:
    runs = [one for one in json.loads(home.rtrain("runs", "--all", "-o", "json"))["items"] if one["name"] == name]
    return runs[0] if runs else {"state": "none"}


def test_a_driver_on_a_node(cluster: Home) -> None:
    out = submit(cluster, "code/train.py", "--quick", "-f", "--", "-x")
    assert "driver: trained --quick" in out
    outer, inner = run(cluster, "outer"), run(cluster, "inner")
    assert (outer["state"], inner["state"]) == ("SUCCEEDED", "SUCCEEDED")
    assert inner["labels"]["rtrain.parent"] == outer["run_id"]
    lines = cluster.rtrain("logs", "outer", "--rank", "all").splitlines()
    assert any(line.startswith("outer | rank 0 | driver: trained") for line in lines), lines
    assert sum(line.startswith("inner | ") and "the worker asks for --quick" in line for line in lines) == 2, lines
    names = [
        line.split("  ")[0] if not line.startswith(" ") else "  " + line.split()[0]
        for line in cluster.rtrain("runs").splitlines()
    ]
    assert names[names.index("outer") + 1] == "  inner", names


def test_its_trainings_are_stopped_with_it(cluster: Home) -> None:
    submit(cluster, "code/train.py", "--for-ever")
    wait_for("the inner run", lambda: run(cluster, "inner")["state"] == "RUNNING", 120)
    cluster.rtrain("stop", "outer", "--yes")
    wait_for("both to end", lambda: {run(cluster, name)["state"] for name in ("outer", "inner")} == {"STOPPED"}, 120)


UNNAMED = """
import pathlib, sys
from rtrain.train import DataParallelTrainer, ScalingConfig

place = pathlib.Path(sys.argv[1])

def loop(config):
    import threading
    with (place / config["what"]).open("a") as out:
        out.write("trained\\n")
    while not (place / config["until"]).exists():
        threading.Event().wait(0.05)
    return config["what"]

one = ScalingConfig(num_workers=1, resources_per_worker={"CPU": 1})
for what, until in (("first", "first"), ("second", "go")):
    print("driver:", DataParallelTrainer(loop, train_loop_config={"what": what, "until": until}, scaling_config=one).fit().return_value)
"""


def test_a_driver_that_is_moved_joins_the_trainings_that_it_gave_no_name(home: Home) -> None:
    home.rtrain("up", "--pass-env", "PYTHONPATH", "--port", "0", "--nodes", "2", "--resources", "CPU=2")
    try:
        place = home.folder / "place"
        place.mkdir()
        (home.folder / "code").mkdir()
        (home.folder / "code" / "train.py").write_text(UNNAMED)
        submit(home, "code/train.py", str(place))
        wait_for("the second training", lambda: (place / "second").exists(), 120)
        outer = json.loads(home.rtrain("describe", "outer", "-o", "json"))
        node = outer["attempt_list"][0]["workers"][0]["node"]
        home.rtrain("node", "drain", node, "--reason", "test", "--deadline", "1s", "--yes")
        wait_for("the driver's next attempt", lambda: "joins it" in home.rtrain("logs", "outer", "--stream", "err"), 120)
        (place / "go").touch()
        wait_for("its end", lambda: run(home, "outer")["state"] in ("SUCCEEDED", "FAILED"), 120)
        assert run(home, "outer")["state"] == "SUCCEEDED", home.rtrain("logs", "outer", "--stream", "err")
        names = {one["name"] for one in json.loads(home.rtrain("runs", "--all", "-o", "json"))["items"]}
        assert names == {"outer", *(f"rtrain_run-{outer['run_id']}-{number}" for number in (1, 2))}
        assert (place / "first").read_text() == "trained\n"  # the first training has succeeded
        assert "driver: first" in (output := home.rtrain("logs", "outer")) and "driver: second" in output
    finally:
        home.rtrain("down", "--yes")
