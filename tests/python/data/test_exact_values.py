"""Values and types are unchanged by reading and writing: nulls, times, duplicate names, files that differ."""

from __future__ import annotations

import datetime
import decimal
import json
import pathlib

import numpy as np
import pyarrow as pa
import pytest
import rtrain.data as data
from pyarrow import json as json_options, parquet

LARGE = 2**53 + 1  # no float64


@pytest.fixture
def gaps(tmp_path: pathlib.Path) -> pathlib.Path:
    """Writes two files with the columns `id`, `flag` and `full`. Only the second one has nulls, but none in `full`."""
    for number, gap in enumerate(([LARGE, 2, 3], [None, LARGE + 2, 5])):
        flags = pa.array([value is not None and value > 2 for value in gap], mask=np.array([value is None for value in gap]))
        table = pa.table({"id": pa.array(gap, pa.int64()), "flag": flags, "full": [1, 2, 3]})
        parquet.write_table(table, tmp_path / f"{number}.parquet", row_group_size=2)
    return tmp_path


IDS = [LARGE, 2, 3, None, LARGE + 2, 5]


def ids(rows: data.Dataset) -> list:
    return rows.to_arrow().column("id").to_pylist()


# -- integers, booleans and nulls -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["numpy", "pandas", "pyarrow"])
def test_integers_with_a_null_stay_exact_through_every_operation(kind, gaps, tmp_path):
    rows = data.read_parquet(str(gaps))
    for same in (
        rows.map_batches(lambda batch: batch, batch_format=kind),
        rows.map(lambda row: row),
        rows.map(lambda row: {**row, "new": 1}),
        rows.flat_map(lambda row: [row]),
        rows.filter(lambda row: True),
        rows.add_column("new", lambda batch: [0] * len(batch), batch_format="pyarrow"),
        rows.zip(rows),
        rows.union(rows.limit(0)),
    ):
        assert ids(same) == IDS and same.to_arrow().column("id").type == pa.int64()
    assert sorted(ids(rows.sort("id")), key=str) == sorted(IDS, key=str)
    grouped = rows.groupby("id").map_groups(lambda group: group, batch_format=kind)
    assert sorted(ids(grouped), key=str) == sorted(IDS, key=str)
    more = rows.map_batches(lambda batch: {**batch, "full": batch["full"] * 2})  # changes another column
    more.write_parquet(tmp_path / "out")
    assert ids(data.read_parquet(tmp_path / "out")) == IDS


def test_a_batch_has_one_type_in_all_pieces(gaps):
    rows = data.read_parquet(str(gaps))
    for batches in (rows.iter_batches(batch_size=1), rows.map_batches(lambda batch: batch).iter_batches(batch_size=None)):
        batches = list(batches)
        assert all(isinstance(batch["id"], np.ma.MaskedArray) and batch["id"].dtype == np.int64 for batch in batches)
        assert all(isinstance(batch["flag"], np.ma.MaskedArray) and batch["flag"].dtype == bool for batch in batches)
        assert all(type(batch["full"]) is np.ndarray for batch in batches)  # the footers of both files count no null
        assert [value for batch in batches for value in batch["id"].tolist()] == IDS
    frames = list(rows.iter_batches(batch_size=1, batch_format="pandas"))
    assert {str(frame.dtypes.to_dict()) for frame in frames} == {str(frames[0].dtypes.to_dict())}
    assert [str(frames[0].dtypes[name]) for name in ("id", "flag", "full")] == ["Int64", "boolean", "int64"]


def test_a_column_is_masked_unless_its_files_say_that_it_has_no_null(tmp_path):
    fields = [pa.field("required", pa.int64(), nullable=False), pa.field("optional", pa.int64())]
    table = pa.table({"required": [1], "optional": [2]}, schema=pa.schema(fields))
    parquet.write_table(table, tmp_path / "a.parquet", write_statistics=False)
    batch = data.read_parquet(tmp_path / "a.parquet").take_batch(1)
    assert type(batch["required"]) is np.ndarray and isinstance(batch["optional"], np.ma.MaskedArray)
    (tmp_path / "a.csv").write_text("x\n1\n")
    assert isinstance(data.read_csv(tmp_path / "a.csv").take_batch(1)["x"], np.ma.MaskedArray)
    # All rows have been read.
    assert type(data.read_csv(tmp_path / "a.csv").materialize().take_batch(1)["x"]) is np.ndarray


def test_a_masked_array_that_a_function_returns_has_nulls():
    def without_odd(batch):
        return {"id": np.ma.masked_where(batch["id"] % 2 == 1, batch["id"] + LARGE)}

    assert data.range(4).map_batches(without_odd).take_all() == [{"id": LARGE}, {"id": None}, {"id": LARGE + 2}, {"id": None}]


def test_rows_with_a_null_in_some_pieces_have_one_type():
    rows = data.range(100_000).map(lambda row: {"x": None if row["id"] == 99_999 else row["id"] + LARGE})
    batches = list(rows.iter_batches(batch_size=50_000))
    assert {(type(batch["x"]), batch["x"].dtype) for batch in batches} == {(np.ma.MaskedArray, np.dtype("int64"))}
    assert batches[1]["x"][-1] is np.ma.masked and batches[1]["x"][-2] == LARGE + 99_998


def test_tensors_of_a_column_with_nulls_are_an_error_that_names_it(gaps):
    torch = pytest.importorskip("torch")
    rows = data.read_parquet(str(gaps))
    with pytest.raises(TypeError, match="the column 'id' is no tensor: it holds nulls"):
        list(rows.iter_torch_batches())
    batch = next(iter(rows.filter(lambda row: row["id"] is not None).iter_torch_batches()))
    assert batch["id"].dtype == torch.int64 and batch["id"].tolist() == [one for one in IDS if one is not None]


def test_integers_that_are_no_floats_are_an_error_beside_floats():
    with pytest.raises(ValueError, match=f"the column 'x' has integers and floats, .*{LARGE}"):
        data.from_items([{"x": LARGE}, {"x": 0.5}])
    assert data.from_items([{"x": 1}, {"x": 0.5}]).take_all() == [{"x": 1.0}, {"x": 0.5}]
    assert data.from_items([{"x": 2**64 - 1}, {"x": 1}]).take_all() == [{"x": 2**64 - 1}, {"x": 1}]


def test_nulls_within_lists_and_structs_stay_exact():
    table = pa.table({"l": [[LARGE, None], [1]], "s": [{"a": LARGE}, {"a": None}]})
    for kind in ("numpy", "pandas"):
        assert data.from_arrow(table).map_batches(lambda batch: batch, batch_format=kind).to_arrow().equals(table)
    assert data.from_arrow(table).to_pandas()["l"][0].tolist() == [LARGE, None]
    assert data.from_arrow(table).take_batch(2)["s"].tolist() == [{"a": LARGE}, {"a": None}]


def test_a_list_that_a_function_changed_in_place_is_changed():
    def longer(row):
        row["l"].append(9)
        return row

    assert data.from_items([{"l": [1]}, {"l": [2, 3]}]).map(longer).take_all() == [{"l": [1, 9]}, {"l": [2, 3, 9]}]


def test_sums_of_large_integers_and_features_that_are_no_floats(tmp_path):
    torch = pytest.importorskip("torch")
    rows = data.from_arrow(pa.table({"k": [1, 1, 2], "v": [2**62, 2**62, 5], "f": pa.array([0.5, 0.5, 0.5], pa.float32())}))
    assert rows.sum("v") == 2**63 + 5
    with pytest.raises(TypeError, match=r"the column 'sum\(v\)' holds decimal128\(38, 0\) in some rows and int64"):
        rows.groupby("k").sum("v").take_all()
    assert rows.limit(1).groupby("k").sum("v").take_all() == [{"k": 1, "sum(v)": 2**62}]
    with pytest.raises(TypeError, match=r"to_torch: the column 'v' holds torch.int64, and .* becomes torch.float32"):
        list(data.from_arrow(pa.table({"v": [2**24 + 1], "f": pa.array([0.5], pa.float32())})).to_torch(batch_size=1))
    features, _ = next(iter(rows.select_columns(["k", "f"]).to_torch(batch_size=3)))
    assert features.dtype == torch.float32 and features[:, 0].tolist() == [1, 1, 2]


# -- times ----------------------------------------------------------------------------------------------------------------
TIMES = pa.table(
    {
        "ns": pa.array([1, None], pa.timestamp("ns")),
        "zone": pa.array([1_000_000_001, 2], pa.timestamp("ns", "Europe/Berlin")),
        "wait": pa.array([1, None], pa.duration("ns")),
        "day": pa.array([datetime.date(2026, 1, 2), None]),
        "at": pa.array([1, 2], pa.time64("us")),
        "price": pa.array([decimal.Decimal("1.10"), None], pa.decimal128(9, 2)),
    }
)


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.map(lambda row: row),
        lambda rows: rows.map_batches(lambda batch: batch),
        lambda rows: rows.map_batches(lambda batch: batch, batch_format="pandas"),
        lambda rows: rows.map_batches(lambda batch: {name: batch[name].copy() for name in batch}),
        lambda rows: rows.map(lambda row: {**row}).map_batches(lambda batch: batch),
    ],
)
def test_times_keep_nanoseconds_zone_and_type(change):
    assert change(data.from_arrow(TIMES)).to_arrow().equals(TIMES)


def test_times_that_a_function_changed_keep_nanoseconds_and_zone():
    pandas = pytest.importorskip("pandas")
    rows = data.from_arrow(TIMES.slice(0, 1))
    later = rows.map(lambda row: {name: row[name] + pandas.Timedelta(1, "ns") for name in ("ns", "zone", "wait")}).to_arrow()
    assert [later.column(name).cast(pa.int64()).to_pylist() for name in later.column_names] == [[2], [1_000_000_002], [2]]
    assert later.column("zone").type == pa.timestamp("ns", "Europe/Berlin")
    shifted = rows.map_batches(lambda batch: {"zone": batch["zone"] + np.timedelta64(5, "ns")}).to_arrow()
    assert shifted.column("zone").type == pa.timestamp("ns", "Europe/Berlin")
    assert shifted.column("zone").cast(pa.int64()).to_pylist() == [1_000_000_006]


def test_times_that_python_cannot_hold_are_an_error_that_names_the_column():
    rows = data.from_arrow(pa.table({"at": pa.array([1, 1000], pa.time64("ns"))}))
    with pytest.raises(ValueError, match=r"map\(<lambda>\): the column 'at' holds a value of time64\[ns\]"):
        rows.map(lambda row: row).take_all()
    with pytest.raises(ValueError, match="the column 'at' holds a value of time64"):
        rows.take_batch(2)
    assert rows.filter(expr=pa.compute.field("at").is_valid()).to_arrow().num_rows == 2


def test_a_date_beside_a_time_and_a_zone_beside_none_are_not_cut():
    day, time = datetime.date(2026, 1, 2), datetime.datetime(2026, 1, 2, 5)
    assert data.from_items([{"t": day}, {"t": time}]).take_all() == [{"t": day}, {"t": time}]
    aware = time.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    assert data.from_items([{"t": time}, {"t": aware}]).take_all() == [{"t": time}, {"t": aware}]


# -- two columns of one name ------------------------------------------------------------------------------------------------
def test_two_columns_of_one_name_are_an_error_that_names_both(tmp_path):
    pandas = pytest.importorskip("pandas")
    table = pa.table([[1], [2], [3]], names=["x", "y", "x"])
    with pytest.raises(ValueError, match=r"2 columns have the name 'x': number 1 \('x'\) and number 3 \('x'\) of 3"):
        data.from_arrow(table)
    with pytest.raises(ValueError, match="2 columns have the name 'x'"):
        data.from_pandas(pandas.DataFrame([[1, 2]], columns=["x", "x"]))
    with pytest.raises(ValueError, match=r"number 1 \(1\) and number 2 \('1'\)"):
        data.from_items([{1: 2, "1": 3}])
    with pytest.raises(ValueError, match=r"map_batches\(<lambda>\): 2 columns have the name '1'"):
        data.range(3).map_batches(lambda batch: {1: batch["id"], "1": batch["id"]}).take_all()
    parquet.write_table(table, tmp_path / "twice.parquet")
    with pytest.raises(ValueError, match=r"read_parquet: .*twice.parquet has two columns 'x' \(number 1 and number 3 of 3\)"):
        data.read_parquet(tmp_path / "twice.parquet").take_all()
    (tmp_path / "twice.csv").write_text("x,x\n1,2\n")
    with pytest.raises(ValueError, match=r"read_csv: .*twice.csv: 2 columns have the name 'x'"):
        data.read_csv(tmp_path / "twice.csv").take_all()


def test_paths_beside_a_column_path_are_an_error(tmp_path):
    parquet.write_table(pa.table({"path": ["own"], "x": [1]}), tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("path,x\nown,1\n")
    for read, file in ((data.read_parquet, tmp_path / "a.parquet"), (data.read_csv, tmp_path / "a.csv")):
        with pytest.raises(ValueError, match=r"has a column 'path', and include_paths=True adds another"):
            read(file, include_paths=True).take_all()
        row = read(file, include_paths=True, columns=["x"]).take_all()[0]
        assert row["x"] == 1 and pathlib.Path(row["path"]).parent == tmp_path


def test_operations_give_no_two_columns_one_name():
    rows = data.range(2).map(lambda row: {"a": 1, "b": 2})  # columns that are not known in advance
    with pytest.raises(ValueError, match=r"rename_columns\(a\): 2 columns have the name 'b'"):
        rows.rename_columns({"a": "b"}).take_all()
    left, right = data.from_items([{"id": 1}]), data.from_items([{"id": 2, "id_1": 3}])
    assert left.zip(right).take_all() == [{"id": 1, "id_1_1": 2, "id_1": 3}] and left.zip(right).columns() == [
        "id",
        "id_1_1",
        "id_1",
    ]
    keyed = data.from_items([{"sum(v)": 1, "v": 2}])
    with pytest.raises(ValueError, match=r"2 columns have the name 'sum\(v\)'"):
        keyed.groupby("sum(v)").sum("v").take_all()


# -- pieces of different types ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("size", [None, 1, 4])
def test_pieces_of_different_types_are_an_error_wherever_a_batch_ends(size):
    kinds = iter([np.array([1, 2]), np.array(["a", "b"])])
    rows = data.range(4).map_batches(lambda batch: {"x": next(kinds)}, batch_size=2).materialize
    with pytest.raises(TypeError, match="the column 'x' holds int64 and string in different rows"):
        rows()
    pieces = data.from_items([1, 2]).union(data.from_items(["a", "b"]))
    with pytest.raises(TypeError, match=r"the column 'item' holds int64 in from_items\(2\) and string"):
        list(pieces.iter_batches(batch_size=size))
    large = data.range(100_000).map(lambda row: {"x": row["id"] if row["id"] < 65_536 else "a"})
    with pytest.raises(TypeError, match=r"the column 'x' holds int64 in the first rows and string in later rows of .*map"):
        list(large.iter_batches(batch_size=size and size * 65_536))


def test_arrays_of_several_dimensions_are_widened_or_an_error_too():
    def pieces(*arrays):
        return data.from_numpy([np.asarray(array) for array in arrays], column="x")

    batch = pieces([[1, 2]], [[0.5, 3.0]]).take_batch(2)["x"]
    assert batch.shape == (2, 2) and batch.dtype == np.float64 and batch.tolist() == [[1.0, 2.0], [0.5, 3.0]]
    for wrong in ([["a", "b"]], [[True, False]]):
        with pytest.raises(TypeError, match="the column 'x' holds int64 and (string|bool) in different rows"):
            pieces([[1, 2]], wrong)
    with pytest.raises(TypeError, match=f"the column 'x' holds int64 and double in different rows, .*{LARGE}"):
        pieces([[LARGE, 2]], [[0.5, 1]])
    with pytest.raises(TypeError, match=r"the column 'x' holds int64 of shape \(2,\) and int64 in different rows"):
        pieces([[1, 2]], [1])


def test_files_of_different_types_are_an_error_that_names_both(tmp_path):
    for kind, values in (("a", [1, 2]), ("b", ["x", "y"])):
        parquet.write_table(pa.table({"v": values}), tmp_path / f"{kind}.parquet")
        (tmp_path / f"{kind}.csv").write_text("v\n" + "\n".join(map(str, values)) + "\n")
        (tmp_path / f"{kind}.jsonl").write_text("".join(json.dumps({"v": value}) + "\n" for value in values))
    for read, files in ((data.read_parquet, "*.parquet"), (data.read_csv, "*.csv"), (data.read_json, "*.jsonl")):
        with pytest.raises(TypeError, match=rf"{read.__name__}: .*the column 'v' holds int64 in .*a\.\w+ and string in .*b\.\w+"):
            read(f"{tmp_path}/{files}").take_all()
        with pytest.raises(TypeError, match="the column 'v' holds"):  # a rank that reads the second file alone
            read(f"{tmp_path}/{files}").rtrain_share_of_run(1, 2, 0, equal=True).materialize()


def test_files_are_widened_where_no_value_changes(tmp_path):
    def whole(*columns):
        for number, column in enumerate(columns):
            parquet.write_table(pa.table({"v": column}), tmp_path / f"{number}.parquet")
        rows = data.read_parquet([tmp_path / f"{number}.parquet" for number in range(len(columns))])
        batches = list(rows.iter_batches(batch_size=1, batch_format="pyarrow"))
        assert {batch.column("v").type for batch in batches} == {rows.schema().types[0]}
        return rows.to_arrow().column("v")

    assert whole(pa.array([1], pa.int32()), pa.array([2**40])).equals(pa.chunked_array([[1, 2**40]], pa.int64()))
    assert whole(pa.array([1]), pa.array([0.5])).to_pylist() == [1.0, 0.5]
    assert whole(pa.nulls(1), pa.array(["a"])).to_pylist() == [None, "a"]
    text = whole(pa.array(["a"]).dictionary_encode(), pa.array(["b"], pa.large_string()))
    assert text.type == pa.large_string() and text.to_pylist() == ["a", "b"]
    assert whole(pa.array([1], pa.timestamp("s")), pa.array([1], pa.timestamp("ns"))).type == pa.timestamp("ns")
    assert whole(pa.array([decimal.Decimal("1.5")]), pa.array([decimal.Decimal("12.25")])).type == pa.decimal128(4, 2)
    with pytest.raises(TypeError, match=r"0.parquet: the column 'v' holds int64 .*double.*9007199254740993"):
        whole(pa.array([LARGE]), pa.array([0.5]))
    with pytest.raises(TypeError, match=r"the column 'v' holds timestamp\[us\] in .*0.parquet and timestamp\[us, tz=UTC\]"):
        whole(pa.array([1], pa.timestamp("us")), pa.array([1], pa.timestamp("us", "UTC")))


def test_a_column_that_becomes_wider_in_a_write_begins_another_file(tmp_path):
    rows = data.range(100_000).map(lambda row: {"x": row["id"] if row["id"] < 65_536 else 0.5})
    rows.write_parquet(tmp_path / "p")
    assert data.read_parquet(tmp_path / "p").sum("x") == sum(range(65_536)) + 0.5 * (100_000 - 65_536)


# -- columns that some files lack ---------------------------------------------------------------------------------------------
@pytest.fixture
def uneven(tmp_path: pathlib.Path) -> pathlib.Path:
    """Files of each kind: `x` and `y` in the first, `x` alone in the second."""
    for number, rows in enumerate(([{"x": 1, "y": "a"}, {"x": 2, "y": "b"}], [{"x": 3}, {"x": 4}])):
        parquet.write_table(pa.Table.from_pylist(rows), tmp_path / f"{number}.parquet")
        header = ",".join(rows[0])
        (tmp_path / f"{number}.csv").write_text("\n".join([header, *(",".join(map(str, row.values())) for row in rows)]) + "\n")
        (tmp_path / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


@pytest.mark.parametrize(
    ("read", "files"), [(data.read_parquet, "*.parquet"), (data.read_csv, "*.csv"), (data.read_json, "*.jsonl")]
)
def test_a_column_that_a_file_lacks_is_null_wherever_a_batch_ends(read, files, uneven):
    for size in (1, 2, 3, 4, None):
        batches = list(read(f"{uneven}/{files}").iter_batches(batch_size=size))
        assert all(list(batch) == ["x", "y"] for batch in batches)
        assert [value for batch in batches for value in batch["y"].tolist()] == ["a", "b", None, None]
    second = read(f"{uneven}/{files}").rtrain_share_of_run(1, 2, 0, equal=True)
    assert list(second.iter_rows()) == [{"x": 3, "y": None}, {"x": 4, "y": None}]


def test_columns_that_are_named_must_be_in_each_file(uneven):
    with pytest.raises(KeyError, match=r"read_parquet: .*1.parquet has no column 'y'; it has: x"):
        data.read_parquet(f"{uneven}/*.parquet", columns=["x", "y"])
    with pytest.raises(ValueError, match=r"read_csv: .*1.csv: .*'y'"):
        data.read_csv(f"{uneven}/*.csv", columns=["x", "y"]).take_all()
    assert data.read_parquet(f"{uneven}/*.parquet", columns=["x"]).sum("x") == 10
    assert data.read_parquet(f"{uneven}/*.parquet").select_columns(["y", "x"]).take(4)[3] == {"y": None, "x": 4}
    alone = data.read_parquet(f"{uneven}/*.parquet").select_columns("y")  # the second file has none of the columns
    assert alone.count() == 4 and [row["y"] for row in alone] == ["a", "b", None, None]


def test_a_column_that_only_a_later_file_has(uneven):
    backwards = [uneven / "1.parquet", uneven / "0.parquet"]
    rows = data.read_parquet(backwards)
    assert rows.columns() == ["x", "y"] and [row["y"] for row in rows] == [None, None, "a", "b"]
    for read, kind in ((data.read_csv, "csv"), (data.read_json, "jsonl")):
        with pytest.raises(ValueError, match=rf"0.{kind} has the column 'y' in later rows, and .*1.{kind} does not have it"):
            read([uneven / f"1.{kind}", uneven / f"0.{kind}"]).take_all()
    explicit = json_options.ParseOptions(explicit_schema=pa.schema([("x", pa.int64()), ("y", pa.string())]))
    # The error names this solution.
    named = data.read_json([uneven / "1.jsonl", uneven / "0.jsonl"], parse_options=explicit)
    assert [row["y"] for row in named] == [None, None, "a", "b"]


def test_a_row_function_that_adds_a_column_later_is_an_error():
    rows = data.range(100_000).map(lambda row: row if row["id"] < 65_536 else {**row, "late": 1})
    with pytest.raises(ValueError, match="later rows have the column 'late', and the first ones do not"):
        list(rows.iter_batches(batch_size=1000))
    fewer = data.range(100_000).map(lambda row: {**row, "y": 1} if row["id"] < 65_536 else row)
    assert all(set(batch) == {"id", "y"} for batch in fewer.iter_batches(batch_size=1000))
