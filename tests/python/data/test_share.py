"""Each row of an epoch goes to one rank, once, also after resuming and resizing."""

from __future__ import annotations

import json
import random
import threading

import numpy
import pytest
import rtrain.data as data
from rtrain.data import _position
from rtrain.data._block import Block
from rtrain.data._dealing import _board
from rtrain.data._plan import Order
from rtrain.data._position import Stage
from rtrain.data._share import Share


@pytest.fixture(autouse=True)
def one_rank_after_the_other(monkeypatch):
    monkeypatch.setattr(_board, "PATIENCE_S", 0)


def ids(rows) -> list[int]:
    return [row["id"] for row in rows]


def iterators(dataset, world, *, state=None, equal=True, seed=7, streams=None):
    shares = [dataset.rtrain_share_of_run(rank, world, seed, equal=equal, streams=streams) for rank in range(world)]
    for one in shares:
        if state is not None:
            one.load_state_dict(json.loads(json.dumps(state)))
    return shares


def test_ranks_get_equal_neighbouring_parts_and_the_rest_is_nobodys():
    ten = data.range(10)
    assert [ids(one) for one in iterators(ten, 3)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert [ids(one) for one in iterators(ten, 3, equal=False)] == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert [one.count() for one in iterators(ten, 3)] == [3, 3, 3]
    assert [ids(one) for one in iterators(data.range(2), 3)] == [[], [], []]


def test_functions_that_change_the_number_of_rows_leave_equal_shares(parquet):
    odd = data.read_parquet(str(parquet)).filter(lambda row: row["id"] < 300 or row["id"] % 2).map(lambda row: {"id": row["id"]})
    expected = [one for one in range(1000) if one < 300 or one % 2]
    for world in (1, 2, 3, 4):
        parts = [ids(one) for one in iterators(odd, world)]
        assert {len(part) for part in parts} == {len(expected) // world}
        rows = sum(parts, [])
        assert len(set(rows)) == len(rows) and set(rows) <= set(expected)
        whole = [ids(one) for one in iterators(odd, world, equal=False)]
        assert sorted(sum(whole, [])) == expected and max(map(len, whole)) - min(map(len, whole)) <= 1
    assert ids(odd) == expected and [one.count() for one in iterators(odd, 3)] == [len(expected) // 3] * 3


def half(batch):
    return {"id": batch["id"][::2]}


def test_map_batches_may_change_the_rows_of_ranks_that_share_them(parquet):
    for source in (data.range(1000), data.read_parquet(str(parquet))):
        for shuffled in (source, source.random_shuffle(seed=1)):
            for world in (2, 3):
                parts = [ids(one) for one in iterators(shuffled.map_batches(half), world)]
                rows = sum(parts, [])
                assert len({len(part) for part in parts}) == 1
                assert 500 - world < len(rows) == len(set(rows)) < 500 + 32  # a function is given parts of pieces
    with pytest.raises(ValueError, match=r"made 500 rows of 1000 \(udf_modifying_row_count=False\)"):
        ids(iterators(data.range(1000).map_batches(half, udf_modifying_row_count=False), 2)[0])


def test_no_function_is_called_to_count_rows(recwarn):
    rows = []
    kept = data.range(1000).random_shuffle(seed=1).map_batches(lambda batch: rows.extend(batch["id"].tolist()) or batch)
    shares = together(iterators(kept, 2))
    assert rows == []
    for _ in range(3):
        rows.clear()
        assert len(ids(iterators(kept, 1, streams=2)[0])) == 1000 and sorted(rows) == list(range(1000))
    assert [len(ids(one)) for one in shares] == [500, 500] and not recwarn


def test_one_rank_resumes_behind_a_function_that_drops_rows():
    dataset = data.range(200_000).map_batches(half)  # several pieces
    begun = dataset.iterator()
    first = taken(begun, 70_000)
    later = data.range(200_000).map_batches(half).iterator()
    later.load_state_dict(begun.state_dict())
    assert first + ids(later) == ids(dataset)


def test_rank_zero_says_what_counting_costs(capfd):
    share = iterators(data.range(100).map_batches(half).limit(20), 1)[0]
    share._agree(lambda value: [value])
    errors = capfd.readouterr().err
    assert "counts the rows of" in errors and "counting took" in errors and "map_batches(half) ran once for that" in errors


def test_epochs_shuffle_anew_alike_on_every_rank(parquet):
    for dataset in (data.range(1000), data.read_parquet(str(parquet))):
        for shuffled in (dataset.random_shuffle(), dataset.random_shuffle(seed=3), dataset.random_shuffle(window_bytes=1)):
            pair, again = iterators(shuffled, 2), iterators(shuffled, 2)
            epochs = [ids(pair[0]) + ids(pair[1]) for _ in range(3)]
            assert all(sorted(epoch) == list(range(1000)) for epoch in epochs)
            assert epochs[0] != epochs[1] != epochs[2] != list(range(1000))
            assert epochs == [ids(again[0]) + ids(again[1]) for _ in range(3)]  # shares of the same run
    other = iterators(data.range(1000).random_shuffle(), 2, seed=8)
    assert ids(other[0]) != ids(iterators(data.range(1000).random_shuffle(), 2)[0])
    dataset = data.range(1000).random_shuffle(seed=3)
    # Its own seed counts in each run.
    assert ids(iterators(dataset, 2, seed=8)[0]) == ids(iterators(dataset, 2, seed=9)[0])
    assert ids(dataset) == ids(dataset) and ids(data.range(1000).random_shuffle()) != ids(data.range(1000).random_shuffle())


def test_the_epochs_order_does_not_depend_on_the_number_of_ranks(parquet):
    shuffled = data.read_parquet(str(parquet)).map(lambda row: row).random_shuffle(seed=1)
    orders = [dealt([ids(one) for one in iterators(shuffled, world, streams=20)], 20) for world in (1, 2, 4, 5)]
    assert orders[0] == orders[1] == orders[2] == orders[3] and sorted(orders[0]) == list(range(1000))
    blocks = data.read_parquet(str(parquet)).randomize_block_order(seed=1)
    orders = [sum((ids(one) for one in iterators(blocks, world)), []) for world in (1, 2, 5)]
    assert orders[0] == orders[1] == orders[2] != list(range(1000))


def dealt(parts, streams):
    """Merges the rows of ranks that read one by one into the order of a reader of all streams."""
    each = streams // len(parts)  # number of streams of a rank, and of the rows that it gets in each turn
    turns = [[part[turn : turn + each] for part in parts] for turn in range(0, len(parts[0]), each)]
    return [row for turn in turns for number in range(each) for row in (part[number] for part in turn)]


def test_a_rank_reads_its_own_part_alone(parquet, monkeypatch):
    from rtrain.data._files import Parquet

    opened = []
    blocks = Parquet.blocks
    monkeypatch.setattr(Parquet, "blocks", lambda self, place, piece: opened.append(place) or blocks(self, place, piece))
    pair = iterators(data.read_parquet(str(parquet)), 2)
    ids(pair[0])
    first, opened[:] = set(opened), []
    ids(pair[1])
    # Both ranks read the row group in the middle.
    assert len(first & set(opened)) == 1 and len(first | set(opened)) == 16


def taken(iterator, rows, **options):
    """Returns the next rows, and stops the iteration there."""
    rows_read = []
    for batch in iterator.iter_batches(batch_size=5, **options):
        rows_read.extend(batch["id"].tolist())
        if len(rows_read) >= rows:
            break
    return rows_read


@pytest.mark.parametrize("options", [{}, {"local_shuffle_buffer_size": 16}], ids=["in order", "local shuffle"])
@pytest.mark.parametrize("made", ["range", "parquet", "filtered"])
def test_resuming_gives_no_row_twice_and_none_too_few(made, options, parquet):
    dataset = {
        "range": lambda: data.range(1000).random_shuffle(),
        "parquet": lambda: data.read_parquet(str(parquet)).random_shuffle(seed=2, window_bytes=1),
        "filtered": lambda: (
            data.read_parquet(str(parquet)).filter(lambda row: row["id"] >= 17).map(lambda row: {"id": row["id"]})
        ),
    }[made]()
    everything = [one for one in range(1000) if made != "filtered" or one >= 17]
    random_numbers = random.Random(f"{made} {options}")
    for _ in range(8):
        seen, state, worlds = [], None, [random_numbers.randint(1, 4) for _ in range(3)]
        for place, world in enumerate(worlds):
            ranks = iterators(dataset, world, state=state)
            rows = 10_000 if place == 2 else 5 * random_numbers.randint(0, 25)
            parts = [taken(one, rows, **options) if rows else [] for one in ranks]
            assert all(len(part) == min(len(one) for one in parts) for part in parts)
            states = [one.state_dict() for one in ranks]
            assert states.count(states[0]) == world  # the states of all ranks are equal
            seen += sum(parts, [])
            state = states[0]
        assert len(set(seen)) == len(seen)
        # The rest that cannot be split equally among streams and the last ranks.
        assert len(everything) - len(seen) < worlds[0] + worlds[-1]
        assert set(seen) <= set(everything)


@pytest.fixture
def sources(parquet, tmp_path):
    """Returns datasets of 1,000 rows each, from files and from memory."""
    for number in range(3):
        (tmp_path / f"{number}.csv").write_text("id\n" + "".join(f"{one}\n" for one in range(1000) if one % 3 == number))
    return {
        "parquet": lambda: data.read_parquet(str(parquet)),
        "csv": lambda: data.read_csv([str(tmp_path / f"{number}.csv") for number in range(3)]),
        "range": lambda: data.range(1000),
    }


def even(row):
    return row["id"] % 2 == 0


PLANS = {
    "nothing": lambda d: d,
    "filter": lambda d: d.filter(even),
    "map_batches": lambda d: d.map_batches(half),
    "shuffle, map_batches": lambda d: d.random_shuffle().map_batches(keep),
    "shuffle, fewer rows": lambda d: d.random_shuffle(seed=3).map_batches(half),
    "map_batches, shuffle, map_batches": lambda d: d.map_batches(half).random_shuffle().map_batches(keep),
    "filter, shuffle, map_batches": lambda d: d.filter(even).random_shuffle().map_batches(keep),
    "shuffle, filter, map_batches": lambda d: d.random_shuffle().filter(even).map_batches(half),
    "shuffle, limit, map_batches": lambda d: d.random_shuffle().limit(333).map_batches(keep),
    "blocks, map_batches, shuffle": lambda d: d.randomize_block_order().map_batches(keep).random_shuffle(),
    "union, sample, shuffle": lambda d: (
        d.filter(even).union(data.range(0)).random_sample(0.5, seed=1).random_shuffle(window_bytes=1)
    ),
    "empty row groups, shuffle": lambda d: d.filter(lambda row: row["id"] % 400 < 50).random_shuffle(window_bytes=1),
}


def keep(batch):
    return {"id": batch["id"]}


def agreement(shares):
    """Returns the errors when every rank counts its part in a separate thread, as ranks do in `get_dataset_shard`."""
    meeting, values, errors = threading.Barrier(len(shares)), {}, []

    def agree(rank):
        def exchange(value):
            values[rank] = value
            meeting.wait(30)
            gathered = [values[one] for one in range(len(shares))]
            meeting.wait(30)
            return gathered

        try:
            shares[rank]._agree(exchange)
        except ValueError as error:
            errors.append(str(error))
        except BaseException as error:
            meeting.abort()
            errors.append(repr(error))

    threads = [threading.Thread(target=agree, args=(rank,)) for rank in range(len(shares))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def together(shares):
    if len(shares) > 1:
        assert agreement(shares) == []
    return shares


@pytest.mark.filterwarnings("ignore:.*changes the number of rows behind a shuffle")
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("source", ["parquet", "csv", "range"])
def test_ranks_share_what_one_reader_has(source, plan, sources):
    for world in (2, 3):
        shares = together([iterators(PLANS[plan](sources[source]()), world)[rank] for rank in range(world)])
        one = iterators(PLANS[plan](sources[source]()), 1, streams=world)[0]
        for _ in range(2):  # epochs
            parts, expected = [ids(share) for share in shares], ids(one)
            turns = [sorted(expected[start : start + world]) for start in range(0, len(expected) // world * world, world)]
            assert [sorted(turn) for turn in zip(*parts, strict=True)] == turns
            assert {len(part) for part in parts} == {len(expected) // world} and len(set(expected)) == len(expected) > 100


@pytest.mark.filterwarnings("ignore:.*changes the number of rows behind a shuffle")
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("source", ["parquet", "csv", "range"])
def test_each_number_of_ranks_goes_on_from_each(source, plan, sources):
    for before, after in ((1, 1), (1, 2), (2, 1), (2, 3), (3, 1)):
        expected = ids(iterators(PLANS[plan](sources[source]()), 1, streams=before)[0])
        first = together([iterators(PLANS[plan](sources[source]()), before)[rank] for rank in range(before)])
        seen = sum((taken(one, 20) for one in first), [])
        state = first[0].state_dict()
        later = together([iterators(PLANS[plan](sources[source]()), after, state=state)[rank] for rank in range(after)])
        seen += sum((ids(one) for one in later), [])
        assert len(set(seen)) == len(seen) and set(seen) <= set(expected), (before, after)
        assert len(expected) - len(seen) < after, (before, after)


def test_going_on_with_as_many_ranks_is_as_if_nothing_had_happened(parquet):
    dataset = data.read_parquet(str(parquet)).random_shuffle()
    whole = [[ids(one) for _ in range(2)] for one in iterators(dataset, 3)]
    for rank in range(3):
        begun = iterators(dataset, 3)[rank]
        first = taken(begun, 100)
        later = iterators(dataset, 3, state=begun.state_dict(), seed=99)[rank]  # the state contains the seed
        assert first + ids(later) == whole[rank][0] and ids(later) == whole[rank][1]


def test_in_the_loop_the_state_is_of_this_epoch_and_after_it_of_the_next():
    share = iterators(data.range(100).random_shuffle(), 2)[0]
    assert share.state_dict()["epoch"] == 0 and share.state_dict()["given"] == 0
    for batch in share.iter_batches(batch_size=50):
        assert len(batch["id"]) == 50
        inside = share.state_dict()
    assert (inside["epoch"], inside["given"]) == (0, 100)
    after = share.state_dict()
    assert (after["epoch"], after["given"]) == (1, 0)
    second = ids(share)
    resumed = iterators(data.range(100).random_shuffle(), 2, state=inside)[0]
    assert ids(resumed) == []  # the epoch has no more rows
    assert ids(iterators(data.range(100).random_shuffle(), 2, state=after)[0]) == second == ids(resumed)


@pytest.mark.parametrize("named", [0, 1, 5])
def test_a_state_behind_set_epoch_is_of_the_epoch_that_was_named(named):
    share = data.range(100).random_shuffle(seed=1).iterator()
    taken(share, 20)  # the loop ends within epoch 0
    share._share.set_epoch(named)
    state = share.state_dict()
    assert (state["epoch"], state["given"]) == (named, 0)
    resumed = data.range(100).random_shuffle(seed=1).iterator()
    resumed.load_state_dict(state)
    assert ids(resumed) == ids(share) and len(ids(share)) == 100


def test_rows_of_a_prefetched_batch_do_not_count_before_the_loop_has_it():
    share = data.range(1000).iterator()
    batches = iter(share.iter_batches(batch_size=10, prefetch_batches=8))
    next(batches), next(batches)
    assert share.state_dict()["given"] == 20
    batches.close()


def test_one_reader_of_rows_that_nobody_counted_goes_on_too(tmp_path):
    (tmp_path / "a.csv").write_text("id\n" + "".join(f"{one}\n" for one in range(300_000)))
    dataset = data.read_csv(str(tmp_path / "a.csv"))
    share = dataset.iterator()
    first = taken(share, 123_000)
    state = share.state_dict()
    assert state["rows"] is None
    later = data.read_csv(str(tmp_path / "a.csv")).iterator()
    later.load_state_dict(state)
    assert first + ids(later) == list(range(300_000))
    for world in (2, 3):
        parts = [ids(one) for one in iterators(dataset, world, state=state)]
        assert sorted(sum(parts, [])) == list(range(len(first), 300_000 - (300_000 - len(first)) % world))


def test_a_state_of_something_else_is_refused():
    share = iterators(data.range(100), 2)[0]
    taken(share, 5)
    state = share.state_dict()
    with pytest.raises(ValueError, match="of a dataset with 100 rows, and range\\(90\\) has 90 now"):
        ids(iterators(data.range(90), 2, state=state)[0])
    with pytest.raises(ValueError, match="this is no state"):
        share.load_state_dict({"model": 1})
    with pytest.raises(ValueError, match="the state is of version 9"):
        share.load_state_dict({**state, "version": 9})


def test_what_is_left_is_counted_right_whatever_the_stages():
    random_numbers = random.Random(5)
    for _ in range(300):
        total = random_numbers.randint(0, 60)
        left, stages, given = set(range(total)), [], []
        for _ in range(random_numbers.randint(1, 4)):
            world, equal = random_numbers.randint(1, 5), random_numbers.random() < 0.5
            buffer = random_numbers.choice([0, 1, 4, 7])
            stage = Stage(world, random_numbers.randint(0, 12), equal, buffer, random_numbers.randint(0, 9))
            rest = _position.rest_after(total, stages, 3)
            for rank in range(world):
                positions = [one for start, stop in _position.share(rest, world, rank, equal=equal) for one in range(start, stop)]
                order = positions
                if buffer:
                    cuts = [positions[start : start + buffer] for start in range(0, len(positions), buffer)]
                    order = [
                        cut[place]
                        for number, cut in enumerate(cuts)
                        for place in _position.permutation(stage.seed, 3, rank, number, len(cut))
                    ]
                given += order[: stage.consumed]
            stages.append(stage)
            left = set(range(total)) - set(given)
            after = [one for start, stop in _position.rest_after(total, stages, 3) for one in range(start, stop)]
            assert after == sorted(left) and len(given) == len(set(given))


def test_ranks_count_together_what_has_positions_and_must_see_the_same_rows(parquet, tmp_path):
    counted = []

    def keep(row):
        counted.append(row["id"])
        return row["id"] % 3 == 0

    shares = [iterators(data.read_parquet(str(parquet)).filter(keep).limit(333), 3)[rank] for rank in range(3)]
    assert agreement(shares) == [] and sorted(counted) == list(range(1000))  # each row by one rank
    assert [one.count() for one in shares] == [111, 111, 111]
    for number in range(3):
        (tmp_path / f"{number}.csv").write_text("id\n1\n2\n3\n")
    for fewer, error in (
        (lambda rows: rows, "rank 1 sees other files of read_csv"),
        (lambda rows: rows.limit(9), "rank 1 sees 2 files or"),
    ):
        files = [data.read_csv([tmp_path / f"{one}.csv" for one in range(3 - (rank == 1))]) for rank in range(3)]
        assert any(error in message for message in agreement([iterators(fewer(files[rank]), 3)[rank] for rank in range(3)]))
    different = [iterators(data.range(1000 + (rank == 2)), 3)[rank] for rank in range(3)]
    assert sorted(agreement(different)) == [
        "rank 0 sees 1000 rows of range(1001) and rank 2 sees 1001: the ranks must read the same files",
        "rank 2 sees 1001 rows of range(1000) and rank 0 sees 1000: the ranks must read the same files",
        "rank 2 sees 1001 rows of range(1000) and rank 1 sees 1000: the ranks must read the same files",
    ]


def test_streaming_split_gives_every_row_to_one_iterator():
    parts = data.range(11).random_shuffle().streaming_split(3)
    for _ in range(2):
        assert sorted(sum((ids(one) for one in parts), [])) == list(range(11))
    assert [one.count() for one in data.range(11).streaming_split(3, equal=True)] == [3, 3, 3]


def test_a_share_is_one_of_its_own_after_pickling():
    import cloudpickle

    share = iterators(data.range(100).random_shuffle(), 2)[1]
    again = cloudpickle.loads(cloudpickle.dumps(share))
    assert ids(again) == ids(share)
    assert isinstance(again._share, Share)


def test_a_state_of_other_pieces_is_told_where_the_order_follows_from_them(parquet, recwarn):
    files = data.read_parquet(str(parquet))
    for plan in (files, data.range(1000).random_shuffle(seed=1), files.randomize_block_order(seed=1)):
        begun = plan.iterator()
        taken(begun, 300)
        older = {key: value for key, value in begun.state_dict().items() if key != "pieces"}
        plan.iterator().load_state_dict(older)
    assert not recwarn.list
    for plan in (files.random_shuffle(seed=1).map(lambda row: row), files.random_sample(0.5, seed=1)):
        begun = plan.iterator()
        taken(begun, 300)
        plan.iterator().load_state_dict(begun.state_dict())
        assert not recwarn.list
        older = {key: value for key, value in begun.state_dict().items() if key != "pieces"}
        with pytest.warns(UserWarning, match="cut files into other pieces: rows of this epoch may come twice"):
            plan.iterator().load_state_dict(older)


def inflated(row):
    return {"id": row["id"], "made": numpy.zeros(100_000, dtype="u1")}  # 70 rows of a row group are 7 MB


def test_a_window_is_cut_where_functions_made_too_many_bytes(parquet, monkeypatch):
    dataset = data.read_parquet(str(parquet)).map(inflated).random_shuffle(seed=1, window_bytes=16 << 20)
    assert sum(1 for _ in dataset._node.start(Order(7)).pieces()) == 16
    shuffled, take = [], Block.take
    monkeypatch.setattr(Block, "take", lambda self, places: shuffled.append(self.nbytes) or take(self, places))
    assert sorted(ids(dataset.iterator().iter_rows())) == list(range(1000))
    assert 16 << 20 <= max(shuffled) < 24 << 20


def test_a_state_of_windows_that_were_not_cut_finishes_its_epoch_so(parquet):
    dataset = data.read_parquet(str(parquet)).map(inflated).random_shuffle(seed=1, window_bytes=16 << 20)

    def begun_by_an_earlier_version():
        share = dataset.iterator()
        share._share.pieces = 2
        return share

    whole = ids(begun_by_an_earlier_version())
    begun = begun_by_an_earlier_version()
    first = taken(begun, 300)
    later = dataset.iterator()
    later.load_state_dict(begun.state_dict())
    again = taken(later, 100)
    last = dataset.iterator()
    last.load_state_dict(later.state_dict())
    assert first + again + ids(last) == whole != ids(dataset.iterator())
