"""The files of a folder that are read, and the columns that names of folders add."""

from __future__ import annotations

import bz2
import gzip
import os
import pathlib
import pickle
import warnings

import numpy as np
import pyarrow as pa
import pytest
import rtrain.data as data
from pyarrow import fs, parquet


@pytest.fixture(autouse=True)
def all_warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


def write(path: pathlib.Path, content: str | bytes = "") -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def ids(dataset) -> list[int]:
    return [row["id"] for row in dataset.take_all()]


# -- which files ----------------------------------------------------------------------------------------------------------
def test_files_of_other_endings_are_named_with_their_number(tmp_path):
    for name in ("notes.txt", "b.csv", "c", "sub/d.md"):
        write(tmp_path / name)
    for name in ("1.json", "2.jsonl", "3.JSON", "4.ndjson"):
        write(tmp_path / name, f'{{"id": {name[0]}}}\n')
    expected = (
        rf"read_json: 4 of 8 files of {tmp_path} were not read: their names do not end with .json or .jsonl or .ndjson "
        r"\(b.csv, c, notes.txt, ...\); file_extensions="
    )
    with pytest.warns(UserWarning, match=expected) as caught:
        rows = data.read_json(str(tmp_path))
    assert ids(rows) == [1, 2, 3, 4]
    assert len(caught) == 1 and caught[0].filename == __file__


def test_endings_that_the_user_chose_need_no_warning(tmp_path):
    write(tmp_path / "a.log", "id\n1\n")
    write(tmp_path / "b.csv", "id\n2\n")
    assert ids(data.read_csv(str(tmp_path), file_extensions=["log"])) == [1]


def test_markers_of_other_programs_need_no_warning(tmp_path):
    for name in (
        "_SUCCESS",
        ".a.csv.crc",
        "_committed_123",
        "_started_123",
        ".DS_Store",
        ".git/HEAD",
        "_delta_log/0.json",
        ".part-0.csv.incomplete",
    ):
        write(tmp_path / name, "x")
    write(tmp_path / "a.csv", "id\n1\n")
    assert ids(data.read_csv(str(tmp_path))) == [1]
    assert data.read_binary_files(str(tmp_path)).count() == 1


def test_hidden_files_that_look_like_data_are_named(tmp_path):
    for name in ("_train.csv", ".old/b.csv", "a.csv"):
        write(tmp_path / name, "id\n1\n")
    with pytest.warns(UserWarning, match=r"2 of 3 files .* begin with \. or _ \(.old/b.csv, _train.csv\)"):
        rows = data.read_csv(str(tmp_path))
    assert ids(rows) == [1]
    assert ids(data.read_csv(str(tmp_path / "_train.csv"))) == [1]


def test_compressed_files_of_a_folder_are_read(tmp_path):
    write(tmp_path / "a.csv.gz", gzip.compress(b"id\n1\n"))
    write(tmp_path / "b.CSV.GZ", gzip.compress(b"id\n2\n"))
    write(tmp_path / "c.csv.bz2", bz2.compress(b"id\n3\n"))
    for name, codec in (("d.csv.zst", "zstd"), ("e.csv.lz4", "lz4"), ("f.csv.br", "brotli")):
        with pa.CompressedOutputStream(pa.OSFile(str(tmp_path / name), "wb"), codec) as stream:
            stream.write(f"id\n{'abcdef'.index(name[0]) + 1}\n".encode())
    assert ids(data.read_csv(str(tmp_path))) == [1, 2, 3, 4, 5, 6]
    text = data.read_text(str(tmp_path)).take_all()
    assert [row["text"] for row in text] == [line for one in range(1, 7) for line in ("id", str(one))]


@pytest.mark.parametrize("name", ["a.csv.xz", "a.csv.zip", "a.csv.7z"])
def test_a_compression_that_is_not_read_is_an_error(tmp_path, name):
    write(tmp_path / name, b"\xfd7zXZ\n1\n")
    with pytest.raises(ValueError, match=rf"{name}: \.\w+ is no compression that is read here .*; decompress the file"):
        data.read_csv(str(tmp_path / name)).take_all()
    with pytest.raises(ValueError, match="decompress the file"):
        data.read_text(str(tmp_path / name)).take_all()


@pytest.mark.parametrize("end", [0, -1, -8, 20])
def test_a_compressed_file_that_was_cut_off_is_an_error(tmp_path, end):
    write(tmp_path / "a.jsonl.gz", gzip.compress(b'{"id": 1}\n' * 100)[:end])
    with pytest.raises((OSError, ValueError), match="a.jsonl.gz"):
        data.read_json(str(tmp_path)).take_all()


def test_empty_files_have_no_rows(tmp_path):
    write(tmp_path / "a.csv")
    write(tmp_path / "b.csv", "id\n7\n")
    write(tmp_path / "c.json")
    assert ids(data.read_csv([tmp_path / "a.csv", tmp_path / "b.csv"])) == [7]
    assert data.read_json(str(tmp_path / "c.json")).take_all() == []
    write(tmp_path / "d.parquet")
    with pytest.raises(ValueError, match="d.parquet"):
        data.read_parquet(str(tmp_path / "d.parquet")).take_all()


def test_links_are_followed_and_no_file_comes_twice(tmp_path):
    root = tmp_path / "root"
    write(root / "2024" / "a.csv", "id\n1\n")
    write(root / "2025" / "b.csv", "id\n2\n")
    write(tmp_path / "away" / "c.csv", "id\n3\n")
    (root / "away").symlink_to(tmp_path / "away")
    (root / "latest").symlink_to("2025")
    (root / "alias.csv").symlink_to("2024/a.csv")
    (root / "loop").symlink_to(".")
    (root / "2024" / "loop").symlink_to("..")
    with pytest.warns(UserWarning, match=r"2 of 5 files .* links to files that are read already \(alias.csv, latest/b.csv\)"):
        rows = data.read_csv(str(root))
    assert ids(rows) == [1, 2, 3]


def test_links_that_lead_nowhere_are_named(tmp_path):
    write(tmp_path / "a.csv", "id\n1\n")
    (tmp_path / "b.csv").symlink_to("gone.csv")
    os.mkfifo(tmp_path / "c.csv")
    with pytest.warns(UserWarning, match=r"2 of 3 files .* links that lead nowhere \(b.csv, c.csv\)"):
        assert ids(data.read_csv(str(tmp_path))) == [1]
    with pytest.raises(FileNotFoundError, match="b.csv does not exist"):
        data.read_csv(str(tmp_path / "b.csv"))


def test_links_into_a_hidden_folder_are_read(tmp_path):
    """The files of a Kubernetes volume are such links, and those of a cache that stores contents under other names."""
    write(tmp_path / "..2024" / "a.csv", "id\n1\n")
    (tmp_path / "..data").symlink_to("..2024")
    (tmp_path / "a.csv").symlink_to("..data/a.csv")
    with pytest.warns(UserWarning, match="begin with"):
        assert ids(data.read_csv(str(tmp_path))) == [1]


def test_a_pattern_gives_each_file_once_and_no_dot_files(tmp_path):
    write(tmp_path / "a" / "x.csv", "id\n1\n")
    write(tmp_path / "a" / "b" / "y.csv", "id\n2\n")
    write(tmp_path / ".z.csv", "id\n3\n")
    for pattern in ("**/*", "*", "**/*.csv", "a/*", "a/**/*.csv"):
        assert sorted(ids(data.read_csv(f"{tmp_path}/{pattern}"))) == [1, 2], pattern
    assert ids(data.read_csv(f"{tmp_path}/.*.csv")) == [3]
    with pytest.raises(FileNotFoundError, match="nothing fits"):
        data.read_csv(f"{tmp_path}/q*")


# -- columns of folders -----------------------------------------------------------------------------------------------------
def hive(root: pathlib.Path) -> None:
    for number, folder in enumerate(["year=2023/kind=a%20b", "year=2024/kind=__HIVE_DEFAULT_PARTITION__"]):
        (root / folder).mkdir(parents=True)
        table = pa.table({"id": [2 * number, 2 * number + 1], "x": [0.5, 1.5]})
        parquet.write_table(table, root / folder / "part.parquet")


def test_folders_called_by_key_and_value_are_columns_of_texts(tmp_path):
    hive(tmp_path)
    rows = data.read_parquet(str(tmp_path))
    assert rows.columns() == ["id", "x", "year", "kind"]
    assert [str(kind) for kind in rows.schema().types] == ["int64", "double", "string", "string"]
    assert rows.take_all()[1:3] == [
        {"id": 1, "x": 1.5, "year": "2023", "kind": "a b"},
        {"id": 2, "x": 0.5, "year": "2024", "kind": None},
    ]
    assert rows.count() == 4 and rows.filter(lambda row: row["year"] == "2024").count() == 2
    assert pickle.loads(pickle.dumps(rows)).take_all() == rows.take_all()
    assert data.read_parquet(str(tmp_path), include_paths=True).columns() == ["id", "x", "year", "kind", "path"]
    assert data.read_parquet(str(tmp_path / "year=2023")).take(1)[0]["year"] == "2023"
    assert data.read_parquet(str(tmp_path), partitioning=None).columns() == ["id", "x"]


def test_columns_of_folders_can_be_chosen(tmp_path):
    hive(tmp_path)
    assert data.read_parquet(str(tmp_path), columns=["year", "id"]).take(1) == [{"year": "2023", "id": 0}]
    assert data.read_parquet(str(tmp_path), columns=["id"]).take(1) == [{"id": 0}]
    assert [row["year"] for row in data.read_parquet(str(tmp_path), columns=["year"])] == ["2023", "2023", "2024", "2024"]
    assert data.read_parquet(str(tmp_path)).select_columns(["kind", "x"]).take(1) == [{"kind": "a b", "x": 0.5}]
    with pytest.raises(KeyError, match="no column 'month'; it has: id, x, year, kind"):
        data.read_parquet(str(tmp_path), columns=["month"])


def test_types_of_folders_are_named(tmp_path):
    hive(tmp_path)
    typed = data.Partitioning("hive", base_dir=str(tmp_path), field_types={"year": int})
    rows = data.read_parquet(str(tmp_path), partitioning=typed)
    assert [row["year"] for row in rows] == [2023, 2023, 2024, 2024] and str(rows.schema().types[2]) == "int64"
    with pytest.raises(ValueError, match="part.parquet: the folder gives kind='a b', which is no float"):
        data.read_parquet(str(tmp_path), partitioning=data.Partitioning(field_types={"kind": float}))
    with pytest.raises(ValueError, match="style is 'hiv'"):
        data.Partitioning("hiv")
    with pytest.raises(ValueError, match="partitioning is 'dir'; it is 'hive', None or"):
        data.read_parquet(str(tmp_path), partitioning="dir")


def test_folders_called_by_values_alone(tmp_path):
    np.save(write(tmp_path / "cat" / "a.npy"), np.arange(2))
    np.save(write(tmp_path / "dog" / "b.npy"), np.arange(1))
    named = data.Partitioning("dir", base_dir=str(tmp_path), field_names=["label"])
    rows = data.read_numpy(str(tmp_path), partitioning=named)
    assert rows.columns() == ["data", "label"] and [row["label"] for row in rows] == ["cat", "cat", "dog"]
    binary = data.read_binary_files(str(tmp_path), partitioning=named, include_paths=True)
    assert [row["label"] for row in binary] == ["cat", "dog"] and binary.columns() == ["bytes", "label", "path"]
    np.save(write(tmp_path / "dog" / "deep" / "c.npy"), np.arange(1))
    with pytest.raises(ValueError, match=r"c.npy: 2 folders \(dog/deep\) for the columns label"):
        data.read_numpy(str(tmp_path), partitioning=named)


def test_csv_and_json_have_the_columns_of_folders(tmp_path):
    write(tmp_path / "day=1" / "a.csv", "id\n1\n")
    write(tmp_path / "day=2" / "b.csv", "id\n2\n")
    write(tmp_path / "day=2" / "more" / "c.csv", "id\n3\n")
    write(tmp_path / "d.csv", "id\n4\n")
    assert [tuple(row.values()) for row in data.read_csv(str(tmp_path)).take_all()] == [(4, None), (1, "1"), (2, "2"), (3, "2")]
    assert data.read_csv(str(tmp_path), columns=["day", "id"]).take(2)[1] == {"day": "1", "id": 1}
    write(tmp_path / "json" / "day=1" / "a.json", '{"id": 1}\n')
    assert data.read_json(str(tmp_path / "json")).take_all() == [{"id": 1, "day": "1"}]
    assert data.read_text(str(tmp_path / "json")).take_all() == [{"text": '{"id": 1}'}]


def test_a_column_of_the_file_and_of_its_folder_must_be_equal(tmp_path):
    (tmp_path / "year=2024").mkdir()
    parquet.write_table(
        pa.table({"id": [1, 2], "year": pa.array([2024, 2024], pa.int32())}), tmp_path / "year=2024" / "a.parquet"
    )
    rows = data.read_parquet(str(tmp_path))
    assert rows.take(1) == [{"id": 1, "year": 2024}] and rows.columns() == ["id", "year"]
    for wrong in ([2024, 2023], [2024, None]):
        parquet.write_table(pa.table({"id": [1, 2], "year": wrong}), tmp_path / "year=2024" / "a.parquet")
        with pytest.raises(
            ValueError, match=r"a.parquet: the folder gives year='2024', and the file's own column 'year' has 2024, "
        ):
            data.read_parquet(str(tmp_path)).take_all()
        assert data.read_parquet(str(tmp_path), partitioning=None).take(2)[1]["year"] == wrong[1]


def test_two_folders_of_one_key_must_agree(tmp_path):
    write(tmp_path / "k=1" / "k=2" / "a.csv", "id\n1\n")
    with pytest.raises(ValueError, match="a.csv: two folders give the column 'k' different values"):
        data.read_csv(str(tmp_path))


def test_a_folder_on_another_file_system(tmp_path):
    hive(tmp_path)
    write(tmp_path / "notes.txt")
    away = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    with pytest.warns(UserWarning, match=r"1 of 3 files .* \(notes.txt\)"):
        rows = data.read_parquet("", filesystem=away)
    assert [row["year"] for row in rows] == ["2023", "2023", "2024", "2024"]
