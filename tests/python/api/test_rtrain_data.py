"""`rtrain.data` in runs on two real nodes: the rows of each rank, and the remaining rows after a failure within an
epoch.
"""

from __future__ import annotations

import json
import os
import pathlib

import pytest
from rtrain import train
from rtrain._http import Head
from rtrain.train import CheckpointConfig, DataConfig, DataParallelTrainer, FailureConfig, RunConfig, ScalingConfig

pytest.importorskip("pyarrow")
import rtrain.data as data
from rtrain.train.torch import TorchTrainer


class Recorder(train.UserCallback):
    def after_report(self, run_context, metrics, checkpoint):
        self.ranks = metrics


@pytest.fixture
def parquet(tmp_path):
    data.range(1000).write_parquet(tmp_path / "rows", num_rows_per_file=300, row_group_size=64)
    return str(tmp_path / "rows")


def test_ranks_share_what_is_left_of_each_epoch(cluster, parquet):
    def loop():
        shard = train.get_dataset_shard("train")
        epochs = [[row["id"] for row in shard] for _ in range(2)]
        made = [row["id"] for row in train.get_dataset_shard("made").iter_rows()]
        train.report({"epochs": epochs, "made": made, "whole": train.get_dataset_shard("whole").count(), "said": repr(shard)})

    recorder = Recorder()
    DataParallelTrainer(
        loop,
        datasets={
            "train": data.read_parquet(parquet).filter(lambda row: row["id"] % 3 == 0).random_shuffle(),
            "made": lambda: data.range(7),
            "whole": data.range(9),
        },
        dataset_config=DataConfig(datasets_to_split=["train", "made"]),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name=cluster.name("data"), callbacks=[recorder]),
    ).fit()
    first, second = recorder.ranks
    for one, other in zip(first["epochs"], second["epochs"], strict=True):
        assert sorted(one + other) == list(range(0, 1000, 3)) and len(one) == len(other) == 167
    assert first["epochs"][0] != first["epochs"][1]
    assert (first["made"], second["made"], first["whole"]) == ([0, 1, 2], [3, 4, 5], 9)
    assert second["said"].startswith("DataIterator(rank 1 of 2, read_parquet(4 files) -> filter(<lambda>) -> random_shuffle()")


def resumable(config):
    """Each rank stores the rows that it got up to the checkpoint from which the next attempt starts."""
    rank, state, seen = train.get_context().get_world_rank(), None, []
    checkpoint = train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            state = json.loads((pathlib.Path(folder) / "state.json").read_text())
            seen_file = pathlib.Path(folder) / f"seen-{rank}.json"
            seen = json.loads(seen_file.read_text()) if seen_file.exists() else []
    shard = train.get_dataset_shard("train", state_dict=state)
    for number, batch in enumerate(shard.iter_batches(batch_size=20, **config)):
        seen += batch["id"].tolist()
        if number % 3 == 1:
            with train.checkpoint_dir() as folder:
                (pathlib.Path(folder) / f"seen-{rank}.json").write_text(json.dumps(seen))
                if rank == 0:
                    (pathlib.Path(folder) / "state.json").write_text(json.dumps(shard.state_dict()))
                train.report({"number": number}, checkpoint=folder, checkpoint_upload_mode=train.CheckpointUploadMode.SYNC)
        if train.get_context().get_attempt() == 1 and number == 12 and rank == 1:
            os._exit(9)
    train.report({"seen": seen, "attempt": train.get_context().get_attempt()})


@pytest.mark.parametrize("config", [{}, {"local_shuffle_buffer_size": 64}], ids=["in order", "local shuffle"])
def test_a_failure_in_mid_epoch_costs_no_row_and_gives_none_twice(cluster, parquet, config):
    recorder, name = Recorder(), cluster.name("data")
    DataParallelTrainer(
        resumable,
        train_loop_config=config,
        datasets={"train": data.read_parquet(parquet).map_batches(lambda batch: batch).random_shuffle()},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name=name,
            callbacks=[recorder],
            failure_config=FailureConfig(max_failures=1),
            checkpoint_config=CheckpointConfig(num_to_keep=1),
        ),
    ).fit()
    assert [rank["attempt"] for rank in recorder.ranks] == [2, 2]
    assert [len(rank["seen"]) for rank in recorder.ranks] == [500, 500]
    assert sorted(recorder.ranks[0]["seen"] + recorder.ranks[1]["seen"]) == list(range(1000))
    left = [one for one in Head.current().get(f"/v1/runs/{name}/values")["items"] if "gather" in str(one)]
    assert len(left) == 1  # the second attempt overwrites the first one's value, since a run has 1,000 values at most


def test_a_run_goes_on_in_mid_epoch_with_more_workers(cluster, parquet):
    name, rows = cluster.name("data"), data.read_parquet(parquet).filter(lambda row: row["id"] >= 100).random_shuffle()

    def fit(workers):
        recorder = Recorder()
        run = RunConfig(name=name, callbacks=[recorder])
        scaling = ScalingConfig(num_workers=workers)
        DataParallelTrainer(
            resumable, train_loop_config={}, datasets={"train": rows}, scaling_config=scaling, run_config=run
        ).fit()
        return [row for rank in recorder.ranks for row in rank["seen"]]

    with pytest.raises(train.WorkerGroupError):
        fit(2)
    seen = fit(3)
    given = 2 * 11 * 20  # rows of two ranks up to their last checkpoint
    assert len(set(seen)) == len(seen) == given + (900 - given) // 3 * 3 and set(seen) <= set(range(100, 1000))


def numbered(config):
    """Each rank writes the rows of each global batch to a file whose name is the number of rows delivered up to its
    end.
    """
    context, state = train.get_context(), None
    rank, world = context.get_world_rank(), context.get_world_size()
    checkpoint = train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            state = json.loads((pathlib.Path(folder) / "state.json").read_text())
    shard = train.get_dataset_shard("train", state_dict=state)
    for number, batch in enumerate(shard.iter_batches(global_batch_size=40, prefetch_batches=2)):
        state = shard.state_dict()
        (pathlib.Path(config["batches"]) / f"{state['given']}-{world}-{rank}.json").write_text(json.dumps(batch["id"].tolist()))
        if number % 3 == 2 and rank == 0:
            with train.checkpoint_dir() as folder:
                (pathlib.Path(folder) / "state.json").write_text(json.dumps(state))
                train.report({"number": number}, checkpoint=folder, checkpoint_upload_mode=train.CheckpointUploadMode.SYNC)
        elif number % 3 == 2:
            train.report({"number": number})
        if config["dies"] and number == 7 and rank == world - 1:
            os._exit(9)


def test_kills_and_resizes_leave_the_global_batches_as_they_are(cluster, parquet, tmp_path):
    rows = data.read_parquet(parquet).map(lambda row: {"id": row["id"]}).random_shuffle(seed=5, window_bytes=1)

    def fit(name, workers, *, dies):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        DataParallelTrainer(
            numbered,
            train_loop_config={"batches": str(folder), "dies": dies},
            datasets={"train": rows},
            dataset_config=DataConfig(streams=4),
            scaling_config=ScalingConfig(num_workers=workers),
            run_config=RunConfig(name=name),
        ).fit()

    def batches(name, workers):
        parts = {}
        for file in sorted((tmp_path / name).glob(f"*-{workers}-*.json")):
            parts.setdefault(int(file.name.split("-")[0]), []).append(json.loads(file.read_text()))
        return {number: sum(of_ranks, []) for number, of_ranks in parts.items() if len(of_ranks) == workers}

    quiet, resized = cluster.name("quiet"), cluster.name("resized")
    fit(quiet, 2, dies=False)
    for workers in (4, 2):
        with pytest.raises(train.WorkerGroupError):
            fit(resized, workers, dies=True)
    fit(resized, 1, dies=False)
    expected = batches(quiet, 2)
    assert sorted(sum(expected.values(), [])) == list(range(1000)) and len(expected) == 25
    by_size = {workers: batches(resized, workers) for workers in (4, 2, 1)}
    assert min(by_size[4]) == 40 and min(by_size[2]) > 40 and len(by_size[4]) >= 6 <= len(by_size[2])
    assert {*by_size[4], *by_size[2], *by_size[1]} == {*expected}
    assert all(rows_of == expected[number] for of_size in by_size.values() for number, rows_of in of_size.items())


def test_what_is_random_without_a_seed_is_alike_on_every_rank(cluster):
    """Each rank builds its own dataset."""

    class Halves(DataConfig):
        def configure(self, datasets, world_size, worker_handles=None, worker_node_ids=None):
            parts = datasets["train"].random_shuffle().streaming_split(world_size, equal=True)
            return [{"train": part} for part in parts]

    def loop():
        train.report({"rows": [row["id"] for row in train.get_dataset_shard("train")]})

    recorder = Recorder()
    DataParallelTrainer(
        loop,
        datasets={"train": lambda: data.range(100).random_sample(0.5)},
        dataset_config=Halves(),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name=cluster.name("data"), callbacks=[recorder]),
    ).fit()
    first, second = (rank["rows"] for rank in recorder.ranks)
    assert len(first) == len(second) > 10 and not set(first) & set(second)


def test_ranks_that_see_other_files_are_told(cluster, tmp_path):
    def made():
        return data.range(10 + train.get_context().get_world_rank())

    with pytest.raises(train.WorkerGroupError, match="the ranks must read the same files"):
        DataParallelTrainer(
            lambda: train.get_dataset_shard("train"),
            datasets={"train": made},
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(name=cluster.name("data")),
        ).fit()


def test_a_state_for_what_keeps_none(cluster):
    def loop():
        train.get_dataset_shard("train", state_dict={"epoch": 1})

    with pytest.raises(train.WorkerGroupError, match="a share of type list has no load_state_dict"):
        DataParallelTrainer(loop, datasets={"train": [1]}, run_config=RunConfig(name=cluster.name("data"))).fit()


def writes(config):
    """The first attempt fails after its files are written. Both attempts write once before a checkpoint and once
    after it.
    """
    attempt, rank = train.get_context().get_attempt(), train.get_context().get_world_rank()
    folder = pathlib.Path(config["folder"])
    if train.get_checkpoint() is None:
        data.range(4).write_parquet(folder)
        with train.checkpoint_dir() as made:
            (pathlib.Path(made) / f"state-{rank}").write_text("state")
            train.report({"step": 1}, checkpoint=made, checkpoint_upload_mode=train.CheckpointUploadMode.SYNC)
    data.range(6).map(lambda row: {"id": 10 * attempt + row["id"]}).write_parquet(folder, num_rows_per_file=2 + attempt)
    train.collective.barrier()
    if attempt == 1 and rank == 0:
        os._exit(9)
    train.report({"attempt": attempt})


def test_a_retried_attempt_replaces_the_files_that_it_wrote_after_its_checkpoint(cluster, tmp_path):
    recorder = Recorder()
    DataParallelTrainer(
        writes,
        train_loop_config={"folder": str(tmp_path)},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name=cluster.name("writes"), callbacks=[recorder], failure_config=FailureConfig(max_failures=1)),
    ).fit()
    assert [rank["attempt"] for rank in recorder.ranks] == [2, 2]
    rows = sorted(row["id"] for row in data.read_parquet(tmp_path).take_all())
    assert rows == sorted([*range(4), *range(20, 26)] * 2)


def test_a_loop_that_imports_no_torch_reads_torch_batches_and_its_ranks_are_in_a_group(cluster):
    def loop():
        import sys  # noqa: PLC0415

        before = "torch" in sys.modules
        batches = train.get_dataset_shard("train").iter_torch_batches(batch_size=5)
        rows = sorted(int(row) for batch in batches for row in batch["id"])
        return before, rows, sys.modules["torch"].distributed.get_world_size()

    result = TorchTrainer(
        loop,
        datasets={"train": data.range(20)},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name=cluster.name("torchless")),
    ).fit()
    assert result.return_value == (False, list(range(10)), 2)
