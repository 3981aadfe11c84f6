"""Columns of more than 2 GiB of texts, bytes or lists, which one Arrow array cannot hold. With RTRAIN_LONG=required
the limit is Arrow's own, which takes 8 GB of memory and a minute. Otherwise the tests set a small limit.
"""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pytest
import rtrain.data as data
from rtrain.data import _block
from rtrain.data._arrow import _long

KINDS = {
    "text": lambda one: f"{one * 7919 % 1000:04} " + "x" * (one % 50),
    "bytes": lambda one: b"%d" % one * (one % 9),
    "list": lambda one: list(range(one % 20)),
    "struct": lambda one: {"a": "y" * (one % 30), "b": one},
    "gaps": lambda one: None if one % 3 == 0 else "z" * (one % 40),
}


@pytest.fixture
def table(monkeypatch) -> pa.Table:
    monkeypatch.setattr(_long, "LIMIT", 3000)
    columns = {name: [make(one) for one in range(1000)] for name, make in KINDS.items()}
    parts = [pa.table({"id": range(1000), **columns}).slice(start, 130) for start in range(0, 1000, 130)]
    return pa.concat_tables(parts)


def held(table: pa.Table) -> data.Dataset:
    return data.from_arrow([table.slice(start, 130) for start in range(0, len(table), 130)])


@pytest.mark.parametrize("key", ["text", "gaps"])
def test_a_sort_of_long_columns_is_that_of_arrow(table, key):
    expected = table.sort_by([(key, "ascending"), ("id", "descending")])
    result = held(table).sort([key, "id"], [False, True])
    assert result.to_arrow().equals(expected)
    assert result.schema().types == table.schema.types
    assert result.to_arrow().column("text").num_chunks > 5


def test_a_shuffle_of_long_columns_has_each_row_once(table):
    rows = held(table).random_shuffle(seed=1).take_all()
    assert [row["id"] for row in rows] != list(range(1000))
    assert sorted(rows, key=lambda row: row["id"]) == table.to_pylist()


def test_groups_of_long_columns_have_their_rows(table):
    lengths = held(table).map_batches(
        lambda part: part.append_column("key", pa.array(np.asarray(part["id"]) % 3)), batch_format="pyarrow"
    )
    groups = lengths.groupby("key").map_groups(lambda group: {"key": group["key"][:1], "ids": [group["id"].tolist()]})
    assert {row["key"]: row["ids"] for row in groups.take_all()} == {key: list(range(key, 1000, 3)) for key in range(3)}


def test_a_long_column_becomes_an_array(table):
    block = _block.from_arrow(table)
    for name, make in KINDS.items():
        expected = [make(one) for one in range(1000)]
        assert [
            value.tolist() if isinstance(value, np.ndarray) else value for value in _block.as_numpy(block.columns[name], name)
        ] == expected


@pytest.mark.skipif("RTRAIN_LONG" not in os.environ, reason="takes 8 GB of memory: RTRAIN_LONG=required runs it")
def test_more_than_two_gib_of_texts_are_sorted():
    chunk = pa.array([f"{one:02}" + "x" * 1_000_000 for one in range(90)])
    table = pa.table({"id": range(2250), "text": pa.chunked_array([chunk] * 25)})
    assert table.nbytes > 1 << 31
    rows = data.from_arrow(table).sort(["text", "id"], [True, False])
    heads = [(row["text"][:2], row["id"]) for row in rows.iter_rows()]
    assert heads == sorted(((f"{one % 90:02}", one) for one in range(2250)), key=lambda pair: (-int(pair[0]), pair[1]))
    assert str(rows.schema().types[1]) == "string"
