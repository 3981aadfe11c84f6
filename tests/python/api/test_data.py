"""Datasets given to a trainer: shares of the ranks."""

from __future__ import annotations

import pytest
from rtrain import train
from rtrain.train import DataConfig, DataParallelTrainer, RunConfig, ScalingConfig


def gather(names):
    def loop():
        shares = {name: list(train.get_dataset_shard(name)) for name in names}
        train.report({"share": shares})

    return loop


class Told(train.UserCallback):
    def after_report(self, run_context, metrics, checkpoint):
        self.shares = [one["share"] for one in metrics]


def test_every_item_belongs_to_one_rank_and_what_is_not_split_is_whole(cluster):
    told = Told()
    DataParallelTrainer(
        gather(["train", "made", "whole"]),
        datasets={"train": list(range(5)), "made": lambda: iter("abc"), "whole": (7, 8)},
        dataset_config=DataConfig(datasets_to_split=["train", "made"]),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name=cluster.name("data"), callbacks=[told]),
    ).fit()
    assert told.shares == [
        {"train": [0, 2, 4], "made": ["a", "c"], "whole": [7, 8]},
        {"train": [1, 3], "made": ["b"], "whole": [7, 8]},
    ]


def test_a_config_of_one_s_own_splits_as_it_likes(cluster):
    class Halves(DataConfig):
        def configure(self, datasets, world_size, worker_handles=None, worker_node_ids=None):
            return [{"train": datasets["train"][:1]}, {"train": datasets["train"][1:]}]

    told = Told()
    DataParallelTrainer(
        gather(["train"]),
        datasets={"train": [1, 2, 3]},
        dataset_config=Halves(),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name=cluster.name("data"), callbacks=[told]),
    ).fit()
    assert told.shares == [{"train": [1]}, {"train": [2, 3]}]


def test_an_unknown_dataset_is_named_with_those_that_are_there(cluster):
    def loop():
        train.get_dataset_shard("test")

    with pytest.raises(train.WorkerGroupError, match="there is no dataset 'test'; the trainer was given: train"):
        DataParallelTrainer(loop, datasets={"train": [1]}, run_config=RunConfig(name=cluster.name("data"))).fit()


def test_a_torch_dataset_stays_one_and_iterables_are_read_by_every_nth():
    import torch
    from rtrain.train._datasets import split
    from rtrain.train._session import Facts
    from torch.utils.data import DataLoader, TensorDataset

    mine = Facts(world_size=2, world_rank=1)
    share = split(TensorDataset(torch.arange(5)), mine)
    assert [int(value) for (batch,) in DataLoader(share, batch_size=2) for value in batch] == [1, 3]
    assert list(split(iter(range(7)), mine)) == [1, 3, 5]
    assert [split("abcde", mine)[1], len(split("abcde", mine))] == ["d", 2]
    assert split({"whole": 1}, Facts()) == {"whole": 1}
    with pytest.raises(TypeError, match="an iterable, a sequence or a torch Dataset, not int"):
        split(3, mine)
