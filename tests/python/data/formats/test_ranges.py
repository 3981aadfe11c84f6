"""Large text files are read by ranges: each row lies in one range, and has the values that reading the whole file gives."""

from __future__ import annotations

import io
import itertools
import json
import random

import pyarrow as pa
import pytest
import rtrain.data as data
from pyarrow import csv as arrow_csv, json as arrow_json
from rtrain.data._arrow._ranges import QuotedStarts, Range, line_start
from rtrain.data._formats import _lines

PARTS = (2, 3, 8)


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch):
    """Small files are divided, too, and read in small steps."""
    monkeypatch.setattr(_lines, "LEAST_BYTES", 64)
    monkeypatch.setattr("rtrain.data._arrow._ranges._CHUNK", 97)


def source_of(dataset):
    node = dataset._node
    while node.children:
        node = node.children[0]
    return node.source


def rows_of(source, place):
    return [row for block in source.open(place, 0) for row in block.dicts()]


def rows_by_ranges(dataset, parts):
    source = source_of(dataset)
    places = [source.part_of(0, part, parts) for part in range(parts)]
    return None if None in places else [rows_of(source, place) for place in places]


def assert_equal_to_whole(dataset, *, divided=True):
    whole = rows_of(source_of(dataset), 0)
    for parts in PARTS:
        ranges = rows_by_ranges(dataset, parts)
        assert (ranges is not None) == divided
        if ranges is not None:
            assert list(itertools.chain(*ranges)) == whole
            assert sum(map(bool, ranges)) > parts // 2


def csv_text(seed, rows, *, quotes):
    draw = random.Random(seed)
    texts = [
        "plain",
        "",
        "ü",
        *(['"with, comma"', '"two\nlines"', '"a ""b"" c"', '""', '"\n\n"', '"x,""\n"""'] if quotes else []),
    ]
    end = draw.choice(["\n", "\r\n"])
    lines = [f"{number},{draw.choice(texts)},{number / 4}{end}" for number in range(rows)]
    return f"id,text,x{end}" + "".join(lines)


# -- each format -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("quotes", [False, True])
def test_csv(tmp_path, seed, quotes):
    (tmp_path / "a.csv").write_text(csv_text(seed, 300, quotes=quotes), newline="")
    dataset = data.read_csv(tmp_path / "a.csv")
    assert_equal_to_whole(dataset)
    assert_equal_to_whole(data.read_csv(tmp_path / "a.csv", include_paths=True))
    assert_equal_to_whole(
        data.read_csv(tmp_path / "a.csv", convert_options=arrow_csv.ConvertOptions(include_columns=["x", "id"]))
    )


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_text(tmp_path, mark):
    content = "".join(f"line {number}\n" + "\n" * (number % 3 == 0) + "\ufeff\n" * (number % 50 == 0) for number in range(400))
    (tmp_path / "a.txt").write_bytes(mark + content.encode())
    assert_equal_to_whole(data.read_text(tmp_path / "a.txt"))
    assert_equal_to_whole(data.read_text(tmp_path / "a.txt", drop_empty_lines=False))


def test_json_lines(tmp_path):
    rows = [{"id": number, "when": "2026-01-01" if number < 300 else "soon", "list": [number]} for number in range(600)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert_equal_to_whole(data.read_json(tmp_path / "a.jsonl"))


def test_types_are_those_of_the_first_rows(tmp_path):
    """A text column whose later part has numbers alone, and a column of one value with empty rows."""
    (tmp_path / "a.csv").write_text("key\n" + "".join(f"{'k' * (number < 9)}{number}\n" for number in range(500)))
    dataset = data.read_csv(tmp_path / "a.csv")
    assert_equal_to_whole(dataset)
    assert {type(row["key"]) for row in rows_by_ranges(dataset, 8)[7]} == {str}
    (tmp_path / "b.csv").write_text("key\n" + "".join("\n" if number % 7 == 0 else f"{number}\n" for number in range(500)))
    assert_equal_to_whole(data.read_csv(tmp_path / "b.csv"))
    assert len(rows_of(source_of(data.read_csv(tmp_path / "b.csv")), 0)) == 500


# -- files that are read as a whole ------------------------------------------------------------------------------------
def test_files_without_ranges(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps([{"id": number} for number in range(300)]))
    assert_equal_to_whole(data.read_json(tmp_path / "a.json"), divided=False)
    (tmp_path / "a.csv").write_text(csv_text(1, 300, quotes=True))
    for options in (
        {"parse_options": arrow_csv.ParseOptions(escape_char="\\")},
        {"parse_options": arrow_csv.ParseOptions(double_quote=False, newlines_in_values=True)},
        {"read_options": arrow_csv.ReadOptions(skip_rows=1)},
    ):
        assert source_of(data.read_csv(tmp_path / "a.csv", **options)).part_of(0, 0, 2) is None
    lines = arrow_json.ParseOptions(newlines_in_values=True)
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n' * 300)
    assert source_of(data.read_json(tmp_path / "a.jsonl", parse_options=lines)).part_of(0, 0, 2) is None
    with pa.CompressedOutputStream(str(tmp_path / "a.csv.gz"), "gzip") as file:
        file.write(csv_text(1, 300, quotes=False).encode())
    assert source_of(data.read_csv(tmp_path / "a.csv.gz")).part_of(0, 0, 2) is None


def test_no_row_begins_behind_a_quote_that_only_a_parser_understands(tmp_path):
    """5" is a size here, so that counting quotes would take texts for the gaps between them."""
    lines = [f"{number},{number}\n" for number in range(200)]
    lines[80] = '80,5" pipe\n'
    lines[120] = '120,"a\n'
    lines[121] = 'b"\n'
    (tmp_path / "a.csv").write_text("id,text\n" + "".join(lines))
    dataset = data.read_csv(tmp_path / "a.csv")
    whole = rows_of(source_of(dataset), 0)
    for parts in PARTS:
        ranges = rows_by_ranges(dataset, parts)
        assert list(itertools.chain(*ranges)) == whole
    assert not rows_by_ranges(dataset, 8)[7]
    assert any(row["text"] == "a\nb" for row in whole)


@pytest.mark.parametrize("seed", range(40))
def test_starts_are_where_a_parser_finds_rows(seed):
    draw = random.Random(seed)
    values = ["a", "", '"q"', '"l\nm"', '"c,d"', '"e""f"', '"""\n"', '5"', ' "x"', '"y"z']
    weights = [4] * 7 + [0.05 * (seed % 2)] * 3
    rows = [",".join(draw.choices(values, weights, k=3)) + draw.choice(["\n", "\r\n"]) for _ in range(120)]
    content = "".join(rows).encode()
    starts, state = {0}, "begins"  # as Arrow's parser reads quotes: they mean something at the beginning of a value alone
    for place, byte in enumerate(content):
        letter = chr(byte)
        if state == "quoted":
            state = "quote" if letter == '"' else "quoted"
        elif state == "quote" and letter == '"':
            state = "quoted"
        elif letter in ",\n\r":
            state = "begins"
            starts |= {place + 1} if letter == "\n" else set()
        elif state == "begins":
            state = "quoted" if letter == '"' else "plain"
        elif state == "quote":
            state = "plain"
    opened, finder = io.BytesIO(content), QuotedStarts('"', ",")
    order = list(range(1, len(content), 13))
    draw.shuffle(order)
    for byte in order:
        start = finder(opened, byte)
        right = min((place for place in starts if place >= byte), default=len(content))
        assert start in (right, len(content))
        assert start == right or seed % 2
    assert line_start(io.BytesIO(b"ab\ncd"), 1) == 3 and line_start(io.BytesIO(b"ab\ncd"), 4) == 5
    assert line_start(io.BytesIO(b"ab\ncd"), 3) == 3


# -- streams -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("ranks", [2, 8])
def test_each_rank_parses_its_own_lines(tmp_path, monkeypatch, ranks):
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"id": number, "pad": "x" * 100}) + "\n" for number in range(20_000)))
    monkeypatch.setattr(_lines, "_CHUNK", 1 << 14)
    parsed = []
    tables = _lines._json.tables

    def counting(chunks, options, head=b""):
        parsed.append(len(head))
        return tables((parsed.append(len(chunk)) or chunk for chunk in chunks), options, head)

    monkeypatch.setattr(_lines._json, "tables", counting)
    shares = [
        data.read_json(tmp_path / "a.jsonl").rtrain_share_of_run(rank, ranks, 7, equal=True, streams=ranks)
        for rank in range(ranks)
    ]
    size = (tmp_path / "a.jsonl").stat().st_size
    for share in shares[:1]:  # without the other ranks' processes this one makes their rows, too: once each
        rows = [row for batch in share.iter_batches(batch_size=50, prefetch_batches=0) for row in batch["id"].tolist()]
    assert len(rows) == 20_000 // ranks
    assert sum(parsed) < size + ranks * (3 << 14)


def test_errors_name_the_line_of_the_file(tmp_path):
    lines = [json.dumps({"id": number}) for number in range(400)]
    lines[350] = '{"id": '
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r"a.jsonl: line 351"):
        rows_by_ranges(data.read_json(tmp_path / "a.jsonl"), 4)
    texts = ["id,x"] + [f"{number},1" for number in range(4000)]
    texts[3500] = "3499,many"
    (tmp_path / "a.csv").write_text("\n".join(texts))
    small = arrow_csv.ReadOptions(block_size=1 << 12)
    with pytest.raises(ValueError, match=r"(?i)a.csv: .*column 'x'.*row #3501"):
        rows_by_ranges(data.read_csv(tmp_path / "a.csv", read_options=small), 4)


def test_a_range_that_no_line_begins_in_is_empty(tmp_path):
    (tmp_path / "a.txt").write_text("short\n" + "long" * 1000 + "\nend\n")
    ranges = rows_by_ranges(data.read_text(tmp_path / "a.txt"), 8)
    assert [len(rows) for rows in ranges] == [2, 0, 0, 0, 0, 0, 0, 1]
    assert Range(0, 1, 8).bytes_of(io.BytesIO(b""), 0, line_start) == (0, 0)
