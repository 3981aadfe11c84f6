"""Computes the columns of a dataset whose pieces differ: files or function results with other columns or types, and unions.

A rank reads only some pieces, and a batch may end anywhere. So a batch's columns and types must not depend on its pieces. A
piece gets nulls for a missing column, and a wider type if that changes no value. Otherwise an error names the column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rtrain.data._block import Block, as_arrow
from rtrain.data._values import _types
from rtrain.data._values._joined import type_of

Types = dict[str, Any]


def types_of(block: Block) -> Types:
    return {name: type_of(column) for name, column in block.columns.items()}


def with_types(block: Block, types: Types, *, plain: Iterable[str] = ()) -> Block:
    """Returns the block with these columns, in their order and types. A column that the block lacks is null.

    plain: columns that may stay NumPy arrays of integers or booleans. Other such columns become Arrow arrays, because they may
    hold nulls.
    """
    may_stay = set(plain)
    columns = {name: _as(block, name, kind, may_stay=name in may_stay) for name, kind in types.items()}
    return Block(columns, block.without_nulls, block.origin)


def _as(block: Block, name: str, kind: Any, *, may_stay: bool) -> Any:
    if name not in block.columns:
        return np.full(block.rows, None, dtype=object) if kind is object else _types.nulls(block.rows, kind)
    column = block.columns[name]
    if kind is object or (type_of(column) == kind and (may_stay or not _is_whole(column))):
        return column
    return _types.cast_column(as_arrow(column, name), kind, name)


def _is_whole(column: Any) -> bool:
    return isinstance(column, np.ndarray) and column.dtype.kind in "biu" and column.ndim == 1


def wider(types: Types, others: Types, what: str, where: str) -> Types:
    """Returns the columns of both. TypeError names the column, both types and their origins."""
    merged = dict(types)
    for name, kind in others.items():
        both = kind if name not in merged else _common(merged[name], kind)
        if both is None:
            raise TypeError(
                f"the column {name!r} holds {_kind_text(merged[name])} in {what} and {_kind_text(kind)} in {where}, and no type holds all of their "
                "values; convert it to one type"
            )
        merged[name] = both
    return merged


def _common(left: Any, right: Any) -> Any | None:
    if left is object or right is object:
        rest = right if left is object else left
        plain = (
            rest is not object and not pa.types.is_nested(rest) and not pa.types.is_null(rest) and not _types.is_extension(rest)
        )
        return None if plain else object
    return _types.common(left, right)


def _kind_text(kind: Any) -> str:
    return "arrays or other objects" if kind is object else str(kind)


# -- files --------------------------------------------------------------------------------------------------------------
def _of_schemas(
    reader: str, schemas: Sequence[tuple[str, Any]], columns: Sequence[str] | None, required: Sequence[str], others: Sequence[str]
) -> Types:
    """Returns the columns of files with these Arrow schemas. `schemas` has the path and schema of each file whose schema
    differs from the previous one."""
    types: Types = {}
    first = schemas[0][0]
    for path, schema in schemas:
        twice = next((name for name in schema.names if schema.names.count(name) > 1), None)
        if twice is not None:
            places = " and ".join(f"number {place + 1}" for place, name in enumerate(schema.names) if name == twice)
            raise ValueError(
                f"{reader}: {path} has two columns {twice!r} ({places} of {len(schema.names)}); write it with two names"
            )
        missing = next((name for name in required if name not in schema.names), None)
        if missing is not None:
            raise KeyError(
                f"{reader}: {path} has no column {missing!r}; it has: {', '.join(dict.fromkeys([*schema.names, *others]))}"
                + ("" if path == first else f". {first} has it: without columns= rows of other files get nulls")
            )
        own = {name: schema.field(name).type for name in schema.names if columns is None or name in columns}
        try:
            types = wider(types, own, first, path)
        except TypeError as error:
            raise TypeError(f"{reader}: {error}") from error
    return types


@dataclass(frozen=True)
class Known:
    """The columns of files with footers, and which of them hold no null in any file."""

    types: Types
    without_nulls: frozenset[str]


def of_footers(
    reader: str,
    files: Sequence[tuple[str, Any]],
    columns: Sequence[str] | None,
    required: Sequence[str],
    others: Sequence[str],
) -> Known:
    """Returns the columns of Parquet files, which are given by paths and footers.

    columns: the columns to read; None: all. required: columns that each file must have. others: columns from elsewhere than the
    files, for messages.

    KeyError names a file that lacks a column, ValueError a file with two columns of one name, TypeError two files whose types
    have no common one.
    """
    schemas: list[tuple[str, Any]] = []
    before: Any = None
    for path, footer in files:
        written = (footer.metadata or {}).get(b"ARROW:schema")
        if before is None or written != before[1] or not footer.schema.equals(before[0]):
            schemas.append((path, footer.schema.to_arrow_schema()))
        before = footer.schema, written
    types = _of_schemas(reader, schemas, columns, required, others)
    types = types if columns is None else {name: types[name] for name in columns if name in types}
    return Known(types, _without_nulls([footer for _, footer in files], types))


def _without_nulls(footers: Sequence[Any], types: Types) -> frozenset[str]:
    """Returns the columns of integers and booleans that hold no null in any file, by the footers."""
    names = {name for name, kind in types.items() if pa.types.is_integer(kind) or pa.types.is_boolean(kind)}
    for footer in footers:
        schema = footer.schema
        places = {schema.column(place).path: place for place in range(footer.num_columns)} if names else {}
        names &= places.keys()
        optional = {name for name in names if schema.column(places[name]).max_definition_level}
        for number in range(footer.num_row_groups if optional else 0):
            group = footer.row_group(number)
            gaps = {name for name in optional if not _counts_no_null(group.column(places[name]))}
            names, optional = names - gaps, optional - gaps
    return frozenset(names)


def _counts_no_null(chunk: Any) -> bool:
    statistics = chunk.statistics
    return statistics is not None and statistics.has_null_count and statistics.null_count == 0


def without_path(reader: str, names: Iterable[str], path: str) -> None:
    """Raises ValueError if a file has the column that `include_paths` adds."""
    if "path" in names:
        raise ValueError(
            f"{reader}: {path} has a column 'path', and include_paths=True adds another 'path'; read it without include_paths, or "
            "leave the file's column out by columns="
        )


class Found:
    """Columns of files that are only known by reading: the columns of the first rows of the first file."""

    def __init__(self, reader: str, hint: str, first: Block, path: str) -> None:
        self.reader, self.hint = reader, hint
        self.types, self.path = types_of(first), path

    def fitted(self, block: Block, path: str) -> Block:
        """Returns the block with the columns of the first rows. TypeError names a file with other types, ValueError one with more columns."""
        own = types_of(block)
        if own == self.types:
            return block
        more = [name for name in own if name not in self.types]
        if more:
            raise ValueError(
                f"{path} has the column {more[0]!r} in later rows, and {self.path} does not have it in its first rows; {self.hint}"
            )
        try:
            self.types = wider(self.types, own, self.path, path)
            return with_types(block, self.types, plain=self.types)
        except TypeError as error:
            raise TypeError(f"{self.reader}: {path}: {error}; {self.hint}") from error


# -- what is read ---------------------------------------------------------------------------------------------------------
def steady(blocks: Iterable[Block], of: str) -> Iterator[Block]:
    """Yields the blocks with the columns of the first one. Their types may become wider from block to block.

    TypeError and ValueError name the column of a later block that does not fit. `of` describes the input, for messages.
    """
    types: Types | None = None
    for block in blocks:
        if not block.rows:
            continue
        own = types_of(block)
        if types is None:
            types = own
        elif own != types:
            more = [name for name in own if name not in types]
            if more:
                raise ValueError(
                    f"{of}: later rows have the column {more[0]!r}, and the first ones do not: they were read without it. Give every row the "
                    "same columns, with None where it has no value"
                )
            types = wider(types, own, "the first rows", f"later rows of {of}")
            yield with_types(block, types, plain=types)
            continue
        yield block
