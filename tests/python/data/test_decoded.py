"""A decoded piece has at most 4 MiB, however few bytes of the file it takes."""

from __future__ import annotations

import decimal
import json
import pathlib
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
import rtrain.data as data
from pyarrow import parquet
from rtrain.data import _block
from rtrain.data._arrow._lengths import lengths

LIMIT = 4 << 20


def pieces(path: pathlib.Path, columns=None) -> list[int]:
    """Returns the number of bytes of each piece that is read."""
    source = data.read_parquet(str(path), columns=columns)._node.source
    groups = source.groups()
    blocks = [list(source.open(place, 0)) for place in range(len(groups))]
    assert [[block.rows for block in of_group] for of_group in blocks] == [group.pieces for group in groups]
    return [decoded(block) for of_group in blocks for block in of_group]


def decoded(block: _block.Block) -> int:
    chunks = [
        chunk
        for column in block.columns.values()
        for chunk in (column.chunks if isinstance(column, pa.ChunkedArray) else [column])
    ]
    return sum(int(lengths(chunk).sum()) for chunk in chunks)


def repeated(texts: list[str], rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.arange(rows) % len(texts), pa.int32()), texts).dictionary_decode()


def test_eight_rows_of_long_texts_stay_small_in_a_fresh_process(tmp_path):
    """The file of 17 KB contains 2.1 GB of texts."""
    indices = pa.array(np.arange(1 << 16) % 10, pa.int32())
    table = pa.table({"text": pa.DictionaryArray.from_arrays(indices, [str(one) + "x" * 32_000 for one in range(10)])})
    parquet.write_table(table, tmp_path / "a.parquet", store_schema=False)
    program = (
        "import json, resource, sys\n"
        f"sys.path[:] = {sys.path!r}\n"
        "import pyarrow as pa, rtrain.data as data\n"
        "rows = data.read_parquet(sys.argv[1])\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "lengths = [len(row['text']) for row in rows.take(8)]\n"
        "batches = rows.map_batches(lambda batch: batch).iter_batches(batch_size=8)\n"
        "lengths += [len(text) for text in next(iter(batches))['text']]\n"
        "grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before\n"
        "print(json.dumps([lengths, grown, pa.default_memory_pool().max_memory()]))\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a.parquet")], capture_output=True, text=True, check=True
    )
    lengths, grown_kib, arrow_bytes = json.loads(process.stdout)
    assert lengths == [32_001] * 16
    assert arrow_bytes < 64 << 20 and grown_kib < 200 << 10


@pytest.mark.parametrize(
    ("column", "options"),
    [
        (repeated(["x" * 3000 + str(one) for one in range(7)], 60_000), {}),
        (repeated(["x" * 3000 + str(one) for one in range(7)], 60_000), {"compression": "zstd", "data_page_version": "2.0"}),
        (pa.array(["y" * 2000 + str(one // 9) for one in range(9000)]), {"column_encoding": {"c": "DELTA_BYTE_ARRAY"}}),
        (pa.array(["y" * 2000] * 9000), {"column_encoding": {"c": "DELTA_LENGTH_BYTE_ARRAY"}, "compression": "zstd"}),
        (pa.array([["z" * 1000, None, "q"]] * 4000 + [None, []]), {}),
        (pa.array([{"a": {"b": "z" * 1000}, "n": one} for one in range(9000)]), {}),
        (pa.array([[("key" * 100, "value" * 100)]] * 9000, pa.map_(pa.string(), pa.string())), {}),
        (pa.array([["z" * 500, "w" * 500]] * 9000, pa.list_(pa.string(), 2)), {}),
        (pa.array([[one // 5000] * 200 for one in range(20_000)]), {}),
        (pa.array([None] * 30_000 + ["w" * 4000] * 3000 + ["s"] * 30_000), {}),
        (pa.array([b"same" * 500] * 1500 + [b"%d" % one * 900 for one in range(1500)]), {}),
    ],
    ids="texts zstd differences lengths lists structs maps pairs numbers late fallback".split(),
)
def test_pieces_are_bounded_when_they_are_decoded(tmp_path, column, options):
    table = pa.table({"id": range(len(column)), "c": column})
    use_dictionary = "column_encoding" not in options
    parquet.write_table(table, tmp_path / "a.parquet", use_dictionary=use_dictionary, **options)
    sizes = pieces(tmp_path / "a.parquet")
    assert max(sizes) <= LIMIT * 1.1 and len(sizes) >= 2
    assert sum(sizes) / len(sizes) > LIMIT / 400  # the pieces are not too small either
    rows = data.read_parquet(str(tmp_path / "a.parquet"))
    assert pa.concat_tables(rows.iter_batches(batch_size=1000, batch_format="pyarrow")).equals(table)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["x" * 2000] * 3000),
        pa.array(["x" * 2000] * 3000, pa.large_string()),
        pa.array(["x" * 2000] * 3000).dictionary_encode(),
        pa.array([["x" * 2000, "y"]] * 3000, pa.large_list(pa.string())),
        pa.array([[{"a": "x" * 2000, "b": [None, "z"]}]] * 3000),
        pa.nulls(3000),
        pa.array([None if one % 2 else [("k", None)] for one in range(3000)], pa.map_(pa.string(), pa.string())),
        pa.array([decimal.Decimal("1.5")] * 3000, pa.decimal256(50, 5)),
        pa.array([[]] * 3000, pa.list_(pa.string())),
    ],
    ids=lambda column: str(column.type)[:20],
)
@pytest.mark.parametrize("name", ["c", "a.b", "c.list.element"])
def test_columns_of_all_kinds_and_names_are_sized(tmp_path, column, name):
    table = pa.table({name: column, "id": range(3000)})
    for options in ({}, {"use_dictionary": False}, {"row_group_size": 700}, {"store_schema": False}):
        parquet.write_table(table, tmp_path / "a.parquet", **options)
        rows = data.read_parquet(str(tmp_path / "a.parquet"), columns=[name])
        assert rows.count() == 3000 and len(rows.take(3)) == 3
        assert max(pieces(tmp_path / "a.parquet")) < LIMIT * 1.1


def test_many_constant_columns_are_counted_as_they_are_decoded(tmp_path):
    table = pa.table({f"c{one}": np.zeros(50_000, np.int64) for one in range(200)})
    parquet.write_table(table, tmp_path / "a.parquet")
    assert max(pieces(tmp_path / "a.parquet")) <= LIMIT
    assert len(pieces(tmp_path / "a.parquet", columns=["c1"])) == 1


def test_one_row_larger_than_a_piece_comes_with_few_others(tmp_path):
    texts = ["s"] * 5000 + ["L" * (6 << 20)] + ["s"] * 5000
    parquet.write_table(pa.table({"c": texts}), tmp_path / "a.parquet")
    sizes = pieces(tmp_path / "a.parquet")
    assert max(sizes) <= 2 * (6 << 20) + 64


def test_small_texts_keep_large_pieces(tmp_path):
    parquet.write_table(pa.table({"c": [f"label {one % 5}" for one in range(200_000)]}), tmp_path / "a.parquet")
    assert len(pieces(tmp_path / "a.parquet")) == 4


def test_a_window_of_a_shuffle_is_bounded_by_decoded_bytes(tmp_path):
    parquet.write_table(pa.table({"c": repeated(["x" * 20_000 + str(one) for one in range(7)], 20_000)}), tmp_path / "a.parquet")
    program = (
        "import sys\n"
        f"sys.path[:] = {sys.path!r}\n"
        "import pyarrow as pa, rtrain.data as data\n"
        "rows = data.read_parquet(sys.argv[1]).random_shuffle(seed=1, window_bytes=16 << 20)\n"
        "assert sum(table.num_rows for table in rows.iter_batches(batch_size=16, batch_format='pyarrow')) == 20_000\n"
        "print(pa.default_memory_pool().max_memory())\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a.parquet")], capture_output=True, text=True, check=True
    )
    assert int(process.stdout) < 100 << 20  # the table has 400 MB


# -- checksums ----------------------------------------------------------------------------------------------------------
def flipped(path: pathlib.Path, column: int, group: int) -> None:
    chunk = parquet.ParquetFile(path).metadata.row_group(group).column(column)
    content = bytearray(path.read_bytes())
    content[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("columns", [None, ["b"]])
def test_a_flipped_bit_of_a_page_with_a_checksum_is_an_error(tmp_path, columns):
    table = pa.table({"a": np.arange(9000.0), "b": np.random.default_rng(1).random(9000), "c": ["x"] * 9000})
    path = tmp_path / "a.parquet"
    options = {"compression": "none", "use_dictionary": False, "row_group_size": 3000}
    parquet.write_table(table, path, write_page_checksum=True, **options)
    whole = data.read_parquet(str(path), columns=columns)
    assert whole.count() == 9000 and len(whole.take_all()) == 9000
    flipped(path, 1, 2)
    expected = r"read_parquet: .*/a.parquet: row group 2, column 'b': the checksum .* Copy it again"
    with pytest.raises(OSError, match=expected):
        data.read_parquet(str(path), columns=columns).take_all()
    assert len(data.read_parquet(str(path), columns=["a", "c"]).take_all()) == 9000


def test_a_flipped_bit_of_a_dictionary_is_an_error_too(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"id": range(9000), "text": [f"text {one % 9}" for one in range(9000)]})
    parquet.write_table(table, path, write_page_checksum=True, compression="none")
    chunk = parquet.ParquetFile(path).metadata.row_group(0).column(1)
    content = bytearray(path.read_bytes())
    content[chunk.data_page_offset - 3] ^= 1
    path.write_bytes(content)
    with pytest.raises(OSError, match="a.parquet: row group 0, column 'text': the checksum"):
        data.read_parquet(str(path)).take_all()


def test_written_files_have_checksums(tmp_path):
    data.from_numpy(np.random.default_rng(1).random(50_000)).write_parquet(
        str(tmp_path), compression="none", use_dictionary=False
    )
    path = next(tmp_path.iterdir())
    flipped(path, 0, 0)
    with pytest.raises(OSError, match="row group 0, column 'data': the checksum"):
        data.read_parquet(str(tmp_path)).take_all()
