"""Operations: their results, the number of constructions of a class, and the errors for wrong functions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import rtrain.data as data


def column(dataset, name="id"):
    return [row[name] for row in dataset.iter_rows()]


def test_rows_by_functions():
    ten = data.range(10)
    assert column(ten.map(lambda row: {"x": row["id"] ** 2}), "x") == [one**2 for one in range(10)]
    assert column(ten.map(lambda row, plus, by=1: {"id": row["id"] * by + plus}, fn_args=(1,), fn_kwargs={"by": 2}))[:2] == [1, 3]
    assert column(ten.flat_map(lambda row: [row] * row["id"])) == [one for one in range(10) for _ in range(one)]
    assert column(ten.filter(lambda row: row["id"] % 2)) == [1, 3, 5, 7, 9]
    assert column(ten.filter(expr=pc.field("id") > 6)) == [7, 8, 9]
    assert ten.filter(lambda row: False).take_all() == []


def test_batches_by_functions_in_every_format():
    pytest.importorskip("pandas")
    seen = []

    def numpy(batch):
        seen.append(len(batch["id"]))
        batch["id"] += 1  # the array belongs to the function
        return batch

    ten = data.range(10)
    assert column(ten.map_batches(numpy, batch_size=4)) == list(range(1, 11)) and seen == [4, 4, 2]
    assert column(ten) == list(range(10))
    assert column(ten.map_batches(lambda frame: frame.assign(x=frame["id"] * 2), batch_format="pandas"), "x")[9] == 18
    assert (
        column(ten.map_batches(lambda table: table.append_column("x", pa.array([1] * len(table))), batch_format="pyarrow"), "x")
        == [1] * 10
    )

    def twice(batch):
        yield batch
        yield batch

    assert ten.map_batches(twice, udf_modifying_row_count=True).count() == 20
    # One reader may change the number of rows without the argument.
    assert ten.map_batches(lambda batch: {"id": batch["id"][:3]}).count() == 3


class Adds:
    made = 0

    def __init__(self, what):
        Adds.made += 1
        self.what = what

    def __call__(self, batch):
        return {"id": batch["id"] + self.what}


def test_a_class_is_made_once():
    dataset = data.range(200_000).map_batches(Adds, fn_constructor_args=(5,), batch_size=1000)
    assert Adds.made == 0
    assert column(dataset)[:2] == [5, 6] and dataset.take(1) == [{"id": 5}]
    assert Adds.made == 1


def test_a_function_runs_once_for_each_batch_also_before_a_shuffle(parquet):
    seen = []

    def some(batch):
        seen.append(len(batch["id"]))
        return {"id": batch["id"][batch["id"] % 2 == 0]}

    def keep(row):
        seen.append(1)
        return row["id"] % 2 == 0

    rows = data.read_parquet(str(parquet))
    for changed in (rows.map_batches(some, udf_modifying_row_count=True), rows.map_batches(some), rows.filter(keep)):
        for ordered in (changed, changed.random_shuffle(), changed.randomize_block_order()):
            seen.clear()
            ids = column(ordered.map(lambda row: row))
            assert sorted(ids) == list(range(0, 1000, 2)) and sum(seen) == 1000
            assert (ids == sorted(ids)) == (ordered is changed)


def test_columns():
    dataset = data.from_items([{"a": 1, "b": 2, "c": 3}])
    assert dataset.add_column("d", lambda batch: batch["a"] + 1, batch_format="numpy").take(1) == [
        {"a": 1, "b": 2, "c": 3, "d": 2}
    ]
    assert dataset.drop_columns(["a", "c"]).take(1) == [{"b": 2}]
    assert dataset.select_columns(["c", "a"]).columns() == ["c", "a"]
    assert dataset.rename_columns({"a": "x"}).take(1) == [{"x": 1, "b": 2, "c": 3}]
    assert dataset.rename_columns(["x", "y", "z"]).columns() == ["x", "y", "z"]
    for change in (
        lambda: dataset.drop_columns("z"),
        lambda: dataset.select_columns("z"),
        lambda: dataset.rename_columns({"z": "a"}),
    ):
        with pytest.raises(KeyError, match="there is no column 'z'; there are: a, b, c"):
            change()
    with pytest.raises(ValueError, match="two columns would have one name"):
        dataset.rename_columns({"a": "b"})


def test_parts():
    ten = data.range(10)
    assert column(ten.limit(3)) == [0, 1, 2] and ten.limit(30).count() == 10
    assert [column(one) for one in ten.split(3)] == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert [column(one) for one in ten.split(3, equal=True)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert [column(one) for one in ten.split_at_indices([2, 5])] == [[0, 1], [2, 3, 4], [5, 6, 7, 8, 9]]
    assert [one.count() for one in ten.split_proportionately([0.2, 0.5])] == [2, 5, 3]
    train, test = ten.train_test_split(0.3)
    assert column(train) == list(range(7)) and column(test) == [7, 8, 9]
    train, test = ten.train_test_split(4, shuffle=True)
    for _ in range(3):
        assert sorted(column(train) + column(test)) == list(range(10))
    odd = data.range(100).filter(lambda row: row["id"] % 2)
    assert [column(one)[0] for one in odd.split(2)] == [1, 51]


def test_several_datasets():
    ten = data.range(10)
    assert column(ten.union(data.range(2), data.range(1))) == [*range(10), 0, 1, 0]
    double = ten.map(lambda row: {"id": row["id"] * 2, "y": 1})
    assert ten.zip(double).take(2) == [{"id": 0, "id_1": 0, "y": 1}, {"id": 1, "id_1": 2, "y": 1}]
    big = data.range(300_000)
    zipped = big.zip(big.filter(lambda row: True).rename_columns({"id": "other"}))
    assert all((batch["id"] == batch["other"]).all() for batch in zipped.iter_batches(batch_size=7000))
    with pytest.raises(ValueError, match="has 10 rows, range\\(9\\) has 9"):
        ten.zip(data.range(9)).take_all()
    with pytest.raises(ValueError, match="ends at row 5"):
        ten.zip(ten.filter(lambda row: row["id"] < 5).rename_columns({"id": "x"})).take_all()
    with pytest.raises(ValueError, match="has more than the 10 rows|has 20"):
        ten.zip(data.range(20).filter(lambda row: True).rename_columns({"id": "x"})).take_all()


def test_orders_and_groups():
    rows = [{"k": "b", "v": 3}, {"k": "a", "v": 2}, {"k": "b", "v": 1}, {"k": "a", "v": 4}]
    dataset = data.from_items(rows)
    assert column(dataset.sort("v"), "v") == [1, 2, 3, 4]
    assert column(dataset.sort(["k", "v"], [False, True]), "v") == [4, 2, 3, 1]
    assert dataset.unique("k") == ["b", "a"]
    assert dataset.groupby("k").count().take_all() == [{"k": "a", "count()": 2}, {"k": "b", "count()": 2}]
    assert dataset.groupby("k").sum("v").take_all() == [{"k": "a", "sum(v)": 6}, {"k": "b", "sum(v)": 4}]
    assert dataset.groupby("k").mean("v").take_all() == [{"k": "a", "mean(v)": 3.0}, {"k": "b", "mean(v)": 2.0}]
    assert dataset.groupby("k").std("v").take(1)[0]["std(v)"] == pytest.approx(np.sqrt(2))
    largest = dataset.groupby("k").map_groups(lambda group: {"k": group["k"][:1], "v": group["v"].max(keepdims=True)})
    assert largest.take_all() == [{"k": "a", "v": 4}, {"k": "b", "v": 3}]


def test_sums_and_their_kin():
    values = np.random.default_rng(0).normal(3, 2, 150_000)
    dataset = data.from_numpy(values, column="x")
    assert dataset.sum("x") == pytest.approx(values.sum()) and dataset.mean("x") == pytest.approx(values.mean())
    assert dataset.std("x") == pytest.approx(values.std(ddof=1)) and dataset.num_blocks() > 1
    assert data.from_items([{"a": 1, "b": 5}, {"a": None, "b": 6}]).min() == {"min(a)": 1, "min(b)": 5}
    assert data.from_items([{"a": 1}, {"a": None}]).sum("a", ignore_nulls=False) is None
    assert data.from_items([]).sum("a") is None
    with pytest.raises(KeyError, match="there is no column 'z'"):
        dataset.sum("z")
    with pytest.raises(TypeError, match="the column 't' cannot be taken together"):
        data.from_items([{"t": "text"}]).sum("t")


def test_random_sample_is_the_same_in_each_epoch():
    some = data.range(10_000).random_sample(0.1)
    assert column(some) == column(some) and 800 < some.count() < 1200
    assert column(data.range(100).random_sample(0.5, seed=1)) == column(data.range(100).random_sample(0.5, seed=1))


def parse(row):
    return {"x": 1 / row["id"]}


def test_a_function_that_fails_is_named_with_its_line():
    with pytest.raises(
        data.UserCodeError, match=r"map\(parse\) failed: ZeroDivisionError: .*test_ops.py:\d+ in parse: return \{.x.: 1 / row"
    ) as caught:
        data.range(3).map(parse).take_all()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)

    def breaks(batch):
        yield {"x": batch["gone"]}

    with pytest.raises(data.UserCodeError, match=r"map_batches\(breaks\) failed: KeyError: 'gone'.*in breaks"):
        data.range(3).map_batches(breaks).take_all()


def test_a_function_that_gives_the_wrong_thing():
    three = data.range(3)
    with pytest.raises(TypeError, match=r"map\(<lambda>\): a row is a dict, and the function gave an int"):
        three.map(lambda row: 3).take_all()
    with pytest.raises(TypeError, match=r"flat_map\(<lambda>\): the function gives a list of dicts, and gave a dict"):
        three.flat_map(lambda row: row).take_all()
    with pytest.raises(TypeError, match=r"filter\(<lambda>\): the function gives True or False, and gave a str"):
        three.filter(lambda row: "yes").take_all()
    with pytest.raises(
        TypeError,
        match=r"map_batches\(<lambda>\): a batch is a dict of arrays, a pandas DataFrame or a pyarrow Table, not ndarray",
    ):
        three.map_batches(lambda batch: batch["id"]).take_all()
    with pytest.raises(TypeError, match="the column 'x' is a single value"):
        three.map_batches(lambda batch: {"x": np.asarray(3.0)}).take_all()
    with pytest.raises(ValueError, match="the columns differ in length: 'a' has 3, 'b' has 1"):
        three.map_batches(lambda batch: {"a": batch["id"], "b": [1]}).take_all()
    with pytest.raises(ValueError, match=r"add_column\(x\).*differ in length"):
        three.add_column("x", lambda batch: [1], batch_format="numpy").take_all()


def test_arguments_that_cannot_be():
    three = data.range(3)
    with pytest.raises(ValueError, match="batch_format is 'tensor'; it is one of default, numpy, pandas, pyarrow"):
        three.map_batches(lambda batch: batch, batch_format="tensor")
    with pytest.raises(TypeError, match=r"map\(\) has no argument 'bach_size'"):
        three.map(lambda row: row, bach_size=3)
    with pytest.raises(TypeError, match="map needs a function or a class"):
        three.map("text")
    with pytest.raises(ValueError, match="limit is -1"):
        three.limit(-1)
    with pytest.raises(ValueError, match="test_size is 3"):
        three.train_test_split(3)
    with pytest.raises(ValueError, match="n is 0"):
        three.split(0)
    # Arguments for Ray's placement of tasks have no effect.
    assert three.map(lambda row: row, resources={"A": 2}).count() == 3


def test_one_column_gives_a_number_and_several_a_dict():
    numbers = data.range(100)
    assert (numbers.sum(), numbers.min(), numbers.max(), numbers.mean()) == (4950, 0, 99, 49.5)
    assert numbers.std() == pytest.approx(np.arange(100).std(ddof=1)) and numbers.sum(["id"]) == numbers.sum("id") == 4950
    two = numbers.add_column("half", lambda batch: batch["id"] / 2, batch_format="numpy")
    assert two.sum() == two.sum(["id", "half"]) == {"sum(id)": 4950, "sum(half)": 2475.0}


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_negative_zero_and_zero_are_one_group_and_one_value(kind):
    keys = np.array([0.0, 1.0, -0.0, -0.0], kind)
    rows = data.from_arrow(pa.table({"k": keys, "part": ["a", "a", "b", "a"], "v": [1, 2, 3, 4]}))
    assert rows.groupby("k").sum("v").take_all() == [{"k": 0.0, "sum(v)": 8}, {"k": 1.0, "sum(v)": 2}]
    assert column(rows.groupby(["k", "part"]).count(), "count()") == [2, 1, 1]
    assert column(rows.groupby(["k", "part"]).map_groups(lambda group: {"rows": [len(group["v"])]}), "rows") == [2, 1, 1]
    assert rows.unique("k") == [0.0, 1.0]


def test_nan_is_one_group_and_one_value():
    nan = float("nan")
    rows = data.from_items([{"k": key, "v": 1} for key in (nan, 1.0, nan, None, nan, None)])

    def one(group):
        return {"k": group["k"][:1], "rows": [len(group["k"])]}

    def counts(dataset, name):
        return [row[name] for row in dataset.take_all()]

    assert counts(rows.groupby("k").map_groups(one), "rows") == [1, 3, 2]  # the keys are 1.0, NaN and None
    assert counts(rows.groupby("k").count(), "count()") == [1, 3, 2]
    assert counts(rows.groupby(["v", "k"]).map_groups(one), "rows") == [1, 3, 2]
    frame = rows.groupby("k").map_groups(lambda group: group.head(1)[["v"]], batch_format="pandas")
    assert frame.count() == 3
    assert len(rows.union(rows).unique("k")) == 3


def test_threads_that_read_at_the_same_time_have_instances_of_their_own():
    import threading

    made, shared = [], []

    class Slow:
        def __init__(self):
            made.append(1)
            self.lock = threading.Lock()

        def __call__(self, batch):
            if not self.lock.acquire(blocking=False):
                shared.append(batch)
                return batch
            threading.Event().wait(0.01)
            self.lock.release()
            return batch

    dataset = data.range(100).map_batches(Slow)
    threads = [threading.Thread(target=dataset.take_all) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shared == []
    count = len(made)
    assert 1 <= count <= 4
    dataset.take_all()
    assert len(made) == count


def test_map_batches_gives_the_rows_that_were_asked_for(tmp_path):
    import numpy as np
    import pyarrow as pa
    from pyarrow import parquet as files

    for number in range(13):
        files.write_table(pa.table({"id": range(100 * number, 100 * number + 100)}), tmp_path / f"{number:02}.parquet")
    images = data.from_numpy(np.zeros((300, 224, 224, 3), np.uint8), column="image")
    small, sizes = data.read_parquet(str(tmp_path)), []

    def seen(batch):
        rows = len(next(iter(batch.values())))
        sizes.append(rows)  # threads append in any order
        return {"n": np.zeros(rows)}

    for dataset, size, expected in (
        (images, 256, [256, 44]),
        (small, 1024, [1024, 276]),
        (small.map(lambda row: row), 30, [30] * 43 + [10]),
        (small.random_shuffle(seed=1), 512, [512, 512, 276]),
        (data.range(1000), 7, [7] * 142 + [6]),
    ):
        sizes.clear()
        assert dataset.map_batches(seen, batch_size=size).to_arrow().num_rows == sum(expected)
        assert sorted(sizes) == sorted(expected)
    uneven = [*(data.range(rows) for rows in (100, 90, 80, 3, 7, 41))]
    for size in (1, 7, 8, 64, 100, 1000):
        sizes.clear()
        rows = uneven[0].union(*uneven[1:]).map_batches(lambda batch: seen(batch) and batch, batch_size=size)
        assert rows.to_arrow().column("id").to_pylist() == [row for each in uneven for row in range(each.count())]
        assert sorted(sizes) == sorted([size] * (321 // size) + [321 % size] * (321 % size > 0))
    kept = small.random_shuffle(seed=1).map_batches(
        lambda batch: seen(batch) and batch, batch_size=50, udf_modifying_row_count=False
    )
    sizes.clear()
    parts = [list(kept.rtrain_share_of_run(rank, 4, 7, equal=True)) for rank in range(4)]
    assert sorted(sizes) == sorted(4 * [*[50] * 6, 25])  # the batches of each stream
    assert sorted(row["id"] for part in parts for row in part) == list(range(1300))
