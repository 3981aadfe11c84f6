"""The results of an iteration: batches of a size and a format, tensors, files. Memory stays bounded."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pytest
import rtrain.data as data


def test_batches_have_their_size_and_the_last_what_is_over():
    dataset = data.range(1000)
    assert [len(batch["id"]) for batch in dataset.iter_batches(batch_size=300)] == [300, 300, 300, 100]
    assert [len(batch["id"]) for batch in dataset.iter_batches(batch_size=300, drop_last=True)] == [300, 300, 300]
    assert [len(batch["id"]) for batch in dataset.iter_batches(batch_size=None)] == [1000]
    assert [len(batch["id"]) for batch in dataset.iter_batches(prefetch_batches=0)] == [256, 256, 256, 232]
    assert np.concatenate([batch["id"] for batch in dataset.iter_batches(batch_size=7)]).tolist() == list(range(1000))


def test_batches_in_each_format():
    pandas = pytest.importorskip("pandas")
    dataset = data.from_items([{"id": one, "text": str(one), "list": [one, one]} for one in range(5)])
    batch = next(iter(dataset.iter_batches(batch_size=5)))
    assert batch["list"].shape == (5, 2) and batch["text"].dtype == object
    batch["id"][0] = 9  # the array belongs to the loop
    assert dataset.take(1)[0]["id"] == 0
    assert isinstance(next(iter(dataset.iter_batches(batch_format="pandas"))), pandas.DataFrame)
    table = next(iter(dataset.iter_batches(batch_format="pyarrow")))
    assert isinstance(table, pa.Table) and table["list"].to_pylist()[4] == [4, 4]
    with pytest.raises(ValueError, match="batch_format is 'torch'"):
        dataset.iter_batches(batch_format="torch")
    for bad in (0, -1, 2.5, True):
        with pytest.raises(ValueError, match="batch_size is"):
            dataset.iter_batches(batch_size=bad)


def test_tensors_of_rows_survive_arrow_and_files(tmp_path: pathlib.Path):
    images = np.random.default_rng(0).random((30, 4, 4)).astype(np.float32)
    dataset = data.from_numpy(images, column="image").add_column(
        "label", lambda batch: np.arange(len(batch["image"])), batch_format="numpy"
    )
    dataset.write_parquet(tmp_path / "out")
    back = data.read_parquet(str(tmp_path / "out"))
    assert np.array_equal(back.take_batch(30)["image"], images)
    assert back.random_shuffle(seed=0).take_batch(30)["image"].shape == (30, 4, 4)


def test_a_local_shuffle_moves_rows_within_its_buffer():
    dataset = data.range(1000)
    rows = [
        int(value) for batch in dataset.iter_batches(local_shuffle_buffer_size=100, local_shuffle_seed=1) for value in batch["id"]
    ]
    assert sorted(rows) == list(range(1000)) and rows != sorted(rows)
    assert all(value // 100 == place // 100 for place, value in enumerate(rows))


def test_the_thread_ends_with_the_loop():
    def others():
        return [thread for thread in threading.enumerate() if thread.name == "rtrain-data"]

    for _ in data.range(10_000).iter_batches(batch_size=10, prefetch_batches=3):
        assert len(others()) == 1
        break
    import gc

    gc.collect()
    assert others() == []
    with pytest.raises(data.UserCodeError):
        list(data.range(10).map(lambda row: 1 / 0).iter_batches())
    assert others() == []


def test_tensors_for_the_loop():
    torch = pytest.importorskip("torch")
    dataset = data.from_items([{"x": float(one), "y": one, "image": np.full((2, 3), one, np.uint8)} for one in range(5)])
    batch = next(iter(dataset.iter_torch_batches(batch_size=3, dtypes={"x": torch.float32})))
    assert (batch["x"].dtype, batch["y"].dtype, batch["image"].shape) == (torch.float32, torch.int64, (3, 2, 3))
    pairs = list(
        dataset.iter_torch_batches(batch_size=2, collate_fn=lambda columns: (torch.as_tensor(columns["x"]), columns["y"].sum()))
    )
    assert [(len(x), int(y)) for x, y in pairs] == [(2, 1), (2, 5), (1, 4)]
    with pytest.raises(
        TypeError,
        match="the column 't' is no tensor: it holds values of type str; leave it out by drop_columns, or give collate_fn",
    ):
        list(data.from_items([{"t": "a"}]).iter_torch_batches())
    with pytest.raises(TypeError, match="of different shapes; give collate_fn to pad them"):
        list(data.from_items([{"t": [1]}, {"t": [1, 2]}]).iter_torch_batches())
    with pytest.raises(KeyError, match="dtypes: there is no column 'z'"):
        list(dataset.iter_torch_batches(dtypes={"z": torch.float32}))
    features, label = next(iter(dataset.select_columns(["x", "y"]).to_torch(label_column="y", batch_size=5)))
    assert features.shape == (5, 1) and label.shape == (5, 1)
    loader = torch.utils.data.DataLoader(
        dataset.select_columns("y").to_torch(batch_size=2, unsqueeze_feature_tensors=False), batch_size=None
    )
    assert [features.tolist() for features, _ in loader] == [[0, 1], [2, 3], [4]]


def test_loader_processes_read_parts_of_their_own():
    torch = pytest.importorskip("torch")
    part = data.range(101).random_shuffle().rtrain_share_of_run(1, 2, 5, equal=True)
    rows = part.to_torch(batch_size=4, unsqueeze_feature_tensors=False)
    loader = torch.utils.data.DataLoader(rows, batch_size=None, num_workers=2)
    values = [int(one) for features, _ in loader for one in features]
    again = data.range(101).random_shuffle().rtrain_share_of_run(1, 2, 5, equal=True)
    assert sorted(values) == sorted(row["id"] for row in again) and len(values) == 50
    import pickle

    copied = pickle.loads(pickle.dumps(rows))  # as for processes that are not forked
    assert sorted(int(one) for features, _ in copied for one in features) == sorted(values)
    rows.set_epoch(1)
    assert sorted(int(one) for features, _ in loader for one in features) == sorted(row["id"] for row in again) != sorted(values)


def test_a_prepared_loader_leaves_a_share_as_it_is(monkeypatch):
    torch = pytest.importorskip("torch")
    from rtrain.train.torch import prepare_data_loader

    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    share = data.range(10).random_shuffle().rtrain_share_of_run(1, 2, 5, equal=True)
    rows = share.to_torch(batch_size=2, unsqueeze_feature_tensors=False)
    loader = prepare_data_loader(torch.utils.data.DataLoader(rows, batch_size=None))
    epochs = []
    for epoch in (0, 1, 0):
        loader.sampler.set_epoch(epoch)
        epochs.append([int(one) for features, _ in loader for one in features])
    assert len(epochs[0]) == 5 and epochs[0] == epochs[2] != epochs[1]
    with pytest.raises(TypeError, match=r"no length.*DataLoader\(shard.to_torch\(...\), batch_size=None\)"):
        list(torch.utils.data.DataLoader(share, batch_size=2))
    assert share and len(list(share)) == 5


def test_a_look_at_a_dataset(capsys):
    dataset = data.range(30)
    assert repr(dataset) == "Dataset(range(30), 30 rows, columns: id)"
    assert repr(dataset.map(lambda row: row)) == "Dataset(range(30) -> map(<lambda>), 30 rows)"
    assert len(dataset.take()) == 20 and len(dataset.take_all()) == 30
    dataset.show(1)
    assert capsys.readouterr().out == "{'id': 0}\n"
    with pytest.raises(ValueError, match="more than 10 rows"):
        dataset.take_all(limit=10)
    with pytest.raises(ValueError, match="the dataset is empty"):
        dataset.limit(0).take_batch()
    assert dataset.limit(0).schema() is None
    assert str(data.from_items([{"a": 1, "b": "x"}]).schema()) == "a: int64\nb: string"
    kept = dataset.map(lambda row: {"x": row["id"]}).materialize()
    assert kept.count() == 30 and kept.columns() == ["x"]
    assert dataset.to_arrow().num_rows == 30


def test_options_of_an_engine_that_is_not_here_are_said_to_do_nothing():
    context = data.DataContext.get_current()
    with pytest.warns(UserWarning, match="DataContext.target_max_block_size has no effect"):
        context.target_max_block_size = 3
    assert data.DataContext.get_current().target_max_block_size == 3
    with pytest.raises(AttributeError, match="eager_free was not set"):
        context.eager_free  # noqa: B018


def test_pieces_of_unlike_columns():
    one, other = data.from_items([{"x": 1}]), data.from_items([{"x": 2.5, "y": 3}])
    batch = next(iter(one.union(other).iter_batches()))
    assert batch["x"].tolist() == [1, 2.5] and batch["y"].tolist() == [None, 3]
    with pytest.raises(TypeError, match=r"the column 'x' holds int64 in from_items\(1\) and string in from_items\(1\)"):
        list(one.union(data.from_items([{"x": "a"}])).iter_batches())


def test_files_of_each_kind(tmp_path: pathlib.Path):
    dataset = data.range(1000).map(lambda row: {"id": row["id"], "text": f"t{row['id']}"})
    dataset.write_parquet(tmp_path / "p", num_rows_per_file=300)
    dataset.write_csv(str(tmp_path / "c"))
    dataset.write_json(tmp_path / "j", num_rows_per_file=500)
    assert [path.name[-13:] for path in sorted((tmp_path / "p").iterdir())] == [f"0000{one}.parquet" for one in range(4)]
    for back in (data.read_parquet(tmp_path / "p"), data.read_csv(tmp_path / "c"), data.read_json(tmp_path / "j")):
        assert back.take_all() == dataset.take_all()


MEMORY = """
import resource, sys
sys.path[:] = {path!r}
import pyarrow, rtrain.data as data
dataset = data.read_parquet({file!r}){then}
assert dataset.count() == 3_000_000
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = sum(len(batch["a"]) for batch in dataset.iter_batches(batch_size=4096))
assert rows == 3_000_000, rows
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10, pyarrow.default_memory_pool().max_memory() >> 20)
"""


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Writes 240 MB in row groups of 100,000 rows and 8 MB."""
    from pyarrow import parquet

    file = tmp_path_factory.mktemp("big") / "big.parquet"
    table = pa.table({name: np.random.default_rng(0).random(100_000) for name in "abcdefghij"})
    with parquet.ParquetWriter(file, table.schema, compression="none", use_dictionary=False) as writer:
        for _ in range(30):
            writer.write_table(table)
    assert file.stat().st_size > 220 << 20
    return file


@pytest.mark.parametrize(
    ("then", "limit"), [("", 40), (".random_shuffle(window_bytes=16 << 20)", 150)], ids=["in order", "shuffled"]
)
def test_a_large_file_is_never_in_memory_whole(then, limit, big: pathlib.Path):
    script = MEMORY.format(path=sys.path, file=str(big), then=then)
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    grown, arrow = map(int, process.stdout.split())
    assert arrow < limit and grown < limit + 90, process.stdout  # an allocator may keep some memory


def test_what_an_iteration_gives_has_a_state_and_auto_is_a_batch_size():
    torch = pytest.importorskip("torch")
    share = data.range(1000).iterator()
    batches = share.iter_torch_batches(batch_size="auto")
    first = next(iter(batches))["id"]
    assert isinstance(first, torch.Tensor) and len(first) == 256
    assert batches.state_dict() == share.state_dict() and batches.state_dict()["given"] == 256
    later = data.range(1000).iterator().iter_torch_batches(batch_size=100)
    later.load_state_dict(batches.state_dict())
    assert torch.cat([batch["id"] for batch in later]).tolist() == list(range(256, 1000))
    as_torch = data.range(10).iterator().to_torch(batch_size="auto")
    assert len(list(as_torch)) == 1 and as_torch.state_dict()["epoch"] == 1
    assert data.range(10).map_batches(lambda batch: batch, batch_size="auto").count() == 10
    for options in ({"batch_size": "much"}, {"batch_size": 0}):
        with pytest.raises(ValueError, match="batch_size is"):
            data.range(10).iter_batches(**options)


def looked_at(made, look):
    """Returns the rows that `look` passes to a function, and how many at a time."""
    rows = []

    def seen(value):
        rows.append(1 if not isinstance(value.get("id"), np.ndarray) else len(value["id"]))
        return value

    look(made(data.range(200_000), seen))
    return rows


@pytest.mark.parametrize(
    "look", [lambda d: d.take(1), lambda d: d.schema(), lambda d: d.columns()], ids=["take", "schema", "columns"]
)
def test_a_look_gives_a_function_at_most_64_rows(look):
    plans = [
        lambda d, fn: d.map(fn),
        lambda d, fn: d.map_batches(fn),
        lambda d, fn: d.map_batches(fn, batch_size=10),
        lambda d, fn: d.map(fn).filter(lambda row: True).map(lambda row: {"x": row["id"]}),
        lambda d, fn: d.map(fn).random_sample(0.9, seed=1),
        lambda d, fn: d.random_shuffle(seed=1).map(fn),
        lambda d, fn: d.map(fn).random_shuffle(seed=1),
    ]
    for made in plans:
        assert 0 < sum(looked_at(made, look)) <= 64
    assert set(looked_at(plans[2], look)) == {10}


def test_a_look_has_the_rows_that_an_iteration_begins_with(parquet):
    for dataset in (
        data.range(5000).random_sample(0.3, seed=4),
        data.range(5000).filter(lambda row: row["id"] % 7 == 0).random_sample(0.5, seed=4).map(lambda row: {"x": row["id"]}),
        data.range(5000).map_batches(
            lambda batch: {"id": batch["id"], "first": batch["id"][:1].repeat(len(batch["id"]))}, batch_size=5
        ),
        data.read_parquet(str(parquet)).flat_map(lambda row: [row, row]).random_shuffle(seed=3),
        data.range(10).union(data.range(5).map(lambda row: row)),
    ):
        rows = list(dataset.iter_rows())
        for number in (1, 64, 65, 700):
            assert dataset.take(number) == rows[:number]
    assert data.range(5).filter(lambda row: False).take(3) == [] and data.range(5).take(0) == []
