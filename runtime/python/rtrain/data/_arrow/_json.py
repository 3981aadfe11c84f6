"""Reads JSON lines with Arrow's reader, and prevents that it changes values.

Arrow infers the types of each part of a file separately. A text column becomes a column of times in a part that has dates only,
and a time loses its zone. An integer of more than 64 bits, or beside a fraction, becomes the nearest float. This module lets
the first part of a file decide between texts and times, and reads times with a zone as text. An integer that no float
represents exactly is an error.
"""

from __future__ import annotations

import copy
import io
import itertools
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from rtrain.data._arrow import _numbers

_ZONE = re.compile(rb'\d(?:Z|[+-]\d\d(?::?\d\d)?)"')
_ZONED = r"^\d{4}-\d\d-\d\d[T ]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"
_NEWLINE = b"\n"
_HINT = "ParseOptions(explicit_schema=...) sets a key's type"


def tables(chunks: Iterable[bytes], given: dict[str, Any], head: bytes = b"") -> Iterator[Any]:
    """Yields a table for each chunk of lines. ValueError names line and key of a value that cannot be read exactly.

    given: the user's options by their names in pyarrow.json. head: the first lines of the file that the chunks belong to.
    """
    file = _File(given)
    line = 1
    if head.strip():
        file.table(head, line)
    for chunk in chunks:
        if chunk.strip():
            yield file.table(chunk, line)
        line += chunk.count(b"\n")


def rows_of_list(content: bytes, size: int) -> Iterator[bytes]:
    """Yields the objects of a file that is one list as chunks of lines, each of about `size` bytes."""
    rows = json.loads(content, object_pairs_hook=_without_twins)
    lines, held = [], 0
    for row in rows:
        lines.append(json.dumps(row).encode() + b"\n")
        held += len(lines[-1])
        if held >= size:
            yield b"".join(lines)
            lines, held = [], 0
    if lines:
        yield b"".join(lines)


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twin = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has the key {twin!r} twice")
    return values


class _File:
    def __init__(self, given: dict[str, Any]) -> None:
        self.read = given.get("read_options")
        self.parse = given.get("parse_options") or arrow_json.ParseOptions()
        by_user = self.parse.explicit_schema
        self.by_user: dict[str, Any] = {} if by_user is None else {field.name: field.type for field in by_user}
        self.pins: dict[str, Any] = {}  # types of texts and times, from the first chunk with the key
        self.seen: Any = None  # the schema of the previous chunk

    def table(self, chunk: bytes, line: int) -> Any:
        if not chunk.isascii():
            _check_utf8(chunk, line)
        try:
            table = self._pinned_down(chunk, line)
        except pa.ArrowInvalid as error:
            raise ValueError(_located(str(error), chunk, line)) from error
        if table.num_columns == 0:
            table = self._without_keys(table.num_rows, line)
        if any(_numbers.has_large_floats(column) for column in table.columns):
            _check_integers(chunk, line, table.schema)
        self.seen = table.schema
        return table

    def _without_keys(self, rows: int, line: int) -> Any:
        if self.seen is None:
            raise ValueError(f"line {line}: no object from here on has a key; a row has at least one column")
        return pa.table({field.name: pa.nulls(rows, field.type) for field in self.seen})

    def _pinned_down(self, chunk: bytes, line: int) -> Any:
        """Returns the table of a chunk. Text and time types of new keys are stored, so that later chunks get the same types."""
        table = self._parsed(chunk, self.pins)
        kinds = {field.name: field.type for field in table.schema if field.name not in self.by_user}
        new = {name: kind for name, kind in kinds.items() if name not in self.pins and _has(kind, _is_text_or_time)}
        zoned = self._zoned(chunk, kinds)
        for name, text in zoned.items():
            if name in self.pins:
                where = line + chunk[: chunk.find(text.encode())].count(_NEWLINE)
                raise ValueError(f"line {where}, key {name!r}: {text!r} has a zone, and times before it had none; {_HINT}")
        self.pins.update({name: _as_texts(kind) if name in zoned else kind for name, kind in new.items()})
        return self._parsed(chunk, self.pins) if zoned else table

    def _parsed(self, chunk: bytes, pins: dict[str, Any]) -> Any:
        read = copy.copy(self.read) or arrow_json.ReadOptions()
        read.block_size = max(read.block_size if self.read is not None else 0, len(chunk) + 1)
        types = {**pins, **self.by_user}
        parse = arrow_json.ParseOptions(
            explicit_schema=pa.schema(list(types.items())) if types else None,
            newlines_in_values=self.parse.newlines_in_values,
            unexpected_field_behavior=self.parse.unexpected_field_behavior,
        )
        table = arrow_json.read_json(io.BytesIO(chunk), read_options=read, parse_options=parse)
        absent = [
            name
            for name in pins
            if name not in self.by_user and f'"{name}"'.encode() not in chunk and table.column(name).null_count == len(table)
        ]
        return table.drop_columns(absent) if absent and table.num_columns > len(absent) else table

    def _zoned(self, chunk: bytes, kinds: dict[str, Any]) -> dict[str, str]:
        """Returns the keys that were read as times and have a time with a zone, each with one such time."""
        times = {name: _as_texts(kind) for name, kind in kinds.items() if _has(kind, pa.types.is_timestamp)}
        if not times or not _ZONE.search(chunk):
            return {}
        table = self._parsed(chunk, {**self.pins, **times})
        zoned = {name: _first_zoned(table.column(name)) for name in times if name in table.column_names}
        return {name: text for name, text in zoned.items() if text is not None}


def _has(kind: Any, fits: Any) -> bool:
    if pa.types.is_nested(kind):
        return any(_has(kind.field(place).type, fits) for place in range(kind.num_fields))
    return bool(fits(kind))


def _is_text_or_time(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_timestamp(kind))


def _as_texts(kind: Any) -> Any:
    """Returns the type with texts in place of times."""
    if pa.types.is_struct(kind):
        return pa.struct([(kind.field(place).name, _as_texts(kind.field(place).type)) for place in range(kind.num_fields)])
    if pa.types.is_list(kind):
        return pa.list_(_as_texts(kind.value_type))
    return pa.string() if pa.types.is_timestamp(kind) else kind


def _first_zoned(column: Any) -> str | None:
    for array in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        if pa.types.is_struct(array.type):
            inner_texts = (_first_zoned(array.field(place)) for place in range(array.type.num_fields))
            text = next((inner for inner in inner_texts if inner is not None), None)
        elif pa.types.is_list(array.type):
            text = _first_zoned(array.flatten())
        elif pa.types.is_string(array.type):
            places = pc.match_substring_regex(array, _ZONED).fill_null(False).to_numpy(zero_copy_only=False).nonzero()[0]  # noqa: FBT003
            text = array[int(places[0])].as_py() if len(places) else None
        else:
            text = None
        if text is not None:
            return str(text)
    return None


def _check_utf8(chunk: bytes, line: int) -> None:
    try:
        chunk.decode()
    except UnicodeDecodeError as error:
        where = line + chunk[: error.start].count(b"\n")
        raise ValueError(f"line {where}: {error}; JSON is UTF-8: convert the file") from error


def _check_integers(chunk: bytes, line: int, schema: Any) -> None:
    text, decoder, place = chunk.decode(), json.JSONDecoder(), 0
    kind = pa.struct(list(schema))
    while (match := re.compile(r"\S").search(text, place)) is not None:
        row, place = decoder.raw_decode(text, match.start())
        for key, number in _inexact(row, kind, ""):
            where = line + text[: match.start()].count("\n")
            raise ValueError(f"line {where}, key {key!r}: {number} is no float exactly, and the key has floats here; {_HINT}")


def _inexact(value: Any, kind: Any, key: str) -> Iterator[tuple[str, int]]:
    """Yields the integers in places whose type is a float that cannot hold them."""
    if isinstance(value, dict) and pa.types.is_struct(kind):
        for name, inner in value.items():
            if kind.get_field_index(name) >= 0:
                yield from _inexact(inner, kind.field(name).type, f"{key}.{name}" if key else name)
    elif isinstance(value, list) and pa.types.is_list(kind):
        yield from itertools.chain.from_iterable(_inexact(inner, kind.value_type, key) for inner in value)
    elif isinstance(value, int) and pa.types.is_floating(kind) and int(float(value)) != value:
        yield key, value


def _located(message: str, chunk: bytes, line: int) -> str:
    """Returns Arrow's message with the line in the file."""
    row = re.search(r" in row (\d+)", message)
    value = re.search(r"couldn't parse:\s*(.*)", message)
    hint = f"; {_HINT}" if "changed from" in message or value is not None else ""
    if row is not None:
        full = [number for number, text in enumerate(chunk.split(b"\n")) if text.strip()]
        return f"line {line + full[min(int(row[1]), len(full) - 1)]}: {message.replace(row[0], '')}{hint}"
    before = chunk.find(value[1].encode()) if value is not None else -1
    return f"line {line + chunk[: max(before, 0)].count(_NEWLINE)}{'' if before >= 0 else ' or one behind it'}: {message}{hint}"
