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


class Recorder(train.UserCallback):
    def after_report(self, run_context, metrics, checkpoint):
        self.shares = [one["share"] for one in metrics]


def test_every_item_belongs_to_one_rank_and_what_is_not_split_is_whole(cluster):
    recorder = Recorder()
    DataParallelTrainer(
        gather(["train", "made", "whole"]),
        datasets={"train": list(range(5)), "made": lambda: iter("abc"), "whole": (7, 8)},
        dataset_config=DataConfig(datasets_to_split=["train", "made"], equal=False),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name=cluster.name("data"), callbacks=[recorder]),
    ).fit()
    assert recorder.shares == [
        {"train": [0, 2, 4], "made": ["a", "c"], "whole": [7, 8]},
        {"train": [1, 3], "made": ["b"], "whole": [7, 8]},
    ]


def test_a_config_of_one_s_own_splits_as_it_likes(cluster):
    class Halves(DataConfig):
        def configure(self, datasets, world_size, worker_handles=None, worker_node_ids=None):
            return [{"train": datasets["train"][:1]}, {"train": datasets["train"][1:]}]

    recorder = Recorder()
    DataParallelTrainer(
        gather(["train"]),
        datasets={"train": [1, 2, 3]},
        dataset_config=Halves(),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name=cluster.name("data"), callbacks=[recorder]),
    ).fit()
    assert recorder.shares == [{"train": [1]}, {"train": [2, 3]}]


def test_an_unknown_dataset_is_named_with_those_that_are_there(cluster):
    def loop():
        train.get_dataset_shard("test")

    with pytest.raises(train.WorkerGroupError, match="there is no dataset 'test'; the trainer was given: train"):
        DataParallelTrainer(loop, datasets={"train": [1]}, run_config=RunConfig(name=cluster.name("data"))).fit()


def test_a_torch_dataset_stays_one_and_iterables_are_read_by_every_nth():
    import torch
    from rtrain.train._values._facts import Facts
    from rtrain.train._values._shares import split
    from torch.utils.data import DataLoader, TensorDataset

    facts = Facts(world_size=2, world_rank=1)
    share = split(TensorDataset(torch.arange(5)), facts)
    assert [int(value) for (batch,) in DataLoader(share, batch_size=2) for value in batch] == [1, 3]
    assert list(split(iter(range(7)), facts)) == [1, 3, 5]
    assert [split("abcde", facts)[1], len(split("abcde", facts))] == ["d", 2]
    assert split({"whole": 1}, Facts()) == {"whole": 1}
    with pytest.raises(TypeError, match="an iterable, a sequence or a torch Dataset, not int"):
        split(3, facts)


@pytest.mark.parametrize("kind", ["torch", "sequence", "iterable"])
def test_shares_are_of_one_size_and_the_rest_is_nobodys(kind):
    import torch
    from rtrain.train._values._facts import Facts
    from rtrain.train._values._shares import split
    from torch.utils.data import TensorDataset

    def shares(items, ranks, **options):
        made = {"torch": lambda: TensorDataset(torch.arange(items)), "sequence": lambda: list(range(items))}
        shares_of_ranks = [
            list(split(made.get(kind, lambda: iter(range(items)))(), Facts(world_size=ranks, world_rank=rank), **options))
            for rank in range(ranks)
        ]
        return [[int(item[0] if kind == "torch" else item) for item in share] for share in shares_of_ranks]

    assert shares(65, 2) == [list(range(0, 64, 2)), list(range(1, 64, 2))]
    assert shares(11, 4, equal=True) == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert shares(3, 4) == [[], [], [], []]
    assert shares(5, 2, equal=False) == [[0, 2, 4], [1, 3]]


def test_an_odd_number_of_items_gives_every_rank_as_many_steps(cluster):
    def loop():
        steps = 0
        for _ in train.get_dataset_shard("train"):
            steps += 1
            train.collective.barrier()
        train.report({"share": steps})

    recorder = Recorder()
    DataParallelTrainer(
        loop,
        datasets={"train": list(range(65))},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name=cluster.name("data"), callbacks=[recorder]),
    ).fit()
    assert recorder.shares == [32, 32]
