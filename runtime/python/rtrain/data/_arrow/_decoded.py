"""Computes how many rows of a Parquet row group make a piece, from the bytes of the decoded rows.

The file's footer has the decoded size of numbers and of texts that are stored plainly. If texts are stored by a dictionary or
as differences, their decoded size depends on how often each text is used: 354 KiB of a file may hold 2 GiB of texts. For such
columns the dictionary is read first. If its longest text does not settle the size, the column's indices are read too. They give
the size of each row without decoding it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from rtrain.data._arrow._lengths import OFFSET, Sizes, lengths
from rtrain.data._source import PIECE_BYTES, PIECE_ROWS, piece_rows

Open = Callable[[list[str]], Any]  # returns a ParquetFile that reads the columns with these paths as dictionaries

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8}
_SETTLED_ROWS = 8192  # rows; larger pieces need no exact sizes
_STEP = 8192  # rows whose indices are read at a time
_FULL_DICTIONARY = 1 << 19  # bytes; a writer stops using a dictionary at about twice this size
_GAP = 64 << 10  # bytes; a smaller gap between two ranges is fetched with them
_DIFFERENCE_STEP = 256  # rows decoded at a time, for a column that is stored as differences


@dataclass(frozen=True)
class Leaf:
    """A column of the file, and its column of the table. `width` is the number of bytes of a decoded value, None for texts and
    bytes."""

    path: str
    name: str
    width: int | None
    nested: bool


@dataclass(frozen=True)
class Hidden:
    """A column of the table whose decoded size is not in the footer."""

    name: str
    paths: list[str]
    stored: int  # bytes in the file, decompressed
    differences: bool
    nested: bool


def leaves(footer: Any) -> list[Leaf]:
    """Returns the columns of a file, in the order of its row groups' columns."""
    names = set(footer.schema.to_arrow_schema().names)
    columns = [footer.schema.column(place) for place in range(footer.num_columns)]
    return [Leaf(column.path, _name(column.path, names), _width(column), column.max_repetition_level > 0) for column in columns]


def ranges_of(footer: Any, group: int, columns: Sequence[str] | None) -> list[tuple[int, int]]:
    """Returns the sorted byte ranges of a row group's columns. columns: None for all. Ranges with a small gap between them are
    joined."""
    chunks = footer.row_group(group)
    ranges: list[tuple[int, int]] = []
    for place, leaf in enumerate(leaves(footer)):
        if columns is not None and leaf.name not in columns:
            continue
        chunk = chunks.column(place)
        start = min(at for at in (chunk.dictionary_page_offset, chunk.data_page_offset) if at)
        ranges.append((start, start + chunk.total_compressed_size))
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if joined and start - joined[-1][1] <= _GAP:
            joined[-1] = joined[-1][0], max(stop, joined[-1][1])
        else:
            joined.append((start, stop))
    return joined


def _name(path: str, names: set[str]) -> str:
    """Returns the table's column at the beginning of a path; its name may contain dots."""
    parts = path.split(".")
    heads = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((head for head in heads if head in names), parts[0])


def _width(column: Any) -> int | None:
    is_decimal = column.logical_type.type == "DECIMAL"
    if column.physical_type == "BYTE_ARRAY":
        return 16 if is_decimal else None
    width = int(_WIDTHS.get(column.physical_type, column.length))
    return max(width, 16) if is_decimal else width


def pieces_of(footer: Any, columns: Sequence[str] | None, open_file: Open, numbers: range) -> Iterator[tuple[int, int]]:
    """Yields for each of these row groups the rows of a piece and the approximate bytes of the decoded group."""
    file = leaves(footer)
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    described = [_from_footer(group, columns, file) for group in groups]
    differences = {column.name for _, hidden in described for column in hidden if column.differences}
    paths = {path for _, hidden in described for column in hidden if column.name not in differences for path in column.paths}
    reader: Any = None
    for number in numbers:
        group, (known, hidden) = groups[number], described[number]
        if not hidden or group.num_rows <= 1:
            nbytes = known + sum(column.stored for column in hidden)
            yield piece_rows(group.num_rows, nbytes), nbytes
        else:
            reader = reader or open_file(sorted(paths))
            alike = [replace(column, differences=column.name in differences) for column in hidden]
            yield _piece_of(group.num_rows, known, alike, _Group(reader, number))


@dataclass(frozen=True)
class _Group:
    reader: Any
    number: int

    def batches(self, columns: list[str], step: int) -> Iterator[Any]:
        return iter(self.reader.iter_batches(batch_size=step, row_groups=[self.number], columns=columns))


def _piece_of(rows: int, known: int, hidden: list[Hidden], group: _Group) -> tuple[int, int]:
    dictionaries = _dictionaries(hidden, group)
    widest = sum(max(_longest(dictionaries.get(column.name)), column.stored / rows) for column in hidden)
    bound, stored = known + widest * rows, piece_rows(rows, known + sum(column.stored for column in hidden))
    if piece_rows(rows, bound) >= min(stored / 4, _SETTLED_ROWS):
        return piece_rows(rows, bound), int(bound)
    sizes = np.full(rows, known / rows)
    for column in hidden:
        step = _step(column, dictionaries.get(column.name), stored)
        sizes += _sizes_of(column, rows, (batch.column(0) for batch in group.batches([column.name], step)))
    return _most_rows(sizes), int(sizes.sum())


def _dictionaries(hidden: list[Hidden], group: _Group) -> dict[str, Any]:
    """Returns the dictionaries of columns, as far as reading the first row gives them."""
    names = [column.name for column in hidden if not column.nested and not column.differences]
    batch = next(group.batches(names, 1), None) if names else None
    arrays = {} if batch is None else dict(zip(batch.schema.names, batch.columns, strict=True))
    seen = {name: array.dictionary for name, array in arrays.items() if isinstance(array, pa.DictionaryArray)}
    return {name: dictionary for name, dictionary in seen.items() if len(dictionary)}


def _longest(dictionary: Any) -> float:
    """Returns the bytes of the longest text; infinite if the dictionary is not known."""
    return float("inf") if dictionary is None else float(lengths(dictionary).max())


def _step(column: Hidden, dictionary: Any, stored_rows: int) -> int:
    """Returns how many rows are read at a time. A writer stops using a large dictionary after about as many rows as it has
    entries. The later texts are stored plainly, and are decoded when they are read."""
    if column.differences:
        return _DIFFERENCE_STEP
    full = dictionary is not None and dictionary.nbytes >= _FULL_DICTIONARY
    return max(1, min(_STEP, stored_rows, max(64, len(dictionary) // 2) if full else _STEP))


def _from_footer(group: Any, columns: Sequence[str] | None, file: Sequence[Leaf]) -> tuple[int, list[Hidden]]:
    known = 0
    hidden: dict[str, Hidden] = {}
    for place, leaf in enumerate(file):
        name = leaf.name
        if columns is not None and name not in columns:
            continue
        chunk = group.column(place)
        stored, values = chunk.total_uncompressed_size, chunk.num_values
        differences = leaf.width is None and "DELTA_BYTE_ARRAY" in chunk.encodings
        if leaf.width is None and (differences or any("DICTIONARY" in encoding for encoding in chunk.encodings)):
            before = hidden.get(name, Hidden(name, [], 0, differences=False, nested=False))
            paths = before.paths if differences else [*before.paths, leaf.path]
            hidden[name] = Hidden(
                name, paths, before.stored + stored, before.differences or differences, leaf.nested or before.nested
            )
            continue
        held = values * (OFFSET if leaf.width is None else leaf.width) + (stored if leaf.width is None else 0)
        known += max(stored, held) + (values * OFFSET if leaf.nested else 0)
    return known, list(hidden.values())


def _sizes_of(column: Hidden, rows: int, arrays: Iterator[Any]) -> Sizes:
    """Returns the bytes of each row, up to the row at which the writer stopped using the dictionary. The later rows are stored
    plainly."""
    sizes = np.full(rows, column.stored / rows)
    start = 0
    known: list[int] = []
    for array in arrays:
        entries = _entries(array)
        if any(before not in (0, now) for before, now in zip(known, entries, strict=False)):
            sizes[start:] = column.stored / (rows - start) + OFFSET
            break
        known = entries
        sizes[start : start + len(array)] = lengths(array)
        start += len(array)
    return sizes


def _entries(array: Any) -> list[int]:
    """Returns the number of entries of each dictionary in an array. It grows after the writer stopped using the dictionary."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return [len(array.dictionary)]
    if pa.types.is_struct(kind):
        return [entries for place in range(kind.num_fields) for entries in _entries(array.field(place))]
    if pa.types.is_map(kind):
        return [*_entries(array.keys), *_entries(array.items)]
    return _entries(array.values) if pa.types.is_nested(kind) and hasattr(array, "values") else []


def _most_rows(sizes: Sizes) -> int:
    """Returns the largest number of rows such that any range of so many neighbouring rows takes at most a piece's bytes. If a
    single row is larger, a piece takes at most twice the largest row."""
    limit = max(PIECE_BYTES, 2 * float(sizes.max()))
    until = np.concatenate([[0.0], np.cumsum(sizes)])
    fits, over = 1, min(len(sizes), PIECE_ROWS) + 1
    while over - fits > 1:
        middle = (fits + over) // 2
        if float((until[middle:] - until[:-middle]).max()) <= limit:
            fits = middle
        else:
            over = middle
    return fits
