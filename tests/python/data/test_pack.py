"""`Dataset.pack`: sequences in rows of a fixed length."""

from __future__ import annotations

import pathlib
import pickle
import random

import numpy as np
import pyarrow as pa
import pytest
import rtrain.data as data
from rtrain.data._in_streams import _fill


def lists(rows=300, most=40, seed=0):
    """Lists of numbers, each number once: 1000 * document + place."""
    numbers = random.Random(seed)
    return [[1000 * (row + 1) + place for place in range(numbers.randint(0, most))] for row in range(rows)]


def documents(*arguments, **options):
    return data.from_items([{"id": row, "input_ids": tokens} for row, tokens in enumerate(lists(*arguments, **options))])


def shares(dataset, world, streams):
    return [dataset.rtrain_share_of_run(rank, world, 7, equal=True, streams=streams) for rank in range(world)]


def batches(dataset, world, streams, together=24):
    parts = [iter(one.iter_batches(batch_size=together // world)) for one in shares(dataset, world, streams)]
    return [[row for batch in of_ranks for row in batch["input_ids"].tolist()] for of_ranks in zip(*parts, strict=True)]


def check_ids(row, *, whole=False):
    """Checks that each part of a row is one document, with its own number and positions from 0 on, and that padding
    comes last.
    """
    used = row["document_ids"] >= 0
    assert not used[np.argmin(used) :].any() or used.all()
    assert (row["input_ids"][~used] == 0).all()
    assert row["position_ids"][~used].tolist() == [*range((~used).sum())]
    for number in range(row["document_ids"].max() + 1):
        here = row["document_ids"] == number
        tokens = row["input_ids"][here]
        assert len(tokens) and (np.diff(tokens) == 1).all() and len({*(tokens // 1000).tolist()}) == 1
        assert row["position_ids"][here].tolist() == [*range(len(tokens))]
        assert not whole or tokens[0] % 1000 == 0


def test_rows_are_filled_one_document_after_the_other():
    packed = documents().pack(64)
    rows, tokens = packed.take_all(), sum(lists(), [])
    for row in rows:
        check_ids(row)
    assert np.concatenate([row["input_ids"][row["document_ids"] >= 0] for row in rows]).tolist() == tokens
    assert len(rows) == packed.count() == -(-len(tokens) // 64)
    assert all((row["document_ids"] >= 0).all() for row in rows[:-1])
    without_last = documents().pack(64, drop_last=True).take_all()
    assert len(without_last) == len(tokens) // 64 and (without_last[-1]["input_ids"] == rows[-2]["input_ids"]).all()


def test_documents_stay_whole_where_the_caller_says():
    rows = documents(3000).pack(64, split_documents=False).take_all()
    for row in rows:
        check_ids(row, whole=True)
    used = np.concatenate([row["input_ids"][row["document_ids"] >= 0] for row in rows])
    assert sorted(used.tolist()) == sorted(sum(lists(3000), []))
    assert len(used) > 0.97 * 64 * len(rows)  # documents are placed by length, so that little padding remains
    long = data.from_items([{"input_ids": [*range(1000, 1150)]}, {"input_ids": [*range(2000, 2010)]}]).pack(
        64, split_documents=False
    )
    assert [(row["document_ids"] >= 0).sum() for row in long.iter_rows()] == [64, 64, 32]


def test_best_fits_leave_no_room_that_a_later_document_fits():
    numbers = random.Random(2)
    for _ in range(50):
        lengths = np.array([numbers.randint(0, 20) for _ in range(60)])
        bins = _fill.best_fits(lengths, 16)
        tokens = sorted(token for parts in bins for part in parts for token in range(part.start, part.stop))
        sizes = [sum(part.stop - part.start for part in parts) for parts in bins]
        assert tokens == [*range(lengths.sum())] and max(sizes) <= 16 and len(bins) <= -(-lengths.sum() // 16) * 1.25 + 1


def test_several_columns_are_packed_alike():
    rows = [{"tokens": tokens, "labels": [-token for token in tokens], "other": "x"} for tokens in lists()]
    packed = data.from_items(rows).pack(32, columns=["tokens", "labels"], padding={"labels": -100})
    assert packed.columns() == ["tokens", "labels", "document_ids", "position_ids"]
    for row in packed.iter_rows():
        used = row["document_ids"] >= 0
        assert (row["labels"][used] == -row["tokens"][used]).all()
        assert (row["labels"][~used] == -100).all() and (row["tokens"][~used] == 0).all()


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1, 2, 3], [], [4]], pa.list_(pa.int32())),
        pa.array([[1, 2, 3], [], [4]], pa.large_list(pa.int32())),
        pa.chunked_array([pa.array([[9, 9], [1, 2, 3], []], pa.list_(pa.int32()))[1:], pa.array([[4]], pa.list_(pa.int32()))]),
    ],
    ids=["list", "large list", "chunks"],
)
def test_every_kind_of_lists_is_packed(column):
    rows = data.from_arrow(pa.table({"input_ids": column})).pack(3).take_all()
    assert [row["input_ids"].tolist() for row in rows] == [[1, 2, 3], [4, 0, 0]]
    assert rows[0]["input_ids"].dtype == rows[0]["document_ids"].dtype == rows[0]["position_ids"].dtype == np.int32


def test_arrays_and_ragged_arrays_are_packed():
    plain = data.from_numpy(np.arange(1, 7, dtype=np.uint16).reshape(3, 2), "input_ids").pack(4).take_batch(2)
    assert plain["input_ids"].tolist() == [[1, 2, 3, 4], [5, 6, 0, 0]] and plain["input_ids"].dtype == np.uint16
    ragged = data.range(3).map(lambda row: {"input_ids": np.arange(row["id"], dtype=np.int64) + 1}).pack(2).take_all()
    assert [row["input_ids"].tolist() for row in ragged] == [[1, 1], [2, 0]]
    nothing = data.from_items([{"input_ids": []}] * 3).pack(2)
    assert nothing.take_all() == [] and nothing.count() == 0


@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"split_documents": False}], ids=["padded", "dropped", "whole"])
@pytest.mark.parametrize("length", [7, 64])
def test_any_number_of_ranks_has_the_same_batches(options, length):
    dataset = documents(2500).random_shuffle().pack(length, **options)
    full = [[batch for batch in batches(dataset, world, 8) if len(batch) == 24] for world in (1, 2, 4, 8, 3)]
    assert len(full[0]) > 20 and all(one == full[0] for one in full)


def test_a_state_in_mid_epoch_travels_to_another_number_of_ranks():
    dataset = documents(800).random_shuffle().pack(16)
    expected = batches(dataset, 1, 4, 8)
    begun = shares(dataset, 4, 4)
    parts = [iter(one.iter_batches(batch_size=2, prefetch_batches=2)) for one in begun]
    for _ in range(30):
        for part in parts:
            next(part)
    state = begun[2].state_dict()
    later = shares(pickle.loads(pickle.dumps(dataset)), 2, 4)
    for one in later:
        one.load_state_dict(state)
    rest = zip(*(one.iter_batches(batch_size=4) for one in later), strict=True)
    left = [sum((part["input_ids"].tolist() for part in of_ranks), []) for of_ranks in rest]
    assert len(left) > 50 and left[:-1] == expected[30:-1]  # the last batch leaves out what ranks cannot share


@pytest.mark.parametrize("options", [{}, {"split_documents": False}], ids=["split", "whole"])
def test_a_stream_goes_on_at_each_place_that_it_gave(options):
    from rtrain.data._plan import Order

    node = documents(2600, 30).pack(16, **options)._node
    node.each = 5
    order = Order(streams=2)
    for stream in (0, 1):
        given = list(node.of_stream(order, stream, None))
        assert len(given) > 100
        for number in (1, 40, len(given) - 1):
            again = list(node.of_stream(order, stream, given[number - 1][1]))
            assert [place for _, place in again] == [place for _, place in given[number:]]
            for (one, _), (other, _) in zip(again, given[number:], strict=True):
                assert all((one.columns[name] == other.columns[name]).all() for name in other.names)


def test_the_example_of_the_documentation_runs(tmp_path, monkeypatch, capsys):
    page = pathlib.Path(__file__).resolve().parents[3].joinpath("docs", "data.md").read_text()
    example = page.split("## Mixing and packing")[1].split("```python\n")[1].split("```")[0]
    for name in ("web", "code"):
        data.from_items([{"text": f"{name} {row} " * 9} for row in range(2000)]).write_parquet(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "docs/data.md", "exec"), {})
    shape = "(8, 2048)"
    assert capsys.readouterr().out == f"{{'input_ids': {shape}, 'document_ids': {shape}, 'position_ids': {shape}}}\n"


def test_arguments_that_cannot_be_meant_are_errors():
    rows = documents(3)
    for length in (0, 1.5, True):
        with pytest.raises(ValueError, match="length is .*; it is a number of tokens from 1 on"):
            rows.pack(length)
    with pytest.raises(KeyError, match="there is no column 'tokens'; there are: id, input_ids"):
        rows.pack(4, "tokens")
    with pytest.raises(ValueError, match="columns is 'document_ids'"):
        rows.pack(4, "document_ids")
    with pytest.raises(ValueError, match="drop_last is for split documents"):
        rows.pack(4, split_documents=False, drop_last=True)
    with pytest.raises(ValueError, match="it is a number, or a dict of numbers by packed columns"):
        rows.pack(4, padding={"labels": 1})
    with pytest.raises(TypeError, match=r"pack\(4\): the column 'id' is of type int64; a row of it must be a list of numbers"):
        rows.pack(4, "id").take_all()
    with pytest.raises(ValueError, match="a row has 2 values in 'a' and 1 in 'b'"):
        data.from_items([{"a": [1, 2], "b": [1]}]).pack(4, ["a", "b"]).take_all()
    with pytest.raises(ValueError, match="the column 'a' holds a null; filter those rows out"):
        data.from_items([{"a": [1, 2]}, {"a": None}]).pack(4, "a").take_all()
    with pytest.raises(TypeError, match="the lists in the column 'a' hold string, and not numbers"):
        data.from_items([{"a": ["x"]}]).pack(4, "a").take_all()
    with pytest.raises(ValueError, match="the padding -1 of the column 'a' is no value of uint16"):
        data.from_numpy(np.ones((3, 2), np.uint16), "a").pack(4, "a", padding=-1).take_all()
