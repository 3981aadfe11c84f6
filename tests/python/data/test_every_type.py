"""Property tests: tables of every Arrow type through every operation and format, compared with results of pyarrow
alone.

The examples are the same in each run. `RTRAIN_TEST_EXAMPLES=500` draws 500 new examples for each test, as
scripts/nightly does.
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
import tempfile
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import rtrain.data as data
from pyarrow import csv, parquet

pytest.importorskip("hypothesis")
pytest.importorskip("pandas")

from arrow_tables import assert_same, tables
from hypothesis import HealthCheck, given, settings, strategies as st

MORE = int(os.environ.get("RTRAIN_TEST_EXAMPLES", "0"))
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
FORMATS = ("numpy", "pandas", "pyarrow")


def examples(count: int):
    return settings(max_examples=MORE or count, derandomize=not MORE, deadline=None, suppress_health_check=SLOW, database=None)


def in_pieces(table: pa.Table) -> data.Dataset:
    """Returns a dataset whose pieces are the chunks of the table, including empty ones."""
    ends = np.cumsum([len(chunk) for chunk in table.column("id").chunks]).tolist()
    chunks = [table.slice(start, end - start) for start, end in zip([0, *ends], ends, strict=False)] or [table]
    return functools.reduce(data.Dataset.union, map(data.from_arrow, chunks))


def identity(batch):
    return batch


def copied(batch):
    """Returns the same values in new objects."""
    return batch.copy() if hasattr(batch, "copy") else batch.slice(0)


def touched(batch):
    """Changes another column than the one that is compared."""
    batch["more"] = np.arange(len(batch["id"]))
    del batch["more"]
    return batch


def yielded(batch):
    yield batch


SAME = {
    **{f"map_batches {kind}": lambda rows, kind=kind: rows.map_batches(identity, batch_format=kind) for kind in FORMATS},
    **{f"copies {kind}": lambda rows, kind=kind: rows.map_batches(copied, batch_format=kind) for kind in FORMATS},
    **{f"groups {kind}": lambda rows, kind=kind: rows.groupby("id").map_groups(identity, batch_format=kind) for kind in FORMATS},
    "small batches": lambda rows: rows.map_batches(touched, batch_size=2),
    "generator": lambda rows: rows.map_batches(yielded, batch_size=3),
    "map": lambda rows: rows.map(identity),
    "map copies": lambda rows: rows.map(lambda row: {name: row[name] for name in row}),
    "map twice": lambda rows: rows.map(identity).map(identity),
    "map, then batches": lambda rows: rows.map(identity).map_batches(identity),
    "flat_map": lambda rows: rows.flat_map(lambda row: [row]),
    "filter": lambda rows: rows.filter(lambda row: True),
    "filter expr": lambda rows: rows.filter(expr=pc.field("id") >= 0),
    "sample": lambda rows: rows.random_sample(1.0, seed=0),
    "add_column": lambda rows: rows.add_column("new", lambda frame: frame["id"]).drop_columns("new"),
    "rename": lambda rows: rows.rename_columns({"x": "z"}).rename_columns({"z": "x"}),
    "limit": lambda rows: rows.limit(100),
    "sort": lambda rows: rows.sort("id", descending=True).sort("id"),
    "shuffle": lambda rows: rows.random_shuffle(seed=1).sort("id"),
    "block order": lambda rows: rows.randomize_block_order(seed=1).sort("id"),
    "materialize": lambda rows: rows.materialize(),
    "zip": lambda rows: rows.zip(rows).select_columns(rows.columns() or []),
    "split": lambda rows: functools.reduce(data.Dataset.union, rows.split(3)),
}


@pytest.mark.parametrize("operation", SAME, ids=[name.replace(" ", "-") for name in SAME])
def test_an_operation_that_changes_nothing_keeps_every_type_and_value(operation):
    @examples(25)
    @given(tables(), st.booleans())
    def check(table, pieces):
        if not table.num_rows:
            return
        rows = in_pieces(table) if pieces else data.from_arrow(table)
        assert_same(SAME[operation](rows).to_arrow(), table)

    check()


@examples(150)
@given(tables(), st.integers(1, 5), st.sampled_from([0, 1]), st.booleans())
def test_batches_have_every_value_and_one_type(table, size, ahead, pieces):
    rows = in_pieces(table) if pieces else data.from_arrow(table)
    options = {"batch_size": size, "prefetch_batches": ahead}
    if table.num_rows:
        assert_same(pa.concat_tables(rows.iter_batches(batch_format="pyarrow", **options)), table)
    expected = {name: table.column(name).to_pylist() for name in table.column_names}
    batches = list(rows.iter_batches(**options))
    frames = list(rows.iter_batches(batch_format="pandas", **options))
    assert sum(len(batch["id"]) for batch in batches) == table.num_rows
    for name in table.column_names if batches else []:
        kind = table.schema.field(name).type
        if not (pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType)):
            assert len({(type(batch[name]), batch[name].dtype) for batch in batches}) == 1
            assert len({frame[name].dtype for frame in frames if not pa.types.is_dictionary(kind)}) <= 1
        assert alike([value for batch in batches for value in batch[name].tolist()], expected[name], kind)


def alike(result, expected, kind) -> bool:
    """Returns whether NumPy's values equal Arrow's. A null may be None, NaN, NaT or masked, and a time zone becomes
    UTC.
    """
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_date(kind):
        return True  # tolist() gives numbers for some units; the identity above compares their values
    if isinstance(kind, pa.BaseExtensionType):
        return True
    if pa.types.is_floating(kind):
        expected = [float("nan") if value is None else value for value in expected]
    return str(plain(result)) == str(plain(expected))


def plain(value):
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return {name: plain(one) for name, one in value.items()} if isinstance(value, dict) else value


@examples(60)
@given(tables())
def test_rows_are_those_of_arrow(table):
    rows = in_pieces(table)
    expected = str(table.to_pylist())
    if any(isinstance(field.type, pa.BaseExtensionType) for field in table.schema):
        rows, expected = rows.select_columns("id"), str(table.select(["id"]).to_pylist())
    assert str(rows.take_all()) == str(list(rows.iter_rows())) == expected


@examples(60)
@given(tables())
def test_all_rows_twice_and_some_of_them(table):
    if not table.num_rows:
        return
    rows = in_pieces(table)
    assert_same(rows.union(rows).to_arrow(), pa.concat_tables([table, table]))
    assert_same(rows.flat_map(lambda row: [row, row]).filter(lambda row: row["id"] >= 0).to_arrow(), twice(table))
    assert_same(rows.limit(2).to_arrow(), table.slice(0, 2))
    assert rows.count() == table.num_rows


def twice(table: pa.Table) -> pa.Table:
    places = [place for place in range(table.num_rows) for _ in range(2)]
    return pa.concat_tables([table.slice(place, 1) for place in places])


@examples(80)
@given(tables(), st.integers(1, 3), st.integers(1, 3))
def test_parquet_files_have_what_pyarrow_writes(table, group, files):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        parquet.write_table(table, path / "own.parquet", row_group_size=group)
        expected = parquet.read_table(path / "own.parquet")
        read = data.read_parquet(path / "own.parquet")
        assert [str(kind) for kind in read.schema().types] == [str(field.type) for field in expected.schema]
        if not table.num_rows:
            return
        assert_same(read.to_arrow(), expected)
        assert_same(read.map_batches(identity, batch_size=2).to_arrow(), expected)
        in_pieces(table).write_parquet(path / "rows", num_rows_per_file=files)
        assert_same(parquet.read_table(sorted((path / "rows").glob("*.parquet"))), expected)
        assert_same(data.read_parquet(path / "rows").random_shuffle(seed=3).sort("id").to_arrow(), expected)


def no_csv(kind) -> bool:
    unlike = pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or pa.types.is_duration(kind) or pa.types.is_float16(kind)
    return unlike or isinstance(kind, pa.BaseExtensionType) or pa.types.is_fixed_size_binary(kind)


@examples(80)
@given(tables())
def test_csv_files_have_what_pyarrow_writes(table):
    table = table.select([field.name for field in table.schema if not no_csv(field.type)])
    if not table.num_rows:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        try:
            csv.write_csv(table, path / "own.csv")
            expected = csv.read_csv(path / "own.csv", parse_options=csv.ParseOptions(newlines_in_values=True))
        except pa.ArrowException:
            return  # pyarrow cannot do it either
        in_pieces(table).write_csv(path / "rows")
        assert (path / "own.csv").read_bytes() == b"".join(file.read_bytes() for file in (path / "rows").iterdir())
        back = data.read_csv(path / "own.csv", parse_options=csv.ParseOptions(newlines_in_values=True))
        assert_same(back.to_arrow(), expected)


@examples(80)
@given(tables())
def test_json_lines_have_every_value_or_an_error_names_the_column(table):
    if not table.num_rows:
        return
    names = [field.name for field in table.schema if not isinstance(field.type, pa.BaseExtensionType)]
    rows = in_pieces(table.select(names))
    with tempfile.TemporaryDirectory() as folder:
        try:
            rows.write_json(folder)
        except TypeError as error:
            assert "the column 'x'" in str(error) or "the column 'y'" in str(error)
            return
        lines = "".join(file.read_text() for file in sorted(pathlib.Path(folder).iterdir())).splitlines()
        result = [json.loads(line) for line in lines]
        expected = [json.loads(json.dumps(row, default=text)) for row in table.select(names).to_pylist()]
        assert str(result) == str(expected)


def text(value):
    return value.isoformat()


@examples(60)
@given(tables(), st.integers(1, 4))
def test_tensors_have_every_value_or_an_error_names_the_column(table, size):
    torch = pytest.importorskip("torch")
    rows, column = in_pieces(table), table.column("x")
    number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_boolean(column.type)
    if not table.num_rows or not number:
        return
    batches = rows.select_columns("x").iter_torch_batches(batch_size=size)
    if column.null_count and not pa.types.is_floating(column.type):
        with pytest.raises(TypeError, match="the column 'x' is no tensor: it holds nulls"):
            list(batches)
        return
    result = torch.cat([batch["x"] for batch in batches]).tolist()
    expected = [float("nan") if value is None else value for value in column.to_pylist()]
    assert str(result) == str(expected)


@examples(60)
@given(tables(max_rows=6))
def test_aggregates_are_those_of_arrow(table):
    kind = table.schema.field("x").type
    if not table.num_rows or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)) or pa.types.is_float16(kind):
        return
    rows, column = in_pieces(table), table.column("x")
    extremes = pc.min_max(column).as_py()
    assert str((rows.min("x"), rows.max("x"))) == str((extremes["min"], extremes["max"]))
    if pa.types.is_integer(kind):
        values = [value for value in column.to_pylist() if value is not None]
        assert rows.sum("x") == (sum(values) if values else None)
        assert set(rows.unique("x")) == set(column.to_pylist())
        grouped = rows.groupby("id").max("x").to_arrow()
        assert_same(grouped.rename_columns(["id", "x"]), table.select(["id", "x"]))


@examples(60)
@given(tables(), st.integers(2, 3), st.sampled_from(["pyarrow", "numpy", "pandas"]))
def test_the_shares_of_ranks_are_all_rows(table, ranks, kind):
    rows = in_pieces(table).map_batches(identity, batch_format=kind)
    shares = [rows.rtrain_share_of_run(rank, ranks, 0, equal=False).materialize() for rank in range(ranks)]
    parts = [share.to_arrow() for share in shares if share.count()]
    if parts:
        assert_same(pa.concat_tables(parts), table)


@examples(60)
@given(tables(), st.booleans())
def test_a_sort_is_that_of_arrow(table, descending):
    try:
        places = pc.sort_indices(table, sort_keys=[("x", "descending" if descending else "ascending"), ("id", "ascending")])
    except pa.ArrowException:
        return  # a type that Arrow cannot sort
    if table.num_rows:
        assert_same(in_pieces(table).sort(["x", "id"], [descending, False]).to_arrow(), table.take(places))


@examples(60)
@given(tables(), st.integers(1, 4))
def test_a_local_shuffle_and_a_resumed_epoch_keep_every_value(table, size):
    rows = in_pieces(table)
    if not table.num_rows:
        return
    shuffled = rows.iter_batches(batch_size=size, batch_format="pyarrow", local_shuffle_buffer_size=3, local_shuffle_seed=1)
    assert_same(pa.concat_tables(shuffled).sort_by("id"), table)
    share = rows.rtrain_share_of_run(0, 1, 0, equal=True)
    batches = iter(share.iter_batches(batch_size=size, batch_format="pyarrow"))
    first = next(batches)
    later = rows.rtrain_share_of_run(0, 1, 0, equal=True)
    later.load_state_dict(share.state_dict())
    assert_same(pa.concat_tables([first, *later.iter_batches(batch_size=2, batch_format="pyarrow")]), table)


@examples(60)
@given(tables(), st.sampled_from(FORMATS))
def test_a_column_is_kept_where_a_function_takes_some_rows(table, kind):
    """A function that takes every second row gives the same rows as pyarrow, for each type that its format can
    represent.
    """
    held = [
        field.name
        for field in table.schema
        if kind == "pyarrow"
        or not (
            pa.types.is_nested(field.type) or pa.types.is_dictionary(field.type) or isinstance(field.type, pa.BaseExtensionType)
        )
    ]
    if kind == "numpy":
        held = [
            name for name in held if not (pa.types.is_floating(table.schema.field(name).type) and table.column(name).null_count)
        ]
    table = table.select(held)
    if table.num_rows:
        result = data.from_arrow(table).map_batches(SECOND[kind], batch_format=kind).to_arrow()
        assert [alike_type(one, other) for one, other in zip(result.schema.types, table.schema.types, strict=True)] == [
            True
        ] * len(held)
        expected = table.take(list(range(0, table.num_rows, 2)))
        for name in held:
            column = expected.column(name)
            given_back = result.column(name)
            if column.type == given_back.type and not (pa.types.is_floating(column.type) and column.null_count):
                assert_same(pa.table({name: given_back}), pa.table({name: column}))


SECOND = {
    "numpy": lambda batch: {name: array[::2] for name, array in batch.items()},
    "pandas": lambda frame: frame.iloc[::2],
    "pyarrow": lambda rows: rows.take(list(range(0, rows.num_rows, 2))),
}


def alike_type(result, expected) -> bool:
    """Returns whether a type is equal, or the nearest one that NumPy and pandas have."""
    if result == expected or pa.types.is_null(result):
        return True
    return (
        pa.types.is_temporal(result)
        and pa.types.is_temporal(expected)
        and getattr(result, "tz", None) == getattr(expected, "tz", None)
    )


@examples(60)
@given(tables(), tables())
def test_columns_that_one_of_two_lacks_are_null_there(one, other):
    if not (one.num_rows and other.num_rows):
        return
    other = other.rename_columns([{"x": "a", "y": "b"}.get(name, name) for name in other.column_names])
    expected = pa.concat_tables([one, other], promote_options="default")
    whole = data.from_arrow(one).union(data.from_arrow(other))
    assert_same(whole.to_arrow(), expected)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        batches = list(whole.iter_batches(batch_size=1))
    assert all(list(batch) == expected.column_names for batch in batches)
