"""`rtrain.data` without a cluster: in this process, and in torchrun's ranks."""

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
    rest = [row for batch in shard.iter_torch_batches(batch_size=16) for row in batch["id"].tolist()]
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


WRITES = """
import json, sys
import rtrain.data as data
from rtrain.train import DataParallelTrainer, RunConfig, ScalingConfig

day, fails = int(sys.argv[1]), sys.argv[2] == "fails"

def loop():
    data.from_items([{"id": 10 * day + number} for number in range(3)]).write_parquet("rows")
    if fails:
        raise ValueError("after the write")

try:
    trainer = DataParallelTrainer(
        loop, scaling_config=ScalingConfig(num_workers=0), run_config=RunConfig(name="nightly", storage_path="runs")
    )
    trainer.fit()
except ValueError:
    pass
print(json.dumps(sorted(row["id"] for row in data.read_parquet("rows").take_all())))
"""


def test_a_name_that_is_trained_again_adds_to_what_its_successful_attempts_wrote(home: Home) -> None:
    written = [
        json.loads(home.script(WRITES, str(day), end)) for day, end in enumerate(["well", "fails", "well", "fails", "well"])
    ]
    assert written == [
        [0, 1, 2],
        [0, 1, 2, 10, 11, 12],
        [0, 1, 2, 20, 21, 22],
        [0, 1, 2, 20, 21, 22, 30, 31, 32],
        [0, 1, 2, 20, 21, 22, 40, 41, 42],
    ]
