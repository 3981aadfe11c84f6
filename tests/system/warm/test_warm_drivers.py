"""Tests that workers of drivers are forked on a node that joined with --warm: workers of fit(), trials of a sweep, remote
functions, actors.
"""

import subprocess
import sys

import pytest
from local_cluster import ROOT, WarmCluster, wait_for

PACKAGE = ROOT / "runtime" / "python"
FIT = """
import torch
from rtrain import train
from rtrain.train.torch import TorchTrainer

def loop(config):
    ones = torch.ones(1)
    torch.distributed.all_reduce(ones)
    train.report({"sum": float(ones)})

scaling, run = train.ScalingConfig(num_workers=2), train.RunConfig(name=sys.argv[1], storage_path=sys.argv[2])
assert TorchTrainer(loop, scaling_config=scaling, run_config=run).fit().metrics["sum"] == 2
"""
SWEEP = """
from rtrain import tune

def trial(config):
    tune.report({"loss": config["x"]})

run = tune.RunConfig(name=sys.argv[1], storage_path=sys.argv[2], verbose=0)
grid = tune.Tuner(trial, param_space={"x": tune.grid_search([1, 2])}, run_config=run).fit()
assert [one.metrics["loss"] for one in grid] == [1, 2]
"""
FUNCTION = """
import rtrain
rtrain.init("auto")

@rtrain.remote
def answer(number):
    return number + 1

assert rtrain.get(answer.remote(41)) == 42
"""
ACTOR = """
import rtrain
rtrain.init("auto")

@rtrain.remote
class Counter:
    def __init__(self):
        self.count = 0

    def add(self, number):
        self.count += number
        return self.count

counter = Counter.remote()
assert rtrain.get([counter.add.remote(1), counter.add.remote(2)]) == [1, 3]
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(PACKAGE))  # the workers inherit it from their agent
        made = WarmCluster(tmp_path_factory.mktemp("drivers") / "cluster", nodes=1, resources="CPU=4", pass_env="PYTHONPATH")
    yield made
    made.stop()


def names(cluster):
    return {run["name"] for run in cluster.json("runs", "--all")["items"]}


@pytest.mark.parametrize(
    ("script", "workers"), [(FIT, 1), (SWEEP, 2), (FUNCTION, 1), (ACTOR, 1)], ids=["fit", "sweep", "function", "actor"]
)
def test_its_workers_are_forked_once_their_environment_is_known(cluster, tmp_path, script, workers):
    driver = tmp_path / "driver.py"
    driver.write_text("import sys\n" + script)
    rounds = []

    def starts():
        """Runs the driver once; returns the start notices of its runs."""
        before = names(cluster)
        rounds.append(f"{tmp_path.name[:20]}-{len(rounds)}".replace("_", "-"))
        command = [sys.executable, driver, rounds[-1], tmp_path]
        done = subprocess.run(command, capture_output=True, text=True, env=cluster.env, timeout=300)
        assert done.returncode == 0, done.stderr
        return [start["text"] for run in names(cluster) - before for start in cluster.json("describe", run)["starts"]]

    texts = wait_for(
        "forked workers", lambda: [text for text in starts() if "forked from a warm template" in text][workers - 1 :], 180
    )
    assert not [text for text in texts if "plain start" in text]
