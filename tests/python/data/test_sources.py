"""Sources of rows: the rows of each, and the errors for missing and faulty files."""

from __future__ import annotations

import gzip
import io
import json
import pathlib
import pickle
import queue
import subprocess
import sys
import threading

import cloudpickle
import numpy as np
import pyarrow as pa
import pytest
import rtrain.data as data
from pyarrow import fs
from rtrain.data._files import Csv
from rtrain.data._paths import Files


def ids(dataset) -> list[int]:
    return [row["id"] for row in dataset.iter_rows()]


def test_values_in_memory():
    assert data.from_items([{"a": 1, "b": "x"}, {"a": 2}]).take_all() == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
    assert data.from_items([3, 4]).take_all() == [{"item": 3}, {"item": 4}]
    assert data.range(3).take_all() == [{"id": 0}, {"id": 1}, {"id": 2}]
    tensors = data.range_tensor(3, shape=(2, 2)).take_batch(3)["data"]
    assert tensors.shape == (3, 2, 2) and tensors[2].tolist() == [[2, 2], [2, 2]]
    images = np.arange(24.0).reshape(4, 3, 2)
    assert np.array_equal(data.from_numpy(images).take_batch(4)["data"], images)
    assert data.from_numpy([images, images]).count() == 8
    table = pa.table({"a": [1, 2], "b": [[1, 2], [3]]})
    assert data.from_arrow([table, table]).take_all()[3] == {"a": 2, "b": [3]}
    assert data.from_items([]).take_all() == []


def test_a_table_of_pandas_keeps_its_columns():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"n": [1, 2], "t": ["a", None], "f": [0.5, 1.5]})
    back = data.from_pandas([frame, frame]).to_pandas()
    assert back["n"].tolist() == [1, 2, 1, 2] and back["t"].isna().sum() == 2 and back["f"].dtype == np.float64


def test_datasets_of_torch_are_read_item_by_item():
    torch = pytest.importorskip("torch")
    pairs = torch.utils.data.TensorDataset(torch.arange(300), torch.arange(300) * 2)
    dataset = data.from_torch(pairs)
    assert dataset.count() == 300 and [int(value) for value in dataset.take(300)[299]["item"]] == [299, 598]

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter({"id": one} for one in range(600))

    assert ids(data.from_torch(Stream())) == list(range(600))


def test_a_hugging_face_dataset_is_read_in_ranges():
    class Table:
        """The used part of `datasets.Dataset`."""

        def __len__(self):
            return 5000

        def with_format(self, name):
            assert name == "arrow"
            return self

        def __getitem__(self, rows):
            return pa.table({"id": range(5000)}).slice(rows.start, rows.stop - rows.start)

    assert ids(data.from_huggingface(Table())) == list(range(5000))
    with pytest.raises(TypeError, match="several: train, test"):
        data.from_huggingface({"train": Table(), "test": Table()})


def test_parquet_by_folder_list_glob_and_columns(parquet: pathlib.Path):
    whole = data.read_parquet(str(parquet))
    assert ids(whole) == list(range(1000)) and whole.count() == 1000
    assert whole.columns() == ["id", "text"] and [str(kind) for kind in whole.schema().types] == ["int64", "string"]
    assert ids(data.read_parquet([parquet / "part-2.parquet", parquet / "part-1.parquet"]))[:1] == [410]
    assert data.read_parquet(f"{parquet}/part-[01].parquet").count() == 410
    assert data.read_parquet(str(parquet), columns=["text"]).take(1) == [{"text": "row 0"}]
    assert data.read_parquet(str(parquet)).select_columns("id").take(1) == [{"id": 0}]
    local = fs.SubTreeFileSystem(str(parquet.parent), fs.LocalFileSystem())
    assert data.read_parquet("parquet", filesystem=local).count() == 1000
    assert data.read_parquet(parquet.as_uri()).count() == 1000
    assert data.read_parquet(str(parquet), include_paths=True).take(1)[0]["path"].endswith("part-0.parquet")
    assert len(whole.input_files()) == 3 and whole.num_blocks() == 16 and whole.size_bytes() > 4000


class SlowCsv(io.RawIOBase):
    """A CSV file of a million rows. Each read takes 20 ms. At its end it reports whether a read was in progress."""

    def __init__(self, ends: queue.Queue[str]) -> None:
        self.content = io.BytesIO(b"id,name\n" + b"1,one\n" * 1_000_000)
        self.reading = False
        self.ends = ends

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        self.reading = True
        threading.Event().wait(0.02)
        content = self.content.read(min(size, 1 << 16))
        self.reading = False
        return content

    def close(self) -> None:
        if not self.closed:
            self.ends.put("while it was read" if self.reading else "at rest")
        super().close()


def test_a_table_of_which_the_first_rows_are_taken_is_not_closed_while_it_is_read():
    """Otherwise Arrow's thread would use the descriptor after it was closed. The next opened file would get the same
    number and lose rows.
    """
    ends: queue.Queue[str] = queue.Queue()

    class SlowDisk(fs.LocalFileSystem):
        def open_input_stream(self, *_, **__):
            return pa.PythonFile(SlowCsv(ends), "r")

    blocks = Csv(Files(SlowDisk(), ["slow.csv"], [1]), {}, include_paths=False).open(0, 0)
    assert next(blocks).columns["id"][0].as_py() == 1
    blocks.close()
    assert ends.get(timeout=60) == "at rest"


def test_lines_and_tables_as_text(tmp_path: pathlib.Path):
    (tmp_path / "a.csv").write_text("id,name\n" + "".join(f"{one},n{one}\n" for one in range(200_000)))
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"id,name\n7,seven\n"))
    table = data.read_csv(str(tmp_path / "a.csv"))
    assert table.take(2) == [{"id": 0, "name": "n0"}, {"id": 1, "name": "n1"}]
    assert table.count() == 200_000 and table.num_blocks() > 1
    assert data.read_csv([tmp_path / "a.csv", tmp_path / "b.csv.gz"], columns=["id"]).sum("id") == sum(range(200_000)) + 7
    (tmp_path / "c.jsonl").write_text("".join(json.dumps({"id": one, "list": [one]}) + "\n" for one in range(90_000)))
    lines = data.read_json(str(tmp_path / "c.jsonl"))
    assert ids(lines) == list(range(90_000)) and lines.num_blocks() > 1
    (tmp_path / "d.json").write_text(json.dumps([{"id": 1}, {"id": 2}]))
    assert ids(data.read_json(str(tmp_path / "d.json"))) == [1, 2]
    (tmp_path / "e.txt").write_text("one\n\ntwo\r\nthree")
    assert [row["text"] for row in data.read_text(str(tmp_path / "e.txt"))] == ["one", "two", "three"]
    assert data.read_text(str(tmp_path / "e.txt"), drop_empty_lines=False).count() == 4


def test_arrays_files_and_images(tmp_path: pathlib.Path):
    np.save(tmp_path / "a.npy", np.arange(20).reshape(10, 2))
    assert data.read_numpy(str(tmp_path / "a.npy")).take(10)[9]["data"].tolist() == [18, 19]
    folder = tmp_path / "some"
    folder.mkdir()
    for one in range(100):
        (folder / f"{one:03}.bin").write_bytes(bytes([one]))
    (folder / "_SUCCESS").write_bytes(b"")
    binary = data.read_binary_files(str(folder), include_paths=True)
    assert binary.count() == 100 and binary.take(100)[99] == {"bytes": b"c", "path": str(folder / "099.bin")}
    image = pytest.importorskip("PIL.Image")
    for number, height in enumerate((4, 6)):
        image.fromarray(np.full((height, 5, 3), number, np.uint8)).save(tmp_path / f"{number}.png")
    assert [row["image"].shape for row in data.read_images(f"{tmp_path}/*.png")] == [(4, 5, 3), (6, 5, 3)]
    assert data.read_images(f"{tmp_path}/*.png", size=(8, 7), mode="L").take_batch(2)["image"].shape == (2, 8, 7)


def test_a_plan_travels_as_a_plan(parquet: pathlib.Path):
    dataset = data.read_parquet(str(parquet)).map(lambda row: {"id": row["id"] + 1}).random_shuffle(seed=1)
    dataset.count()
    text = cloudpickle.dumps(dataset)
    assert len(text) < 8000
    assert ids(pickle.loads(text)) == ids(dataset)


def test_what_is_imported():
    check = "import sys, rtrain; a = 'pyarrow' in sys.modules; import rtrain.data; print(a, 'torch' in sys.modules, 'pandas' in sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {check}"], capture_output=True, text=True, check=True
    )
    assert process.stdout.split() == ["False", "False", "False"]


def test_without_pyarrow_the_message_says_what_to_install():
    check = "import sys; sys.modules['pyarrow'] = None\nimport rtrain\ntry:\n    rtrain.data\nexcept ImportError as error:\n    print(error)"
    process = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}\n{check}"], capture_output=True, text=True, check=True
    )
    assert "pip install 'pyarrow>=14' numpy" in process.stdout


def test_files_that_are_not_there(tmp_path: pathlib.Path, parquet: pathlib.Path):
    with pytest.raises(FileNotFoundError, match="read_parquet: /nowhere/x does not exist here.*lambda: rtrain.data.read_parquet"):
        data.read_parquet("/nowhere/x")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"the folder .*/empty has no file with the suffix .parquet or .pq; it is empty"):
        data.read_parquet(str(tmp_path / "empty"))
    with pytest.raises(FileNotFoundError, match=r"has no file with the suffix .*; it has 3 other files \(part-"):
        data.read_csv(str(parquet))
    with pytest.raises(FileNotFoundError, match=r"nothing fits .*/\*.csv"):
        data.read_csv(f"{tmp_path}/*.csv")
    with pytest.raises(KeyError, match="has no column 'label'; it has: id, text"):
        data.read_parquet(str(parquet), columns=["label"])
    with pytest.raises(TypeError, match=r"read_parquet\(\) has no argument 'colums'"):
        data.read_parquet(str(parquet), colums=["id"])


def test_files_that_are_not_as_they_should_be(tmp_path: pathlib.Path):
    (tmp_path / "bad.parquet").write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match=r"read_parquet: .*/bad.parquet: "):
        data.read_parquet(str(tmp_path / "bad.parquet")).count()
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n3\n")
    with pytest.raises(ValueError, match=r"read_csv: .*/bad.csv: .*Expected 2 columns, got 1"):
        data.read_csv(str(tmp_path / "bad.csv")).take_all()
    (tmp_path / "bad.json").write_text('{"a": 1}\n{"a": \n')
    with pytest.raises(ValueError, match=r"read_json: .*/bad.json: "):
        data.read_json(str(tmp_path / "bad.json")).take_all()
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(ValueError, match=r"read_text: .*/bad.txt: .*utf-8"):
        data.read_text(str(tmp_path / "bad.txt")).take_all()
    np.save(tmp_path / "bad.npy", np.array([{}, {}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"read_numpy: .*/bad.npy: "):
        data.read_numpy(str(tmp_path / "bad.npy")).take_all()


def test_a_file_that_changed_while_it_was_read(parquet: pathlib.Path):
    from pyarrow import parquet as files

    dataset = data.read_parquet(str(parquet))
    assert dataset.count() == 1000
    files.write_table(pa.table({"id": range(10), "text": ["x"] * 10}), parquet / "part-0.parquet")
    with pytest.raises((RuntimeError, OSError), match=r"part-0.parquet"):
        dataset.take_all()
