"""`rtrain.data.generator()` inside of a function: seeded by (seed, epoch, position)."""

import numpy as np
import rtrain.data
import torch


def noisy(row):
    return {
        **row,
        "noise": float(rtrain.data.generator().random()),
        "torch": torch.rand((), generator=rtrain.data.generator("torch")).item(),
    }


def noisy_batch(batch):
    return {**batch, "more": rtrain.data.generator().random(len(batch["id"]))}


def plan():
    rows = rtrain.data.range(300).map(noisy).random_shuffle(seed=3)
    return rows.map(noisy).map_batches(noisy_batch, batch_size=7, udf_modifying_row_count=False)


def share(dataset, rank=0, world=1, seed=11):
    return dataset.rtrain_share_of_run(rank, world, seed, equal=True)


def numbers(rows):
    return {row["id"]: (row["noise"], row["torch"], row["more"]) for row in rows}


def test_a_resumed_epoch_draws_what_the_undisturbed_one_drew():
    whole = share(plan())
    first, second = (numbers(whole.iter_rows()) for _ in range(2))
    assert len({number for row in first.values() for number in row}) == 900
    assert not {number for row in first.values() for number in row} & {number for row in second.values() for number in row}
    begun = share(plan())
    list(begun.iter_rows())
    for number, _batch in enumerate(begun.iter_batches(batch_size=10), 1):
        if number == 7:
            state = begun.state_dict()
            break
    for world in (1, 2, 3):
        left = {}
        for rank in range(world):
            resumed = share(plan(), rank, world, seed=99)
            resumed.load_state_dict(state)
            left.update(numbers(resumed.iter_rows()))
        assert len(left) >= 228 and all(second[row] == number for row, number in left.items())


def test_a_batch_that_is_made_twice_in_a_row_draws_the_same_numbers():
    made = []

    def record_number(batch):
        made.append(rtrain.data.generator().random())
        return batch

    shares = [share(rtrain.data.range(8).map_batches(record_number, udf_modifying_row_count=False), rank, 2) for rank in range(2)]
    assert [len(list(one.iter_batches(batch_size=4, prefetch_batches=0))) for one in shares] == [1, 1]
    assert len(made) == 2 and made[0] == made[1]


def test_two_operations_on_one_row_draw_other_numbers():
    rows = list(
        share(
            rtrain.data.range(50).map(noisy).map(lambda row: {**row, "again": float(rtrain.data.generator().random())})
        ).iter_rows()
    )
    assert len({number for row in rows for number in (row["noise"], row["again"])}) == 100


def test_the_numbers_of_a_rank_are_not_touched():
    np.random.seed(5)
    torch.manual_seed(5)
    expected = float(np.random.rand()), torch.rand(()).item()
    np.random.seed(5)
    torch.manual_seed(5)
    list(share(plan()).iter_rows())
    assert (float(np.random.rand()), torch.rand(()).item()) == expected


def with_globals(batch):
    return {**batch, "numpy": np.random.rand(len(batch["id"])), "torch": torch.rand(len(batch["id"])).numpy()}


def test_a_loaders_processes_seed_the_global_generators():
    def of_processes(workers):
        torch_rows = share(rtrain.data.range(40).map_batches(with_globals, batch_size=5, udf_modifying_row_count=False)).to_torch(
            batch_size=5
        )
        loader = torch.utils.data.DataLoader(torch_rows, batch_size=None, num_workers=workers)
        return sorted(tuple(values.flatten().tolist()) for batch, _ in loader for values in [batch])

    assert of_processes(1) == of_processes(1)
