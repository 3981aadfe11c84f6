"""num_workers=0 in torchrun's ranks: they wait for each other, share data, and all get the result of the run."""

from __future__ import annotations

import pathlib
import re
import socket
import sys

import pytest
from homes import Home, finish

SAY_A_LINE = """
import os

def say(text):
    os.write(1, f"{text}\\n".encode())  # ranks share one pipe: a line goes out whole
"""


def test_under_torchrun_with_a_restart(home: Home) -> None:
    (home.folder / "train.py").write_text(
        SAY_A_LINE
        + """
import rtrain.train as train
from rtrain.train import RunConfig, ScalingConfig
from rtrain.train.torch import TorchTrainer

def loop():
    checkpoint, rank = train.get_checkpoint(), train.get_context().get_world_rank()
    start = int(open(f"{checkpoint.path}/rank-{rank}").read()) + 1 if checkpoint else 0
    say(f"rank {rank} of {train.get_context().get_world_size()} starts at {start}")
    for epoch in range(start, 4):
        with train.checkpoint_dir() as folder:
            open(f"{folder}/rank-{rank}", "w").write(str(epoch))
            train.report({"epoch": epoch, "rank": rank}, checkpoint=train.Checkpoint.from_directory(folder))
        if epoch == 1 and rank == 1 and not checkpoint:
            os._exit(3)
    return rank

result = TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=0), run_config=RunConfig(storage_path="runs")).fit()
files = sorted(one for one in os.listdir(result.checkpoint.path) if not one.startswith("."))
say(f"result {result.metrics} {result.return_value} {len(result.all_metrics)} {files} {result.path}")
"""
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "1"]
    out = finish(home.run([*command, "train.py"]), seconds=300)
    assert sorted(re.findall(r"rank \d of 2 starts at \d", out)) == [
        "rank 0 of 2 starts at 0",
        "rank 0 of 2 starts at 2",
        "rank 1 of 2 starts at 0",
        "rank 1 of 2 starts at 2",
    ]
    results = [line for line in out.splitlines() if line.startswith("result")]
    assert len(set(results)) == 1 and len(results) == 2  # every rank has the same result
    assert "{'epoch': 3, 'rank': 0} 0 4 ['rank-0', 'rank-1']" in results[0]
    assert len(list((home.folder / "runs").iterdir())) == 1
    assert pathlib.Path(results[0].rsplit(" ", 1)[1]).parent == home.folder / "runs"


def test_under_torchrun_ranks_wait_for_each_other_and_share_plain_data(home: Home) -> None:
    (home.folder / "train.py").write_text(
        SAY_A_LINE
        + """
import time
import rtrain.train as train
from rtrain.train import RunConfig, ScalingConfig
from rtrain.train.torch import TorchTrainer

def loop():
    rank = train.get_context().get_world_rank()
    for step in range(3):
        open(f"reported-{rank}-{step}", "w").close()
        train.report({"step": step})
        say(f"rank {rank} past {step}: {os.path.exists(f'reported-{1 - rank}-{step}')}")
    say(f"rank {rank} has {list(train.get_dataset_shard('train'))} and {list(train.get_dataset_shard('made'))}")

datasets = {"train": [1, 2, 3, 4, 5], "made": lambda: iter("abc")}
run = RunConfig(storage_path="runs")
TorchTrainer(loop, datasets=datasets, scaling_config=ScalingConfig(num_workers=0), run_config=run).fit()
"""
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"]
    out = finish(home.run(command), seconds=300)
    assert sorted(line for line in out.splitlines() if " has " in line) == [
        "rank 0 has [1, 3] and ['a']",
        "rank 1 has [2, 4] and ['b']",
    ]
    assert sorted(line for line in out.splitlines() if " past " in line) == [
        f"rank {rank} past {step}: True" for rank in (0, 1) for step in (0, 1, 2)
    ]


UNEQUAL = (
    SAY_A_LINE
    + """
import json, pathlib, sys
import rtrain.train as train
from rtrain.train import RunConfig, ScalingConfig
from rtrain.train.torch import TorchTrainer

longer = int(sys.argv[1])

def loop():
    for step in range(3 if train.get_context().get_world_rank() == longer else 2):
        train.report({"step": step})

try:
    TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=0), run_config=RunConfig(storage_path="runs", name="unequal")).fit()
except RuntimeError as error:
    told = json.loads(pathlib.Path("runs/unequal/result.json").read_text()) if int(os.environ["RANK"]) == 0 else {"state": "-"}
    say(f"rank {os.environ['RANK']} {told['state']}: {error}")
"""
)


@pytest.mark.parametrize("longer", [0, 1])
def test_under_torchrun_ranks_that_report_unequally_often_are_all_told(home: Home, longer: int) -> None:
    (home.folder / "train.py").write_text(UNEQUAL)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py", str(longer)]
    out = finish(home.run(command), seconds=300)
    doing = {longer: "in report 3", 1 - longer: "has ended after 2 reports"}
    parted = (
        f"the ranks have parted (rank 0: {doing[0]}; rank 1: {doing[1]}): every rank must call report() the same number of times"
    )
    assert [line.partition(", and")[0] for line in sorted(out.splitlines())] == [
        f"rank 0 FAILED: {parted}",
        f"rank 1 -: {parted}",
    ]


def test_under_torchrun_rank_0_alone_is_asked_whether_to_stop(home: Home) -> None:
    (home.folder / "train.py").write_text(
        SAY_A_LINE
        + """
import rtrain.train as train
from rtrain.train import RunConfig, ScalingConfig
from rtrain.train.torch import TorchTrainer

def loop():
    for step in range(9):
        say(f"rank {os.environ['RANK']} step {step}")
        train.report({"step": step})

def stop(name, metrics):  # such as one that looks at the clock: the ranks would not agree
    return os.environ["RANK"] == "1" or metrics["step"] == 1

run = RunConfig(storage_path="runs", stop=stop)
result = TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=0), run_config=run).fit()
say(f"rank {os.environ['RANK']} ends with {result.metrics}")
"""
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"]
    out = finish(home.run(command), seconds=300)
    of_each = ["ends with {'step': 1}", "step 0", "step 1"]
    assert sorted(line for line in out.splitlines() if line.startswith("rank")) == [
        f"rank {rank} {what}" for rank in (0, 1) for what in of_each
    ]


def test_under_torchrun_several_reports_with_upload_functions_are_made_behind_the_loop_in_their_order(home: Home) -> None:
    (home.folder / "train.py").write_text(
        SAY_A_LINE
        + """
import pathlib, threading
import rtrain.train as train
from rtrain.train import Checkpoint, CheckpointUploadMode, RunConfig, ScalingConfig
from rtrain.train.torch import TorchTrainer

def loop():
    import torch.distributed as dist

    rank, go_on = train.get_context().get_world_rank(), threading.Event()

    def bring(checkpoint, name):
        assert go_on.wait(60), "report() waits for the function of an earlier one"
        target = pathlib.Path(train.get_context().get_run_path()) / name
        target.mkdir(exist_ok=True)
        (target / f"of-{rank}").write_text(str(checkpoint.to_dict()["step"]))
        return Checkpoint(str(target))

    for step in range(1, 5):
        own = Checkpoint.from_dict({"step": step})
        train.report({"step": step}, own, f"at-{step}", checkpoint_upload_mode=CheckpointUploadMode.ASYNC, checkpoint_upload_fn=bring)
        dist.barrier()  # the loop's own collectives go on meanwhile
    go_on.set()
    train.report({"step": 5})

result = TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=0), run_config=RunConfig(storage_path="runs")).fit()
kept = {checkpoint.name: sorted(one.name for one in pathlib.Path(checkpoint.path).glob("of-*")) for checkpoint, _ in result.best_checkpoints}
say(f"result {[row['step'] for row in result.all_metrics]} {sorted(kept.items())}")
"""
    )
    out = finish(
        home.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"]),
        seconds=300,
    )
    results = [line for line in out.splitlines() if line.startswith("result")]
    files = [(f"at-{step}", ["of-0", "of-1"]) for step in range(1, 5)]
    assert results == [f"result [1, 2, 3, 4, 5] {files}"] * 2, out


def test_under_torchrun_on_two_nodes(home: Home) -> None:
    (home.folder / "train.py").write_text(
        SAY_A_LINE
        + """
import rtrain.train as train
from rtrain.train import RunConfig, ScalingConfig
from rtrain.train.torch import TorchTrainer

def loop():
    context, rank = train.get_context(), train.get_context().get_world_rank()
    say(f"rank {rank}: node {context.get_node_rank()}, {context.get_local_rank()} of {context.get_local_world_size()}")
    for epoch in range(2):
        with train.checkpoint_dir() as folder:
            open(f"{folder}/rank-{rank}", "w").write(str(epoch))
            train.report({"epoch": epoch, "rank": rank}, checkpoint=train.Checkpoint.from_directory(folder))
    return rank

run = RunConfig(storage_path="runs", name="both")
result = TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=0), run_config=run).fit()
files = sorted(one for one in os.listdir(result.checkpoint.path) if not one.startswith("."))
say(f"result {result.metrics} {result.return_value} {files}")
"""
    )
    port = _free_port()
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "2"]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "two"]
    command += ["--local-addr", "127.0.0.1"]
    nodes = [home.run([*command, "--node-rank", str(node), "train.py"]) for node in (0, 1)]
    out = "".join(finish(node, seconds=300) for node in nodes)
    assert sorted(re.findall(r"rank \d: node \d, \d of 2", out)) == [
        "rank 0: node 0, 0 of 2",
        "rank 1: node 0, 1 of 2",
        "rank 2: node 1, 0 of 2",
        "rank 3: node 1, 1 of 2",
    ]
    results = [line for line in out.splitlines() if line.startswith("result")]
    assert results == ["result {'epoch': 1, 'rank': 0} 0 ['rank-0', 'rank-1', 'rank-2', 'rank-3']"] * 4


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
