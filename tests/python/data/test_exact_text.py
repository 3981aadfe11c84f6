"""Values of CSV, JSON and text files are read exactly, or an error names file, row and column."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import pathlib
import random

import pyarrow as pa
import pytest
import rtrain.data as data
from pyarrow import csv as arrow_csv, json as arrow_json
from rtrain.data._arrow import _csv

MANY = 300_000  # number of rows that fill more than one block


def of_csv(path: pathlib.Path, content: str | bytes, **options) -> list[dict]:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return data.read_csv(str(path), **options).take_all()


def of_json(path: pathlib.Path, content: str | bytes, **options) -> list[dict]:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return data.read_json(str(path), **options).take_all()


# -- CSV --------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "value",
    ["007", "-007", "00", "0x10", "12345678901234567890", "9007199254740993.5"[:16] + "\n1.5", "1e400"],
)
def test_a_number_that_would_change_makes_its_column_text(tmp_path, value):
    rows = of_csv(
        tmp_path / "a.csv",
        f"id,x\n{value}\n".replace("\n1.5", ",1\n1.5").replace("\n", ",1\n").replace("x,1", "x").replace(",1,1", ",1"),
    )
    assert rows[0]["id"] == value.split("\n")[0] and rows[0]["x"] == 1


def test_numbers_that_do_not_change_stay_numbers(tmp_path):
    rows = of_csv(tmp_path / "a.csv", "a,b,c,d,e\n0,0.5,-1,9007199254740993,1e20\n100,-0.25,+7,-5,2.5\n")
    assert rows[0] == {"a": 0, "b": 0.5, "c": -1, "d": 9007199254740993, "e": 1e20}
    assert rows[1] == {"a": 100, "b": -0.25, "c": 7, "d": -5, "e": 2.5}


@pytest.mark.parametrize(
    ("first", "later", "why"),
    [
        ("1,2", "007,2", "row 300002, column 'a': '007' has a zero in front"),
        ("1,2.5", "1,9007199254740993", "row 300002, column 'b': '9007199254740993' is no float exactly"),
        ("1,2", "x,2", "In column 'a': Row #300002: CSV conversion error to int64: invalid value 'x'"),
        ("1,2", "1,2.5", "In column 'b': Row #300002: CSV conversion error to int64: invalid value '2.5'"),
        ("1,2020-01-01", "1,never", "In column 'b': Row #300002"),
        ("1,2", "3", "Row #300002: Expected 2 columns, got 1: 3"),
        ("z,2", b"\xe9,2", "In column 'a': Row #300002: CSV conversion error to string: invalid UTF8 data"),
    ],
)
def test_a_later_value_that_does_not_fit_is_an_error(tmp_path, first, later, why):
    later_bytes = later if isinstance(later, bytes) else later.encode()
    with pytest.raises(ValueError, match="a.csv: ") as caught:
        of_csv(tmp_path / "a.csv", b"a,b\n" + f"{first}\n".encode() * MANY + later_bytes + b"\n")
    assert why in str(caught.value)
    assert "column_types" in str(caught.value) or "Expected" in why


def test_types_that_the_user_sets_are_taken(tmp_path):
    types = arrow_csv.ConvertOptions(column_types={"a": pa.int64(), "b": pa.binary()})
    assert of_csv(tmp_path / "a.csv", b"a,b\n007,\xe9\n", convert_options=types) == [{"a": 7, "b": b"\xe9"}]
    assert types.include_columns == []
    data.read_csv(str(tmp_path / "a.csv"), columns=["a"], convert_options=types)
    assert types.include_columns == []  # the user's object is unchanged


def test_a_zero_in_front_is_seen_wherever_a_block_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(_csv, "_BLOCK", 64)
    for before in range(70):
        content = f"a,b\nfirst,1\n{'x' * before},007"
        with contextlib.suppress(ValueError):  # after the first block it is an error
            assert of_csv(tmp_path / "a.csv", content)[1]["b"] == "007"


def test_dates_do_not_make_zeros_in_front(tmp_path):
    rows = of_csv(tmp_path / "a.csv", "a,b,c\n2020-01-02,01:02:03,05/06/2020\n" * 1 + "2020-01-03,01:02:04,05/07/2020\n")
    assert str(rows[0]["a"]) == "2020-01-02" and rows[0]["c"] == "05/06/2020"


def test_text_that_is_not_utf8_is_an_error_with_its_place(tmp_path):
    with pytest.raises(ValueError, match=r"a.csv: row 3, column 'b': b'caf\\xe9' is no UTF-8; ReadOptions\(encoding='latin-1'\)"):
        of_csv(tmp_path / "a.csv", b"a,b\n1,x\n2,caf\xe9\n")
    latin = arrow_csv.ReadOptions(encoding="latin-1")
    assert of_csv(tmp_path / "a.csv", b"a,b\n1,caf\xe9\n", read_options=latin) == [{"a": 1, "b": "café"}]
    with pytest.raises(ValueError, match=r"a.csv: .*ReadOptions\(encoding="):
        of_csv(tmp_path / "a.csv", "a,b\n1,x\n".encode("utf-16"))
    assert of_csv(tmp_path / "a.csv", b"\xef\xbb\xbfa,b\n1,x\n") == [{"a": 1, "b": "x"}]


def test_a_row_longer_than_a_block_is_read(tmp_path):
    long = "x" * 3_000_000
    content = "id,text\n" + "1,short\n" * MANY + f"2,{long}\n" + "3,short\n" * 10
    rows = of_csv(tmp_path / "a.csv", content)
    assert [row["id"] for row in rows] == [1] * MANY + [2] + [3] * 10 and rows[MANY]["text"] == long
    again = data.read_csv(str(tmp_path / "a.csv"))
    assert again.count() == MANY + 11 and again.take_all() == rows


@pytest.mark.parametrize("seed", range(20))
def test_newlines_in_quotes_are_those_of_the_csv_module(tmp_path, seed, monkeypatch):
    monkeypatch.setattr(_csv, "_BLOCK", 100)
    chance = random.Random(seed)
    values = ["x\ny", "\n", "a\n\nb", 'q"q\n', "plain", "007", "12345678901234567890", "1.5", "p,q", "\r\n"]
    rows = [["first", "z"], *([chance.choice(values), "z" * chance.randint(1, 150)] for _ in range(60))]
    text = io.StringIO()
    csv.writer(text, lineterminator=chance.choice(["\n", "\r\n"])).writerows([["a", "b"], *rows])
    assert [list(row.values()) for row in of_csv(tmp_path / "a.csv", text.getvalue())] == rows


def test_a_quoted_newline_of_one_column_at_a_blocks_end(tmp_path, monkeypatch):
    for block in range(20, 60):
        monkeypatch.setattr(_csv, "_BLOCK", block)
        rows = of_csv(tmp_path / "a.csv", "a\n" + "x\n" * 9 + '"l\nm"\n' * 20)
        assert [row["a"] for row in rows] == ["x"] * 9 + ["l\nm"] * 20
        own = arrow_csv.ParseOptions(delimiter=";")
        assert len(of_csv(tmp_path / "a.csv", "a\n" + '"l\nm"\n' * 20, parse_options=own)) == 20
        assert not own.newlines_in_values


def test_a_quote_that_is_not_closed_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="a.csv: row 3, column 'b': a quote is opened and not closed"):
        of_csv(tmp_path / "a.csv", 'a,b\n1,x\n2,"y\n3,z\n4,w\n')
    assert of_csv(tmp_path / "a.csv", 'a,b\n1,5" pipe\n')[0]["b"] == '5" pipe'


def test_lines_of_windows_and_a_last_line_without_an_end(tmp_path):
    assert of_csv(tmp_path / "a.csv", "a,b\r\n1,x\r\n2,y") == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert of_json(tmp_path / "a.json", '{"a": 1}\r\n\r\n{"a": 2}') == [{"a": 1}, {"a": 2}]
    (tmp_path / "a.txt").write_bytes(b"x\r\n  \r\ny\n ")
    assert [row["text"] for row in data.read_text(str(tmp_path / "a.txt"))] == ["x", "  ", "y", " "]


def test_an_empty_line_of_one_column_is_a_row(tmp_path):
    assert of_csv(tmp_path / "a.csv", "a\n1\n\n3\n") == [{"a": 1}, {"a": None}, {"a": 3}]
    assert of_csv(tmp_path / "a.csv", "a\nx\n\n\ny") == [{"a": "x"}, {"a": ""}, {"a": ""}, {"a": "y"}]
    assert of_csv(tmp_path / "a.csv", "\na\n1\n") == [{"a": 1}]
    assert of_csv(tmp_path / "a.csv", "a,b\n1,2\n\n3,4\n", columns=["b"]) == [{"b": 2}, {"b": 4}]
    ignoring = arrow_csv.ParseOptions(ignore_empty_lines=True)
    assert of_csv(tmp_path / "a.csv", "a\n1\n\n3\n", parse_options=ignoring) == [{"a": 1}, {"a": 3}]
    data.from_items([{"a": 1}, {"a": None}, {"a": 3}]).write_csv(str(tmp_path / "written"))
    assert data.read_csv(str(tmp_path / "written")).take_all() == [{"a": 1}, {"a": None}, {"a": 3}]


def test_columns_separated_by_tabs(tmp_path):
    assert of_csv(tmp_path / "a.tsv", "a\tb\n1,5\tx\n") == [{"a": "1,5", "b": "x"}]
    assert of_csv(tmp_path / "a.tsv.gz", gzip.compress(b"a\tb\n1\tx\n")) == [{"a": 1, "b": "x"}]
    semicolon = arrow_csv.ParseOptions(delimiter=";")
    assert of_csv(tmp_path / "b.csv", "a;b\n1;007\n", parse_options=semicolon) == [{"a": 1, "b": "007"}]


def test_pieces_of_text_files_have_at_most_65536_rows(tmp_path):
    (tmp_path / "a.csv").write_text("a\n" + "1\n" * 400_000)
    (tmp_path / "a.json").write_text('{"a":1}\n' * 200_000)
    (tmp_path / "a.txt").write_text("1\n" * 400_000)
    for rows in (
        data.read_csv(str(tmp_path / "a.csv")),
        data.read_json(str(tmp_path / "a.json")),
        data.read_text(str(tmp_path / "a.txt")),
    ):
        rows.count()
        assert max(max(group.pieces) for group in rows._node.source.groups()) <= 1 << 16


def test_a_carriage_return_at_a_blocks_end_loses_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(_csv, "_BLOCK", 64)
    for width in range(70):
        value = "x" * width + "\r\ny"
        assert of_csv(tmp_path / "a.csv", f'a,b\nfirst,1\n"{value}",2\n')[1] == {"a": value, "b": 2}


def test_utf16_is_read_with_its_encoding(tmp_path):
    utf16 = arrow_csv.ReadOptions(encoding="utf-16")
    assert of_csv(tmp_path / "a.csv", "id,b\n007,ü\n".encode("utf-16"), read_options=utf16) == [{"id": "007", "b": "ü"}]


# -- JSON -------------------------------------------------------------------------------------------------------------------
def test_a_text_stays_a_text_in_all_parts_of_a_file(tmp_path):
    content = '{"t": "never", "s": {"u": "x"}}\n' + '{"t": "2020-01-01", "s": {"u": "2020-01-01"}}\n' * 60_000
    rows = of_json(tmp_path / "a.json", content)
    assert rows[-1] == {"t": "2020-01-01", "s": {"u": "2020-01-01"}} and len(rows) == 60_001
    dates = '{"t": "2020-01-01"}\n' * 60_000
    assert str(of_json(tmp_path / "a.json", dates)[-1]["t"]) == "2020-01-01 00:00:00"
    with pytest.raises(ValueError, match=r"a.json: line 60001: Failed to convert JSON to timestamp.*never.*explicit_schema"):
        of_json(tmp_path / "a.json", dates + '{"t": "never"}\n')


def test_keys_come_and_go_between_the_parts_of_a_file(tmp_path):
    lines = ['{"caf\\u00e9": "x", "n": 1}'] * 50_000 + ['{"n": 2, "late": "y"}'] * 50_000 + ['{"caf\\u00e9": "z", "n": 3}']
    (tmp_path / "a.json").write_text("\n".join(lines))
    blocks = list(data.read_json(str(tmp_path / "a.json"))._node.source.blocks(0, 0))
    rows = [row for block in blocks for row in block.dicts()]
    assert [row["n"] for row in rows] == [1] * 50_000 + [2] * 50_000 + [3]
    assert rows[0]["café"] == "x" and rows[-1]["café"] == "z" and rows[99_999]["late"] == "y"


def test_a_time_keeps_its_zone(tmp_path):
    zoned = "2020-01-01T02:00:00+02:00"
    assert of_json(tmp_path / "a.json", f'{{"t": "{zoned}", "l": ["2020-01-01T02:00:00Z"]}}\n') == [
        {"t": zoned, "l": ["2020-01-01T02:00:00Z"]}
    ]
    plain = '{"t": "2020-01-01T02:00:00"}\n' * 60_000
    with pytest.raises(ValueError, match=r"a.json: line 60001, key 't': '2020-01-01T02:00:00Z' has a zone"):
        of_json(tmp_path / "a.json", plain + '{"t": "2020-01-01T02:00:00Z"}\n')


def test_a_time_of_a_late_key_keeps_its_zone(tmp_path):
    late = {"n": 1, "t": "2020-01-01T02:00:00Z"}
    (tmp_path / "a.json").write_text('{"n": 1}\n' * 150_000 + json.dumps(late) + "\n")
    *_, last = data.read_json(tmp_path / "a.json")._node.source.blocks(0, 0)
    assert list(last.dicts())[-1] == late


def test_an_object_without_keys_is_a_row(tmp_path):
    rows = of_json(tmp_path / "a.json", '{"n": 1}\n' * 150_000 + "{}\n" * 400_000)
    assert len(rows) == 550_000 and rows[-1] == {"n": None}
    with pytest.raises(ValueError, match="a.json: line 1: no object from here on has a key"):
        of_json(tmp_path / "a.json", "{}\n{}\n")


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ('{"a": 1}\n{"a": 12345678901234567890}\n', "line 2, key 'a': 12345678901234567890 is no float exactly"),
        ('{"a": 9007199254740993}\n{"a": 1.5}\n', "line 1, key 'a': 9007199254740993"),
        ('{"a": {"b": [1.5, -9007199254740993]}}\n', "line 1, key 'a.b': -9007199254740993"),
        ('[{"a": 1.5}, {"a": 9007199254740993}]', "line 2, key 'a'"),
    ],
)
def test_an_integer_that_would_be_a_float_is_an_error(tmp_path, content, place):
    with pytest.raises(ValueError, match="read_json: .*a.json: ") as caught:
        of_json(tmp_path / "a.json", content)
    assert place in str(caught.value) and "explicit_schema" in str(caught.value)


def test_integers_of_64_bits_are_exact(tmp_path):
    assert of_json(tmp_path / "a.json", '{"a": 9223372036854775807, "b": 0.1234567890123456789}\n') == [
        {"a": 2**63 - 1, "b": 0.12345678901234568}
    ]
    unsigned = arrow_json.ParseOptions(explicit_schema=pa.schema([("a", pa.uint64())]))
    assert of_json(tmp_path / "a.json", '{"a": 12345678901234567890}\n', parse_options=unsigned) == [{"a": 12345678901234567890}]


def test_what_json_cannot_be_is_an_error_with_its_line(tmp_path):
    many = '{"a": "x"}\n' * 150_000
    for line, what in (
        ('{"a": "x", "a": "y"}', "specified twice"),
        ('{"a": ', "line 150001"),
        ('{"a": 1}', "changed from|Failed to convert|number"),
        (b'{"a": "\xe9"}', "'utf-8' codec .*; JSON is UTF-8"),
        ('{"a": "\\ud800"}', "surrogate"),
    ):
        with pytest.raises(ValueError, match=rf"a.json: line 150001: .*({what})|a.json: {what}"):
            of_json(tmp_path / "a.json", many.encode() + (line if isinstance(line, bytes) else line.encode()) + b"\n")
    with pytest.raises(ValueError, match="a.json: an object has the key 'a' twice"):
        of_json(tmp_path / "a.json", '[{"a": 1, "a": 2}]')


def test_long_lines_and_large_lists_are_read_in_pieces(tmp_path):
    long = "x" * 5_000_000
    assert of_json(tmp_path / "a.json", f'{{"a": "{long}"}}\n{{"a": "y"}}\n') == [{"a": long}, {"a": "y"}]
    rows = [{"id": one, "text": "z" * 100} for one in range(50_000)]
    assert of_json(tmp_path / "b.json", json.dumps(rows)) == rows
    dataset = data.read_json(str(tmp_path / "b.json"))
    dataset.count()
    assert max(dataset._node.source.groups()[0].pieces) < 20_000
    assert of_json(tmp_path / "c.json", "\ufeff" + json.dumps(rows[:2])) == rows[:2]
    assert of_json(tmp_path / "c.json", json.dumps(rows[0], indent=2)) == rows[:1]


# -- text -------------------------------------------------------------------------------------------------------------------
def test_text_in_other_encodings(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\ntwo\n")
    for encoding in ("utf-8", "utf-8-sig"):
        assert [row["text"] for row in data.read_text(str(path), encoding=encoding)] == ["one", "two"]
    path.write_bytes("日本\nぱ\n".encode("shift_jis"))
    assert [row["text"] for row in data.read_text(str(path), encoding="shift_jis")] == ["日本", "ぱ"]
    path.write_bytes(b"x\n" * MANY + b"\xff\n")
    with pytest.raises(ValueError, match=r"a.txt: line 300001: 'utf-8' codec .* encoding= names"):
        data.read_text(str(path)).take_all()


def test_a_compressed_text_that_expands_is_read_in_parts(tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress((b"x" * 99 + b"\n") * 300_000))
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"a,b\n" + (b"1," + b"x" * 97 + b"\n") * 300_000))
    (tmp_path / "c.json.gz").write_bytes(gzip.compress((b'{"a": "' + b"x" * 90 + b'"}\n') * 300_000))
    for rows in (
        data.read_text(str(tmp_path / "a.txt.gz")),
        data.read_csv(str(tmp_path / "b.csv.gz")),
        data.read_json(str(tmp_path / "c.json.gz")),
    ):
        sizes = [block.nbytes for block in rows._node.source.open(0, 0)]
        assert max(sizes) < 4 << 20 and sum(sizes) > 27_000_000
