"""`rtrain.data.mix`: the order of the datasets' rows, the end of an epoch, and the rows of a rank."""

from __future__ import annotations

import pickle
import random

import numpy as np
import pytest
import rtrain.data as data
from rtrain.data._in_streams import _turns
from rtrain.data._in_streams._turns import Mixing


def named(rows, name):
    """Returns a dataset with the columns `id` and `of`."""
    return data.from_items([{"id": row, "of": name} for row in range(rows)])


def taken(dataset):
    return [(row["of"], row["id"]) for row in dataset.iter_rows()]


def shares(dataset, world, streams, seed=7):
    return [dataset.rtrain_share_of_run(rank, world, seed, equal=True, streams=streams) for rank in range(world)]


def batches(dataset, world, streams, together=24):
    parts = [iter(one.iter_batches(batch_size=together // world)) for one in shares(dataset, world, streams)]
    return [[row for batch in of_ranks for row in batch["id"].tolist()] for of_ranks in zip(*parts, strict=True)]


def test_each_thousand_rows_have_the_weights():
    rows = taken(data.mix({named(9000, "a"): 0.7, named(9000, "b"): 0.2, named(9000, "c"): 0.1}, seed=1))
    for start in range(0, 12_000, 1000):
        of = [name for name, _ in rows[start : start + 1000]]
        assert (of.count("a"), of.count("b"), of.count("c")) == (700, 200, 100)
    assert [row for name, row in rows if name == "a"] == [*range(9000)]  # the rows of a dataset keep their order
    assert rows[:20] != sorted(rows[:20]) and rows[:1000] != rows[1000:2000]


def test_shares_follow_the_weights_and_never_shrink():
    numbers = random.Random(3)
    for _ in range(200):
        weights = _turns.whole_numbers(
            [numbers.choice([0.0, 1e-6, numbers.random(), 3]) for _ in range(numbers.randint(1, 6))] + [1]
        )
        before = [0] * len(weights)
        for rows in sorted(numbers.sample(range(100_000), 20)):
            now = _turns.shares(weights, rows)
            assert sum(now) == rows and all(old <= new for old, new in zip(before, now, strict=True))
            quotas = [rows * weight / sum(weights) for weight in weights]
            assert all(abs(new - quota) < len(weights) for new, quota in zip(now, quotas, strict=True))
            before = now


def online(mixing, lengths, stop):
    """Returns the source and the row of each row of a stream, as a reader computes them."""
    turn, rows_found = mixing.begin(), []
    while len(rows_found) < stop:
        turn, chosen = mixing.choices(turn, stop - len(rows_found))
        if not len(chosen):
            break
        fits = _turns.fitting(chosen, [length - turn.place(source) for source, length in enumerate(lengths)])
        for source in chosen[:fits].tolist():
            rows_found.append((source, turn.passes[source], turn.place(source)))
            turn = mixing.after(turn, np.array([source]))
        if fits < len(chosen):
            turn = mixing.without(turn, int(chosen[fits]))
    return rows_found


def random_mix(numbers):
    count = numbers.randint(1, 4)
    weights = [_turns.whole_numbers([numbers.choice([0.05, 1, numbers.random() + 0.01]) for _ in range(count)]) for _ in range(3)]
    changes = sorted(numbers.sample(range(1, 3000), 2))
    timeline = tuple(zip([0, *changes], weights, strict=True))
    lengths = [numbers.choice([1, 7, numbers.randint(1, 2500)]) for _ in range(count)]
    return timeline, lengths


@pytest.mark.parametrize("strategy", ["first_exhausted", "all_exhausted", "all_exhausted_without_replacement"])
def test_a_place_that_is_computed_is_the_place_that_reading_finds(strategy):
    numbers = random.Random(5)
    for case in range(15):
        timeline, lengths = random_mix(numbers)
        mixing = Mixing(timeline, (case,), strategy)
        rows_found = online(mixing, lengths, 8000)
        if len(rows_found) < 8000:
            assert mixing.rows(lengths) == len(rows_found)
        for row in numbers.sample(range(len(rows_found) + 1), min(8, len(rows_found))):
            turn = mixing.at(row, lengths)
            assert turn.row == row == sum(turn.taken) and _turns.read(turn.written()) == turn
            onward = _from(mixing, turn, lengths, rows_found[row : row + 50])
            assert onward == rows_found[row : row + 50]


def _from(mixing, turn, lengths, wanted):
    rows_found = []
    while len(rows_found) < len(wanted):
        turn, chosen = mixing.choices(turn, 1)
        source = int(chosen[0])
        if turn.place(source) >= lengths[source]:
            turn = mixing.without(turn, source)
            continue
        rows_found.append((source, turn.passes[source], turn.place(source)))
        turn = mixing.after(turn, chosen)
    return rows_found


def test_a_place_a_billion_rows_on_is_found_at_once():
    mixing = Mixing(((0, _turns.whole_numbers([0.7, 0.3])), (5_000_000, _turns.whole_numbers([0.5, 0.5]))), (1,), "all_exhausted")
    assert mixing.at(1_000_000_000, [3_000_000, 40_000_000_000]).taken == (501_000_000, 499_000_000)


def test_an_epoch_ends_as_the_caller_says():
    a, b = named(3000, "a"), named(500, "b")
    first = taken(data.mix({a: 1, b: 1}, seed=1))
    assert [name for name, _ in first].count("b") == 500 and 990 < len(first) < 1010 and len(set(first)) == len(first)
    whole = taken(data.mix({a: 1, b: 1}, seed=1, stopping_strategy="all_exhausted_without_replacement"))
    assert sorted(whole) == [*[("a", row) for row in range(3000)], *[("b", row) for row in range(500)]]
    assert {name for name, _ in whole[1010:]} == {"a"} and whole[:900] == first[:900]
    again = taken(data.mix({a: 1, b: 1}, seed=1, stopping_strategy="all_exhausted"))
    assert {row for name, row in again if name == "a"} == {*range(3000)} and 5990 < len(again) < 6010
    assert [row for name, row in again if name == "b"][:1500] == [*range(500)] * 3


def test_a_dataset_that_begins_again_is_shuffled_anew():
    again = taken(data.mix({named(2000, "a"): 1, named(200, "b").random_shuffle(): 1}, seed=1, stopping_strategy="all_exhausted"))
    of_b = [row for name, row in again if name == "b"]
    passes = [of_b[start : start + 200] for start in range(0, 1800, 200)]
    assert all(sorted(one) == [*range(200)] for one in passes) and len({tuple(one) for one in passes}) == 9


def test_other_epochs_and_seeds_choose_otherwise():
    sources = {named(2000, "a"): 0.5, named(2000, "b"): 0.5}

    def names(dataset, epoch=0, seed=7):
        one = shares(dataset, 1, 1, seed)[0]
        for _ in range(epoch):
            list(one.iter_rows())
        return [row["of"] for row in one.iter_rows()][:1000]

    seeded, unseeded = data.mix(sources, seed=3), data.mix(sources)
    assert names(seeded) == names(seeded, seed=8) != names(seeded, epoch=1)
    assert names(unseeded) == names(unseeded) != names(unseeded, seed=8)
    assert names(data.mix(sources, seed=4)) != names(seeded)


@pytest.mark.parametrize("streams", [1, 4, 6])
def test_weights_change_at_the_row_of_the_schedule(streams):
    web, code = named(9000, "web"), named(9000, "code")
    step = 24 * 50
    dataset = data.mix({web: 1, code: 0}, seed=1, schedule={step: {web: 1, code: 3}, (1, 240): {code: 1}})
    by_epoch = []
    one = shares(dataset, 1, streams)[0]
    for _ in range(2):
        by_epoch.append([batch["of"].tolist() for batch in one.iter_batches(batch_size=24)][:120])
    first, second = by_epoch
    assert all(set(batch) == {"web"} for batch in first[:50]) and "code" in first[50]
    later = sum(first[50:100], [])
    assert abs(later.count("code") - 900) < 20 * streams
    assert "web" in second[0] and all(set(batch) == {"code"} for batch in second[10:])


def test_any_number_of_ranks_has_the_same_batches(parquet):
    files = data.read_parquet(str(parquet)).random_shuffle(window_bytes=1)
    other = data.range(700).map(lambda row: {"id": 5000 + row["id"]}).filter(lambda row: row["id"] % 7)
    for strategy in ("first_exhausted", "all_exhausted", "all_exhausted_without_replacement"):
        dataset = data.mix({files: 2, other: 1}, stopping_strategy=strategy)
        by_size = [batches(dataset, world, 8) for world in (1, 2, 4, 8, 3)]
        full = [[batch for batch in one if len(batch) == 24] for one in by_size]
        assert len(full[0]) > 40 and all(one == full[0] for one in full)


def test_each_rank_reads_its_own_rows_of_each_dataset_alone():
    calls = []

    def noted(row):
        calls.append((row["of"], row["id"]))
        return row

    a, b = named(1000, "a").map(noted), named(1000, "b").map(noted)
    for one in shares(data.mix({a: 1, b: 1}, stopping_strategy="all_exhausted_without_replacement"), 4, 4):
        assert len(list(one)) == 500
    heads = calls.index(("b", 0)) + 1  # all columns are known from the first rows of each dataset
    assert len(calls) <= 2000 + 2 * 1000 and heads


def test_a_state_in_mid_epoch_travels_to_another_number_of_ranks():
    dataset = data.mix({named(600, "a").random_shuffle(): 0.7, named(500, "b").random_shuffle(): 0.3})
    expected = batches(dataset, 1, 4, 8)
    begun = shares(dataset, 4, 4)
    parts = [iter(one.iter_batches(batch_size=2, prefetch_batches=2)) for one in begun]
    for _ in range(9):
        for part in parts:
            next(part)
    states = [one.state_dict() for one in begun]
    assert states.count(states[0]) == 4
    later = shares(pickle.loads(pickle.dumps(dataset)), 2, 4)
    for one in later:
        one.load_state_dict(states[0])
    rest = zip(*(one.iter_batches(batch_size=4) for one in later), strict=True)
    assert [sum((part["id"].tolist() for part in of_ranks), []) for of_ranks in rest] == expected[9:]


def test_columns_that_a_dataset_lacks_are_null():
    rows = data.mix({data.from_items([{"a": 1}] * 20): 1, data.from_items([{"b": "x"}] * 20): 1}, seed=1).take_all()
    assert {(row["a"], row["b"]) for row in rows} == {(1, None), (None, "x")}


def test_mixes_of_mixes_and_operations_behind_a_mix():
    inner = data.mix({named(300, "a"): 1, named(300, "b"): 1}, stopping_strategy="all_exhausted_without_replacement")
    dataset = data.mix({inner: 2, named(300, "c"): 1}, seed=1, stopping_strategy="all_exhausted_without_replacement")
    assert len(set(taken(dataset))) == 900 == dataset.count()
    mapped = (
        dataset.map(lambda row: {"id": row["id"] + 1, "of": row["of"]})
        .filter(lambda row: row["of"] != "c")
        .random_shuffle(seed=2)
    )
    assert sorted(taken(mapped)) == sorted((name, row + 1) for name in "ab" for row in range(300))
    assert [len(list(one)) for one in shares(mapped, 3, 3)] == [200] * 3
    assert dataset.map_batches(lambda batch: batch, batch_size=7).count() == 900
    assert len(dataset.limit(10).take_all()) == 10 and dataset.columns() == ["id", "of"]


def test_arguments_that_cannot_be_meant_are_errors():
    a, b = named(5, "a"), named(5, "b")
    for weights in ([a, b], {"a": 1}):
        with pytest.raises(TypeError, match="weights is a dict of numbers by dataset"):
            data.mix(weights)
    with pytest.raises(ValueError, match="weights has the weight -1; it is a finite number from 0 on"):
        data.mix({a: 1, b: -1})
    with pytest.raises(ValueError, match="weights has no weight above 0"):
        data.mix({a: 0, b: 0})
    with pytest.raises(ValueError, match="stopping_strategy is 'never'; it is one of first_exhausted, all_exhausted, all_"):
        data.mix({a: 1}, stopping_strategy="never")
    with pytest.raises(ValueError, match=r"schedule has -3; a key is a number of rows, or \(epoch, rows\), from 0 on"):
        data.mix({a: 1}, schedule={-3: {a: 1}})
    with pytest.raises(TypeError, match=r"schedule\[3\] is a dict of weights by dataset, of the datasets that are mixed"):
        data.mix({a: 1}, schedule={3: {b: 1}})
    with pytest.raises(ValueError, match="seed is 'x'"):
        data.mix({a: 1}, seed="x")
    for strategy in ("first_exhausted", "all_exhausted"):
        with pytest.raises(ValueError, match=r"mix: from_items\(5\) -> filter\(<lambda>\) has no rows"):
            data.mix({named(500, "c"): 1, b.filter(lambda row: False): 1}, stopping_strategy=strategy).take_all()
    with pytest.raises(ValueError, match=r"from_items\(5\) has fewer rows than the 8 streams of an epoch"):
        next(iter(shares(data.mix({a: 1}), 2, 8)[0]))
