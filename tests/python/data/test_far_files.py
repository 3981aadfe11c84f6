"""Files of a remote file system: fetched in parts side by side and ahead, again where an answer is slow or lost."""

from __future__ import annotations

import gzip
import http.server
import io
import multiprocessing
import os
import threading
import time

import numpy as np
import pyarrow as pa
import pytest
import rtrain.data as data
from pyarrow import fs, parquet
from rtrain.data._far import _ahead, _parts

ROWS, GROUP = 240_000, 10_000


class Store(fs.FileSystemHandler):
    """Local files as an object store: each read takes `latency` seconds, and the bytes come at `rate` a second."""

    def __init__(self, latency=0.0, rate=1e12):
        self.local = fs.LocalFileSystem()
        self.latency, self.rate = latency, rate
        self.reads: list[tuple[str, int, int]] = []  # path, offset, bytes
        self.before = lambda number, offset: None  # called before the read with this number

    def get_type_name(self):
        return "store"

    def __eq__(self, other):
        return self is other

    def normalize_path(self, path):
        return path

    def get_file_info(self, paths):
        return self.local.get_file_info(paths)

    def get_file_info_selector(self, selector):
        return self.local.get_file_info(selector)

    def open_input_file(self, path):
        store = self

        class Opened(io.FileIO):
            def read(self, size=-1):
                offset = self.tell()
                store.before(len(store.reads), offset)
                content = super().read(size)
                store.reads.append((path, offset, len(content)))
                threading.Event().wait(store.latency + len(content) / store.rate)
                return content

        return pa.PythonFile(Opened(path), mode="r")

    def open_input_stream(self, path):
        return self.open_input_file(path)

    def _refuse(self, *_args, **_more):
        raise NotImplementedError

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = _refuse
    move = copy_file = open_output_stream = open_append_stream = _refuse


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    path = tmp_path_factory.mktemp("far") / "numbers.parquet"
    table = pa.table(
        {"id": np.arange(ROWS), "a": np.random.default_rng(0).random(ROWS), "text": [f"row {row}" for row in range(ROWS)]}
    )
    parquet.write_table(table, path, row_group_size=GROUP)
    return path


@pytest.fixture
def quick(monkeypatch):
    """A second request follows soon."""
    monkeypatch.setattr(_parts, "_SECOND_AFTER_S", 0.3)
    monkeypatch.setattr(_parts, "_PAUSE_S", 0.01)


def far(store):
    return fs.PyFileSystem(store)


def ids(dataset):
    return np.concatenate([batch["id"] for batch in dataset.iter_batches(batch_size=4096)])


@pytest.mark.parametrize("order", ["as written", "random_shuffle", "randomize_block_order"])
def test_rows_are_those_of_a_local_file_and_groups_come_side_by_side(numbers, order):
    store = Store(latency=0.1)
    datasets = [data.read_parquet(str(numbers), filesystem=far(store)), data.read_parquet(str(numbers))]
    if order != "as written":
        datasets = [getattr(dataset, order)(seed=3) for dataset in datasets]
    before = time.monotonic()
    remote = ids(datasets[0])
    took = time.monotonic() - before
    assert np.array_equal(remote, ids(datasets[1])) and len(remote) == ROWS
    one_by_one = len(store.reads) * store.latency
    assert len(store.reads) >= ROWS // GROUP and took < 0.5 * one_by_one, (took, one_by_one)


def test_only_the_columns_that_are_read_are_fetched(numbers):
    store = Store()
    assert len(ids(data.read_parquet(str(numbers), columns=["id"], filesystem=far(store)))) == ROWS
    columns = [parquet.read_metadata(numbers).row_group(group).column(0) for group in range(ROWS // GROUP)]
    wanted = sum(column.total_compressed_size for column in columns)
    footer = numbers.stat().st_size - max(column.file_offset for column in columns)
    assert sum(size for _, _, size in store.reads) < wanted + 3 * footer + (64 << 10)


def test_no_more_is_fetched_ahead_than_the_bound(numbers, monkeypatch):
    monkeypatch.setattr(_ahead, "_BYTES", 500_000)
    store = Store()
    dataset = data.read_parquet(str(numbers), filesystem=far(store))
    dataset.count()
    store.reads.clear()
    batches = iter(dataset.iter_batches(batch_size=1000, prefetch_batches=0))
    next(batches)
    threading.Event().wait(0.3)
    group = numbers.stat().st_size / (ROWS / GROUP)
    assert sum(size for _, _, size in store.reads) < 500_000 + 3 * group
    assert len([None for _ in batches]) == ROWS // 1000 - 1


def test_a_request_that_hangs_is_sent_again(numbers, quick):
    store, hangs = Store(), threading.Event()
    hung = []

    def before(number, offset):
        if not hung and 0 < offset < 1 << 20:
            hung.append(offset)
            hangs.wait(30)

    store.before = before
    started = time.monotonic()
    try:
        assert len(ids(data.read_parquet(str(numbers), filesystem=far(store)))) == ROWS
        assert hung and time.monotonic() - started < 10
    finally:
        hangs.set()


def test_a_file_system_that_never_answers_is_an_error_that_names_file_and_bytes(numbers, quick, monkeypatch):
    store, hangs = Store(), threading.Event()
    dataset = data.read_parquet(str(numbers), filesystem=far(store))
    dataset.count()
    store.before = lambda number, offset: hangs.wait(30)
    monkeypatch.setattr(dataset._node.source.parts, "deadline_s", 1.0)
    started = time.monotonic()
    try:
        with pytest.raises(OSError, match=r"numbers\.parquet: the file system has not sent bytes \d+ to \d+ within 1 s") as error:
            ids(dataset)
        assert "read_parquet" in str(error.value) and time.monotonic() - started < 10
    finally:
        hangs.set()


@pytest.mark.parametrize("failures", [2, 100])
def test_errors_of_the_network_are_tried_again_a_few_times(numbers, quick, failures):
    store = Store()
    failed = []

    def before(number, offset):
        if offset > 4 and len(failed) < failures:
            failed.append(offset)
            raise OSError("connection reset by peer")

    dataset = data.read_parquet(str(numbers), filesystem=far(store))
    assert dataset.count() == ROWS
    store.before = before
    if failures == 2:
        assert len(ids(dataset)) == ROWS and len(failed) == 2
        return
    with pytest.raises(OSError, match=r"read_parquet: .*numbers\.parquet: .*connection reset by peer"):
        ids(dataset)
    assert len(failed) <= 4 * 2 * _parts.CONNECTIONS


def test_every_kind_of_file_is_read_as_a_local_one(tmp_path):
    lines = [f'{{"id": {row}, "text": "row {row}"}}' for row in range(30_000)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    (tmp_path / "a.csv.gz").write_bytes(
        gzip.compress(("id,b\n" + "\n".join(f"{row},{row / 2}" for row in range(30_000))).encode())
    )
    (tmp_path / "a.txt").write_text("\n".join(lines) * 10)
    np.save(tmp_path / "a.npy", np.arange(600_000).reshape(-1, 3))
    for number in range(5):
        (tmp_path / f"{number}.bin").write_bytes(bytes([number]) * 1000)
    for read, name in [
        ("json", "a.jsonl"),
        ("csv", "a.csv.gz"),
        ("text", "a.txt"),
        ("numpy", "a.npy"),
        ("binary_files", "*.bin"),
    ]:
        reader = getattr(data, f"read_{read}")
        local, remote = reader(str(tmp_path / name)), reader(str(tmp_path / name), filesystem=far(Store()))
        assert remote.take(40) == local.take(40) if read != "numpy" else True
        assert remote.to_pandas().equals(local.to_pandas()) if read != "numpy" else remote.count() == local.count() == 200_000


def test_a_forked_process_reads_on(numbers):
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("this system does not fork")
    dataset = data.read_parquet(str(numbers), filesystem=far(Store()))
    assert len(ids(dataset)) == ROWS
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, str(len(ids(dataset))).encode())
        finally:
            os._exit(0)
    os.close(writer)
    deadline = time.monotonic() + 60
    ended = 0
    while not ended and time.monotonic() < deadline:
        ended, _ = os.waitpid(child, os.WNOHANG)
        threading.Event().wait(0.05)
    if not ended:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert os.read(reader, 100) == str(ROWS).encode()
    os.close(reader)


def test_threads_that_fetch_end_when_nothing_is_to_be_fetched(numbers, monkeypatch):
    monkeypatch.setattr(_parts, "_IDLE_S", 0.2)
    batches = iter(data.read_parquet(str(numbers), filesystem=far(Store())).iter_batches(batch_size=1000))
    next(batches)
    del batches
    deadline = time.monotonic() + 10
    while [thread for thread in threading.enumerate() if thread.name.startswith("rtrain-fetch")]:
        assert time.monotonic() < deadline, threading.enumerate()
        threading.Event().wait(0.05)


class ObjectStore(http.server.ThreadingHTTPServer):
    """The part of S3 that reads one object, without signatures. Each answer comes after `latency` seconds."""

    daemon_threads = True

    def __init__(self, content, latency):
        self.content, self.latency = content, latency
        self.ranges: list[tuple[int, int]] = []
        self.hangs = threading.Event()
        self.hung = False
        super().__init__(("127.0.0.1", 0), _Answer)


class _Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def _head(self):
        store, size = self.server, len(self.server.content)
        start, stop = 0, size
        if "range" in self.headers:
            first, last = self.headers["range"].removeprefix("bytes=").split("-")
            start, stop = int(first), min(int(last) + 1, size)
            store.ranges.append((start, stop))
            if start > 0 and stop - start > 50_000 and not store.hung:
                store.hung = True
                store.hangs.wait(30)
        threading.Event().wait(store.latency)
        self.send_response(206 if "range" in self.headers else 200)
        self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
        for name, value in [
            ("Content-Length", str(stop - start)),
            ("ETag", '"1"'),
            ("Last-Modified", "Sat, 28 Nov 2026 10:00:00 GMT"),
        ]:
            self.send_header(name, value)
        self.end_headers()
        return start, stop

    def do_HEAD(self):  # noqa: N802
        self._head()

    def do_GET(self):  # noqa: N802
        start, stop = self._head()
        self.wfile.write(self.server.content[start:stop])


def test_an_object_store_is_read_by_several_connections_and_a_range_that_hangs_is_asked_for_again(numbers, quick):
    s3 = pytest.importorskip("pyarrow._s3fs").S3FileSystem
    store = ObjectStore(numbers.read_bytes(), latency=0.1)
    server = threading.Thread(target=store.serve_forever, daemon=True)
    server.start()
    try:
        system = s3(anonymous=True, endpoint_override=f"127.0.0.1:{store.server_port}", region="us-east-1", scheme="http")
        before = time.monotonic()
        dataset = data.read_parquet("bucket/numbers.parquet", filesystem=system)
        assert np.array_equal(ids(dataset), np.arange(ROWS))
        took = time.monotonic() - before
    finally:
        store.hangs.set()
        store.shutdown()
        store.server_close()
    assert store.hung and took < 0.6 * len(store.ranges) * store.latency, (took, len(store.ranges))
