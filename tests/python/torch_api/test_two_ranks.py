"""The results of each call on two ranks. `two_ranks.py` makes the calls."""

import itertools

import torch


def flat(batches):
    return list(itertools.chain.from_iterable(batches))


def both(pair, name):
    return [results[name] for results in pair]


def test_the_group_is_made_from_the_environment_and_ended(pair):
    assert both(pair, "group") == [[2, 0, "gloo", "cpu"], [2, 1, "gloo", "cpu"]]
    assert both(pair, "end") == [False, False]


def test_models_are_wrapped_by_every_strategy_in_any_case_of_letters(pair):
    first, second = both(pair, "model_strategies")
    keys = ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert first["DDP"][0] == "DistributedDataParallel" and first["None"][0] == "Sequential"
    assert first["DDP"][1] == first["None"][1] == keys
    assert first["DDP"][2] == second["DDP"][2]  # gradients were averaged
    if hasattr(torch.cpu.Stream, "record_event"):
        assert first["Fsdp2"][:2] == ["FSDPSequential", keys] and first["Fsdp2"][2] == second["Fsdp2"][2]
    else:
        assert first["Fsdp2"][0].startswith("prepare_model(parallel_strategy='fsdp2') trains on GPUs only with torch 2.")
    assert first["None"][2] != second["None"][2]
    assert both(pair, "ddp_options") == [[True, True]] * 2


def test_each_sample_goes_to_one_rank_and_epochs_shuffle_alike_everywhere(pair):
    first, second = both(pair, "plain_and_shuffled")
    assert first["plain"] == [[0, 2], [4, 6], [8]] and second["plain"] == [[1, 3], [5, 7], [9]]
    assert (first["len"], first["batch_size"]) == (3, 2)
    assert first["epochs"][0] == first["epochs"][2] != first["epochs"][1]
    # drop_last: two batches of two items for each rank.
    assert len(set(flat(first["epochs"][1])) | set(flat(second["epochs"][1]))) == 8


def test_samplers_of_the_users_own_are_shared_out_and_not_thrown_away(pair):
    first, second = both(pair, "own_samplers")
    assert all(index >= 5 for index in flat(first["weighted"] + second["weighted"]))  # the weights have effect
    assert first["lengths"] == [1, 3, 2]
    assert [len(first["pairs"]), len(second["pairs"])] == [3, 3]  # five batches, one of them twice
    assert set(flat(first["pairs"] + second["pairs"])) == set(range(10))
    assert all(batch[1] == batch[0] + 1 for batch in first["pairs"] + second["pairs"])
    assert first["other epoch"] != first["pairs"] == first["first again"]
    assert first["grouped"] == [[0, 1, 2], [6, 7, 8]] and second["grouped"] == [[3, 4, 5], [9]]


def test_streams_whole_loaders_and_prepared_ones_are_left_alone(pair):
    first, second = both(pair, "left_alone")
    assert first[:2] == second[:2] == [[[0, 1], [2]], [[0, 1], [2, 3]]]
    assert [first[2], second[2]] == [[[0, 2]], [[1, 3]]]


def test_what_get_dataset_shard_gave_is_not_divided_again(pair):
    assert both(pair, "shares") == [[[0, 2]], [[1, 3]]]  # the fifth item is left out


def test_accelerate_finds_the_ranks_by_itself(pair):
    assert both(pair, "accelerated") == [[2, "cpu", [[0], [2]], 3.0], [2, "cpu", [[1], [3]], 3.0]]


def test_global_batches_are_the_same_samples_and_gradients_as_with_one_worker(pair):
    first, second = both(pair, "global_batches")
    order = first["order"]
    steps = [order[:5], order[5:10]]
    for number, samples in enumerate(steps):
        parts = [index for results in (first, second) for step, part in results["seen"] if step == number for index in part]
        assert sorted(parts) == sorted(samples)
    assert first["gradients"] == second["gradients"]
    expected = [sum(samples) / len(samples) for samples in steps]
    assert all(abs(got - want) < 1e-6 for got, want in zip(first["gradients"], expected, strict=True))
    assert first["len"] == second["len"] == 4


def test_loader_processes_repeat_their_numbers_but_not_each_others(pair):
    first, second = both(pair, "reproducible")
    assert first[0] == first[1] and second[0] == second[1]
    epochs = first[0]
    assert epochs[0] != epochs[1]
    values = [value for results in (first, second) for epoch in results[0] for item in epoch for value in item[1:]]
    assert len(set(values)) == len(values)  # ranks, workers, epochs and libraries draw different numbers
