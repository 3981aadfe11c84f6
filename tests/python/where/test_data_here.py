"""`rtrain.data` where there is no cluster: in this process, and in torchrun's ranks."""

from __future__ import annotations

import json
import sys

import pytest
from homes import Home, finish

pytest.importorskip("pyarrow")

SHARES = """
import json, os, sys
import rtrain.data as data
import rtrain.train as train
from rtrain.train import DataParallelTrainer, RunConfig, ScalingConfig

def loop():
    shard = train.get_dataset_shard("train")
    epochs = []
    for epoch in range(2):
        rows = []
        for batch in shard.iter_torch_batches(batch_size=16):
            rows += batch["id"].tolist()
            if epoch == 0 and len(rows) == 32:
                state = shard.state_dict()
        epochs.append(rows)
    shard = train.get_dataset_shard("train", state_dict=state)
    rest = [row["id"] for row in shard]
    with open(f"rank-{train.get_context().get_world_rank()}.json", "w") as file:
        json.dump([epochs, rest], file)

rows = data.range(200).filter(lambda row: row["id"] >= 50).random_shuffle()
DataParallelTrainer(
    loop, datasets={"train": rows}, scaling_config=ScalingConfig(num_workers=0), run_config=RunConfig(name="here", storage_path="runs")
).fit()
"""


def check(ranks: list[list[list[int]]]) -> None:
    for epoch in range(2):
        rows = [row for epochs, _ in ranks for row in epochs[epoch]]
        assert sorted(rows) == list(range(50, 200))
    assert ranks[0][0][0] != ranks[0][0][1]
    assert all(epochs[0][32:] == rest for epochs, rest in ranks)
    assert len({len(epochs[0]) for epochs, _ in ranks}) == 1


def test_in_this_process(home: Home) -> None:
    pytest.importorskip("torch")
    home.script(SHARES)
    check([json.loads((home.folder / "rank-0.json").read_text())])


def test_under_torchrun(home: Home) -> None:
    pytest.importorskip("torch")
    (home.folder / "shares.py").write_text(SHARES)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    finish(home.run([*torchrun, "shares.py"], OMP_NUM_THREADS="1"))
    check([json.loads((home.folder / f"rank-{rank}.json").read_text()) for rank in range(2)])
