"""Writes the files of a dataset: Parquet, CSV or JSON lines. `_parts` names them."""

from __future__ import annotations

import datetime
import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv, parquet as arrow_parquet

from rtrain.data import _batches
from rtrain.data._block import Block
from rtrain.data._parts import Parts
from rtrain.data._values import _schema

_BYTES_PER_FILE = 256 << 20


def parquet(blocks: Iterator[Block], parts: Parts, rows: int | None, options: dict[str, Any]) -> None:
    group = options.pop("row_group_size", None)
    if int(pa.__version__.partition(".")[0]) >= 15:
        options.setdefault("write_page_checksum", True)

    def write(stream: Any, tables: Iterator[pa.Table]) -> None:
        first = next(tables)
        with arrow_parquet.ParquetWriter(stream, first.schema, **options) as writer:
            for table in itertools.chain([first], tables):
                writer.write_table(table, group)

    _write_parts((block.arrow() for block in _sized(parts.caller, blocks, rows)), parts, rows, write)


def csv(blocks: Iterator[Block], parts: Parts, rows: int | None) -> None:
    def write(stream: Any, tables: Iterator[pa.Table]) -> None:
        first = next(tables)
        with arrow_csv.CSVWriter(stream, first.schema) as writer:
            for table in itertools.chain([first], tables):
                writer.write_table(table)

    _write_parts((block.arrow() for block in _sized(parts.caller, blocks, rows)), parts, rows, write)


def json_lines(blocks: Iterator[Block], parts: Parts, rows: int | None) -> None:
    def write(stream: Any, given: Iterator[Block]) -> None:
        for part in given:
            stream.write("".join(map(_json_line, part.dicts())).encode())

    _write_parts(_sized(parts.caller, blocks, rows), parts, rows, write)


def rows_per_file(caller: str, rows: int | None, options: dict[str, Any]) -> int | None:
    """Returns the rows of every file but the last, from num_rows_per_file, or from min_rows_per_file and max_rows_per_file,
    which are removed from the options."""
    least, most = options.pop("min_rows_per_file", None), options.pop("max_rows_per_file", None)
    if rows is not None and (least is not None or most is not None):
        raise ValueError(f"{caller}: num_rows_per_file is given with min_rows_per_file or max_rows_per_file; give one")
    if least is not None and most is not None and least > most:
        raise ValueError(f"{caller}: min_rows_per_file is {least}, above max_rows_per_file, {most}")
    return rows if rows is not None else most if most is not None else least


def _sized(caller: str, blocks: Iterator[Block], rows: int | None) -> Iterator[Block]:
    if rows is not None and rows < 1:
        raise ValueError(f"num_rows_per_file is {rows}; it is at least 1")
    return (block for block in _batches.cut(_schema.steady(blocks, caller), rows, drop_last=False) if block.rows)


def _json_line(row: dict[str, Any]) -> str:
    try:
        return json.dumps(row, default=_as_json) + "\n"
    except TypeError:
        for name, value in row.items():
            try:
                json.dumps(value, default=_as_json)
            except TypeError as error:
                raise TypeError(
                    f"write_json: the column {name!r} holds a value of type {error}, which JSON does not have; convert it by map, or use "
                    "write_parquet"
                ) from None
        raise


def _as_json(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if hasattr(value, "isoformat") and not isinstance(value, datetime.timedelta):
        return value.isoformat()
    raise TypeError(type(value).__name__)


def _write_parts(values: Iterator[Any], parts: Parts, rows: int | None, write: Callable[[Any, Iterator[Any]], None]) -> None:
    """Writes a file for each `rows` rows, or for each 256 MiB. All files are published when the last one is complete."""
    if not parts.begin():
        return
    try:
        first = next(values, None)
        while first is not None:
            feed = _Feed(first, values, 1 if rows is not None else None)
            with parts.system.open_output_stream(parts.add()) as stream:
                write(stream, feed)
            first = feed.over
    except BaseException:
        parts.drop()
        raise
    parts.commit()


class _Feed(Iterator[Any]):
    """The parts of one file. The part that begins the next file stays in `over`."""

    def __init__(self, first: Any, parts: Iterator[Any], count: int | None) -> None:
        self.over: Any = first
        self.parts, self.count = parts, count
        self.given = self.nbytes = 0
        self.schema = getattr(first, "schema", None)  # the file's schema; a part with wider types begins the next file

    def __next__(self) -> Any:
        full = self.given >= self.count if self.count is not None else self.nbytes >= _BYTES_PER_FILE
        if full or self.over is None or getattr(self.over, "schema", None) != self.schema:
            raise StopIteration
        part, self.over = self.over, next(self.parts, None)
        self.given += 1
        self.nbytes += part.nbytes
        return part
