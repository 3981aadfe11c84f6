"""Prepared loaders resume within an epoch, with the same batches. No item is fetched twice."""

import itertools
import json
import pickle
import random

import numpy as np
import pytest
import rtrain.data
import torch
from rtrain.train import torch as rt
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    get_worker_info,
)

ROWS = 41


class Counted(Dataset):
    """Items are their indices. How often one was made is counted where the loader has no processes."""

    def __init__(self, rows=ROWS):
        self.rows, self.made = rows, 0

    def __len__(self):
        return self.rows

    def __getitem__(self, index):
        self.made += 1
        return index


class Together(Counted):
    def __getitems__(self, indices):
        return [self[index] for index in indices]


class OfItsOwn(Sampler):
    """A batch sampler whose batches have several sizes, in a random order."""

    def __len__(self):
        return 9

    def __iter__(self):
        for size in torch.randperm(9).tolist():
            yield list(range(size, size + 1 + size % 3))


class Remembers(Sampler):
    """A sampler whose order depends on the number of its iterations in this process."""

    def __init__(self):
        self.random = random.Random(0)

    def __len__(self):
        return ROWS

    def __iter__(self):
        return iter(self.random.sample(range(ROWS), ROWS))


class Lines(IterableDataset):
    """An IterableDataset with a state."""

    def __init__(self, items=23):
        self.items, self.at, self.made = items, None, 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]

    def __iter__(self):
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        start, self.at = self.at, None
        for item in range(worker if start is None else start, self.items, workers):
            self.made += 1
            self.at = item + workers
            yield item
        self.at = None


class Silent(IterableDataset):
    def __iter__(self):
        return iter(range(5))


def weighted():
    return WeightedRandomSampler([1.0 + index for index in range(ROWS)], ROWS)


MADE = {
    "in order": lambda data, **more: DataLoader(data, 4, **more),
    "shuffled": lambda data, **more: DataLoader(data, 4, shuffle=True, **more),
    "shuffled, last one dropped": lambda data, **more: DataLoader(data, 4, shuffle=True, drop_last=True, **more),
    "without batches": lambda data, **more: DataLoader(data, None, shuffle=True, **more),
    "a generator": lambda data, **more: DataLoader(data, 4, shuffle=True, generator=torch.Generator().manual_seed(3), **more),
    "weighted": lambda data, **more: DataLoader(data, 4, sampler=weighted(), **more),
    "a subset": lambda data, **more: DataLoader(data, 4, sampler=SubsetRandomSampler(range(5, 30)), **more),
    "with replacement": lambda data, **more: DataLoader(data, 4, sampler=RandomSampler(data, replacement=True), **more),
    "a DistributedSampler": lambda data, **more: DataLoader(data, 4, sampler=DistributedSampler(data, 1, 0), **more),
    "a BatchSampler": lambda data, **more: DataLoader(
        data, batch_sampler=BatchSampler(RandomSampler(data), 3, drop_last=False), **more
    ),
    "own batches": lambda data, **more: DataLoader(data, batch_sampler=OfItsOwn(), **more),
}


def given(loader):
    return [batch.tolist() if isinstance(batch, torch.Tensor) else batch for batch in loader]


def interrupted(loader, batches):
    """Returns the first batches, and the state in the body of the loop behind them."""
    taken = []
    for batch in loader:
        taken.append(batch.tolist() if isinstance(batch, torch.Tensor) else batch)
        if len(taken) == batches:
            return taken, json.loads(json.dumps(loader.state_dict()))
    raise AssertionError("the loader ended before")


def two_epochs(make, seed=0):
    torch.manual_seed(seed)
    loader = make()
    return [given(loader) for _ in range(3)]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", MADE)
def test_a_resumed_loader_gives_the_rest_and_whole_epochs_after(kind, workers):
    def make(data):
        return rt.prepare_data_loader(MADE[kind](data, num_workers=workers))

    torch.manual_seed(5)
    loader = make(Counted())
    first = given(loader)
    taken, state = interrupted(loader, 3)
    torch.manual_seed(99)
    other = make(Counted())
    other.load_state_dict(state)
    data = other.dataset
    left = given(other)
    if not workers:
        assert data.made == len([index for batch in left for index in (batch if isinstance(batch, list) else [batch])])
    torch.manual_seed(5)
    whole = make(Counted())
    assert given(whole) == first
    second = given(whole)
    assert taken + left == second
    if "BatchSampler" not in kind and kind != "in order":
        assert sorted(map(str, second)) != sorted(map(str, first)) or second != first  # another epoch has another order
    assert given(other) == given(whole) and len(other) == len(whole)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_each_kind_that_persist_resume_too(method):
    more = {"num_workers": 4 if method == "fork" else 1, "persistent_workers": True, "multiprocessing_context": method}
    loader = rt.prepare_data_loader(DataLoader(Counted(), 4, shuffle=True, **more))
    taken, state = interrupted(loader, 2)
    again = rt.prepare_data_loader(DataLoader(Counted(), 4, shuffle=True, **more))
    again.load_state_dict(state)
    rest = given(again)
    pids = [process.pid for process in again._progress._fetching._iterator._workers]
    plain = rt.prepare_data_loader(DataLoader(Counted(), 4, shuffle=True))
    plain.load_state_dict({**state, "delivered": 0})
    assert taken + rest == given(plain)
    assert given(again) == given(plain)
    assert pids == [process.pid for process in again._progress._fetching._iterator._workers]


def test_what_processes_have_fetched_ahead_does_not_count():
    loader = rt.prepare_data_loader(DataLoader(Counted(), 2, num_workers=2, prefetch_factor=5))
    for number, _ in enumerate(loader, 1):
        assert loader.state_dict()["delivered"] == 2 * number if number < 21 else True
    assert loader.state_dict()["epoch"] == 1 and loader.state_dict()["delivered"] == 0


def test_a_state_after_the_last_batch_ends_its_epoch_and_no_more():
    loader = rt.prepare_data_loader(DataLoader(Counted(8), 4))
    _, state = interrupted(loader, 2)
    other = rt.prepare_data_loader(DataLoader(Counted(8), 4))
    other.load_state_dict(state)
    assert other.state_dict() == state
    assert given(other) == [] and given(other) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def as_ranks(monkeypatch, ranks, make):
    """Returns the loaders of all ranks. They need no process group."""
    loaders = []
    for rank in range(ranks):
        monkeypatch.setenv("WORLD_SIZE", str(ranks))
        monkeypatch.setenv("RANK", str(rank))
        loaders.append(make())
    return loaders


def global_batches(loaders, most=None):
    """Returns the global batches, and the state of rank 0 in the loop's body after the last of them."""
    batches = []
    for turn in itertools.zip_longest(*loaders):
        batches.append(sorted(index for batch in turn for index in torch.as_tensor(batch).flatten().tolist()))
        if len(batches) == most:
            break
    states = [loader.state_dict() for loader in loaders]
    assert all(state == states[0] for state in states)
    return batches, states[0]


@pytest.mark.parametrize("own", [False, True])
def test_global_batches_are_the_same_on_every_number_of_ranks(monkeypatch, own):
    def make(ranks):
        more = {"sampler": weighted()} if own else {"shuffle": True}
        return as_ranks(monkeypatch, ranks, lambda: rt.prepare_data_loader(DataLoader(Counted(64), 8 // ranks, **more)))

    torch.manual_seed(0)
    whole = make(4)
    expected = [global_batches(whole)[0] for _ in range(2)]
    begun, state = global_batches(make(4), 2)
    for ranks, steps in ((1, 1), (8, 1), (2, 2)):
        loaders = make(ranks)
        for loader in loaders:
            loader.load_state_dict(state)
        some, state = global_batches(loaders, steps)
        begun += some
    last = make(4)
    for loader in last:
        loader.load_state_dict(state)
    begun += global_batches(last)[0]
    assert begun == expected[0] and global_batches(last)[0] == expected[1]


def test_the_padding_of_the_state_holds_for_every_number_of_ranks(monkeypatch):
    def make(ranks):
        return as_ranks(monkeypatch, ranks, lambda: rt.prepare_data_loader(DataLoader(Counted(21), 8 // ranks)))

    expected, _ = global_batches(make(4))
    assert [len(batch) for batch in expected] == [8, 8, 8]  # includes the padding of a DistributedSampler
    begun, state = global_batches(make(4), 1)
    for ranks in (2, 1):
        loaders = make(ranks)
        for loader in loaders:
            loader.load_state_dict(state)
        assert len(loaders[0]) == 3
        some, after = global_batches(loaders)
        assert begun + some == expected and after["epoch"] == 1


def test_steps_of_global_batches_resume_on_another_number_of_ranks(monkeypatch):
    def make(ranks):
        def one():
            batches = rt.GlobalBatches(40, size=8, micro_batch=2)
            return rt.prepare_data_loader(DataLoader(Counted(40), batch_sampler=batches))

        return as_ranks(monkeypatch, ranks, one)

    def steps(loaders, micro_batches=None):
        """Returns the rows of each optimizer step, of all ranks, and the state after so many micro batches."""
        seen = {}
        overs = [loader.batch_sampler.over(loader) for loader in loaders]
        for turn in itertools.islice(zip(*overs, strict=True), micro_batches):
            step = turn[0][1].step
            seen.setdefault(step, []).extend(index for batch, _ in turn for index in batch.tolist())
        states = [loader.state_dict() for loader in loaders]
        return {step: sorted(rows) for step, rows in seen.items()}, states[0]

    expected, _ = steps(make(2))
    begun, state = steps(make(2), 5)  # each step has two
    assert state["delivered"] == 2  # the unfinished step begins again
    loaders = make(4)
    for loader in loaders:
        loader.load_state_dict(state)
    left, _ = steps(loaders)
    assert {**{step: rows for step, rows in begun.items() if step < 2}, **left} == expected


@pytest.mark.parametrize("batch", [3, None])
@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_a_stream_with_a_state_of_its_own_is_asked_for_it(workers, batch):
    def make():
        return rt.prepare_data_loader(DataLoader(Lines(), batch, num_workers=workers))

    expected = given(make())
    for at in range(1, len(expected)):
        taken, state = interrupted(make(), at)
        other = make()
        other.load_state_dict(state)
        assert taken + given(other) == expected
        if not workers:
            assert other.dataset.made == 23 - sum(len(np.atleast_1d(one)) for one in taken)
        if workers and at > 3:
            break


def test_a_stream_without_a_state_is_refused_with_the_reason():
    loader = rt.prepare_data_loader(DataLoader(Silent(), 2))
    assert given(loader) == [[0, 1], [2, 3], [4]] and not hasattr(loader, "state_dict")
    with pytest.raises(AttributeError, match=r"Silent is an IterableDataset without state_dict.*__getitem__"):
        loader.state_dict()
    shard = rtrain.data.range(10).iterator() if hasattr(rtrain.data.range(10), "iterator") else None
    if shard is not None:
        loader = rt.prepare_data_loader(DataLoader(shard.to_torch(batch_size=2), batch_size=None, num_workers=2))
        with pytest.raises(AttributeError, match="num_workers=0"):
            loader.state_dict()


def test_batches_in_any_order_have_no_state():
    loader = rt.prepare_data_loader(DataLoader(Counted(), 2, num_workers=2, in_order=False))
    with pytest.raises(AttributeError, match="in_order"):
        loader.state_dict()


def test_a_sampler_that_drew_another_order_is_refused():
    loader = rt.prepare_data_loader(DataLoader(Counted(), 4, sampler=Remembers()))
    given(loader)
    _, state = interrupted(loader, 3)
    other = rt.prepare_data_loader(DataLoader(Counted(), 4, sampler=Remembers()))
    other.load_state_dict(state)
    with pytest.raises(ValueError, match="Remembers drew other indices"):
        given(other)


def test_a_resumed_stream_begins_its_next_epoch_at_the_beginning():
    def make():
        return rt.prepare_data_loader(DataLoader(Lines(), 3, num_workers=2))

    taken, state = interrupted(make(), 3)
    resumed, undisturbed = make(), make()
    resumed.load_state_dict(state)
    assert taken + given(resumed) == given(undisturbed)
    assert given(resumed) == given(undisturbed)


def test_a_state_of_another_order_is_refused_in_the_middle_of_an_epoch():
    def steps(**options):
        data = Counted()
        return rt.prepare_data_loader(DataLoader(data, batch_sampler=rt.GlobalBatches(data, **options)))

    in_order, shuffled = (rt.prepare_data_loader(DataLoader(Counted(), 4, shuffle=shuffle)) for shuffle in (False, True))
    pairs = (
        (in_order, shuffled),
        (steps(size=8, micro_batch=4), steps(size=4, micro_batch=4)),
        (steps(size=8, micro_batch=8, seed=1), steps(size=8, micro_batch=8, seed=2)),
    )
    for one, other in pairs:
        begun = itertools.islice(one, 2)
        assert len(list(begun)) == 2
        state = one.state_dict()
        assert state["delivered"]
        with pytest.raises(ValueError, match="rows would come twice or never"):
            other.load_state_dict(state)
        other.load_state_dict({**state, "delivered": 0})


def test_a_distributed_sampler_keeps_its_own_seed_and_epoch():
    data = Counted()
    for epoch in (0, 3):
        sampler = DistributedSampler(data, 1, 0, shuffle=True, seed=42)
        sampler.set_epoch(epoch)
        expected = list(sampler)
        loader = rt.prepare_data_loader(DataLoader(data, 4, sampler=sampler))
        assert [int(row) for batch in given(loader) for row in np.atleast_1d(batch)] == expected


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda state: [state], "no state of a prepared loader"),
        (lambda state: {}, "no state of a prepared loader"),
        (lambda state: {**state, "version": 9}, "version 9"),
        (lambda state: {**state, "kind": "batches of an own sampler"}, "another one"),
        (lambda state: {**state, "rows": 5}, "over 5 rows, and this one has 41"),
        (lambda state: {**state, "world": 4}, "on 4 ranks"),
    ],
)
def test_a_state_of_something_else_is_refused_by_name(wrong, reason):
    loader = rt.prepare_data_loader(DataLoader(Counted(), 4))
    _, state = interrupted(loader, 1)
    with pytest.raises(ValueError, match=reason):
        loader.load_state_dict(wrong(state))


def test_set_epoch_goes_on_in_its_own_epoch_and_leaves_another_one():
    def make():
        return rt.prepare_data_loader(DataLoader(Counted(), 4, shuffle=True))

    loader = make()
    loader.sampler.set_epoch(7)
    taken, state = interrupted(loader, 2)
    assert state["epoch"] == 7
    same, other = make(), make()
    same.load_state_dict(state)
    same.sampler.set_epoch(7)
    loader.sampler.set_epoch(7)
    assert taken + given(same) == given(loader)
    other.load_state_dict(state)
    other.sampler.set_epoch(8)
    loader.sampler.set_epoch(8)
    with pytest.warns(UserWarning, match="in the middle of epoch 7"):
        assert given(other) == given(loader)


def test_a_resumed_iteration_leaves_torchs_generator_alone():
    loader = rt.prepare_data_loader(DataLoader(Counted(), 4, shuffle=True))
    _, state = interrupted(loader, 2)
    other = rt.prepare_data_loader(DataLoader(Counted(), 4, shuffle=True))
    other.load_state_dict(state)
    before = torch.random.get_rng_state()
    given(other)
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_prepared_loader_is_pickled_with_its_place():
    loader = rt.prepare_data_loader(DataLoader(Counted(), 4, shuffle=True))
    loader.load_state_dict(interrupted(loader, 2)[1])
    copied = pickle.loads(pickle.dumps(loader))
    copied.sampler.set_epoch(0)
    assert given(copied) == given(loader)


# -- random numbers by position -----------------------------------------------------------------------------------------
class Noisy(Counted):
    """A dataset whose items contain a number of every generator."""

    def __getitem__(self, index):
        own, same, torchs = rtrain.data.generator(), rtrain.data.generator(), rtrain.data.generator("torch")
        assert own is same
        numbers = [float(own.random()), torch.rand((), generator=torchs).item()]
        if get_worker_info() is not None:
            numbers += [random.random(), float(np.random.rand()), torch.rand(()).item()]
        return [index, *numbers]


def noise(loaders):
    """Returns the numbers of each item, by epoch and index."""
    return [{row[0]: row[1:] for loader in loaders for batch in loader for row in batch} for _ in range(2)]


def rows_of(items):
    return items


def noisy(monkeypatch, ranks, workers, method=None):
    def make():
        own = {"multiprocessing_context": method} if method else {}
        return rt.prepare_data_loader(
            DataLoader(Noisy(16), 4 // ranks, shuffle=True, num_workers=workers, collate_fn=rows_of, **own)
        )

    return as_ranks(monkeypatch, ranks, make)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_items_numbers_depend_on_seed_epoch_and_position(monkeypatch, workers):
    first, second = noise(noisy(monkeypatch, 2, workers))
    assert len(first) == 16 and len({number for numbers in first.values() for number in numbers}) == 16 * (5 if workers else 2)
    assert not {number for numbers in first.values() for number in numbers} & {n for row in second.values() for n in row}
    assert noise(noisy(monkeypatch, 4, 1 if workers else 0)) == [first, second]
    loaders = noisy(monkeypatch, 2, workers)
    for loader in loaders:
        given(loader)
        it = iter(loader)
        next(it), next(it)
    states = [loader.state_dict() for loader in loaders]
    resumed = noisy(monkeypatch, 4, workers)
    for loader in resumed:
        loader.load_state_dict(states[0])
    left = noise(resumed)[0]
    assert len(left) == 8 and all(second[index] == numbers for index, numbers in left.items())


def test_the_ranks_own_generators_are_left_alone(monkeypatch):
    kept = random.getstate(), np.random.get_state()[1].tolist(), torch.random.get_rng_state()
    loader = noisy(monkeypatch, 2, 0)[0]
    loader.load_state_dict(loader.state_dict())
    given(loader)
    assert random.getstate() == kept[0] and np.random.get_state()[1].tolist() == kept[1]
    assert torch.equal(torch.random.get_rng_state(), kept[2])


def test_a_dataset_that_makes_batches_at_once_draws_by_the_batch():
    class AtOnce(Together):
        def __getitems__(self, indices):
            return rtrain.data.generator().random(len(indices)).tolist()

    first, second = (given(rt.prepare_data_loader(DataLoader(AtOnce(), 4, sampler=range(ROWS)))) for _ in range(2))
    assert len(first) == len(second) == 11


def test_a_workers_own_init_function_sees_the_users_dataset():
    def init(_worker):
        get_worker_info().dataset.made = 100

    class Made(Counted):
        def __getitem__(self, index):
            return self.made

    loader = rt.prepare_data_loader(DataLoader(Made(4), 4, num_workers=1, worker_init_fn=init))
    assert given(loader) == [[100] * 4]


def test_outside_of_a_loader_a_generator_is_unseeded_and_says_so():
    with pytest.warns(UserWarning, match="No position seeds it"):
        rtrain.data.generator()
    with pytest.raises(ValueError, match="use 'numpy' or 'torch'"):
        rtrain.data.generator("jax")
