"""The half of a Dataset that reads: rows, batches, counts, aggregates, files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rtrain._arguments import WRITERS, check, check_named
from rtrain._lazy import public_in
from rtrain.data import _block, _parts, _write
from rtrain.data._block import Block, check_format
from rtrain.data._grouped import Summary, summaries
from rtrain.data._iterator import DataIterator
from rtrain.data._joins import Slice
from rtrain.data._parts import SaveMode
from rtrain.data._plan import Node, Order, Read, rows_of
from rtrain.data._seeds import seed_for
from rtrain.data._share import Share

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rtrain._argument_types import WriterArguments


@dataclass(frozen=True)
class Schema:
    """Names and Arrow types of the columns; a NumPy column of arbitrary objects is of type `object`."""

    names: list[str]
    types: list[Any]

    @property
    def base_schema(self) -> Any:
        """As Arrow has it."""
        return pa.schema([(name, kind) for name, kind in zip(self.names, self.types, strict=True) if kind is not object])

    def __str__(self) -> str:
        return "\n".join(f"{name}: {kind}" for name, kind in zip(self.names, self.types, strict=True))


class Reading:
    _node: Node

    # -- iterating: each call is an epoch of its own ------------------------------------------------------------------
    def iterator(self) -> DataIterator:
        """Reads all rows, epoch after epoch."""
        return DataIterator(Share(self._node))

    def iter_rows(self) -> Any:
        """Rows as dicts of Python values."""
        return self.iterator().iter_rows()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.iter_rows())

    def iter_batches(self, **options: Any) -> Any:
        """As `DataIterator.iter_batches`."""
        return self.iterator().iter_batches(**options)

    def iter_torch_batches(self, **options: Any) -> Any:
        """As `DataIterator.iter_torch_batches`."""
        return self.iterator().iter_torch_batches(**options)

    def to_torch(self, **options: Any) -> Any:
        """As `DataIterator.to_torch`."""
        return self.iterator().to_torch(**options)

    def streaming_split(self, n: int, *, equal: bool = False, locality_hints: object = None) -> list[DataIterator]:
        """`n` iterators that together read all rows of each epoch, each its own part. equal: as many rows each; the up to
        n - 1 rows that are over are left out."""
        if not isinstance(n, int) or n < 1:
            raise ValueError(f"streaming_split: n is {n!r}; it is a whole number from 1 on")
        check_named("streaming_split", locality_hints=locality_hints)
        seed = seed_for(self._node.says())
        return [DataIterator(Share(self._node, rank, n, equal=equal, seed=seed)) for rank in range(n)]

    def _blocks(self) -> Iterator[Block]:
        _, blocks = Share(self._node).begin()
        return blocks

    def _first(self, rows: int) -> Block:
        run = Slice(self._node, 0, rows, f"limit({rows})").start(Order(Share(self._node).seed))
        return _block.concat(run.read(piece) for piece in run.pieces())

    # -- a look -------------------------------------------------------------------------------------------------------
    def take(self, limit: int = 20) -> list[dict[str, Any]]:
        return list(self._first(limit).dicts())

    def take_all(self, limit: int | None = None) -> list[dict[str, Any]]:
        """ValueError when there are more than `limit` rows."""
        if limit is None:
            return [row for block in self._blocks() for row in block.dicts()]
        rows = self.take(limit + 1)
        if len(rows) > limit:
            raise ValueError(f"take_all: the dataset has more than {limit} rows")
        return rows

    def take_batch(self, batch_size: int = 20, *, batch_format: str | None = "default") -> Any:
        check_format(batch_format, "take_batch")
        block = self._first(batch_size)
        if not block.rows:
            raise ValueError("take_batch: the dataset is empty")
        return block.batch(batch_format)

    def show(self, limit: int = 20) -> None:
        for row in self.take(limit):
            print(row)

    # -- what it is ---------------------------------------------------------------------------------------------------
    def count(self) -> int:
        """Reads what must be read to know: nothing for tables in memory, footers for Parquet, all for CSV or after `filter`."""
        return rows_of(self._node)

    def schema(self) -> Schema | None:
        """From the files' own description where nothing was done to them, else from the first rows. None: no rows."""
        if isinstance(self._node, Read):
            names, types = self._node.source.names(), self._node.source.types()
            if names is not None and types is not None:
                return Schema(names, types)
        block = self._first_block()
        if block is None:
            return None
        return Schema(block.names, [_type_of(name, column) for name, column in block.columns.items()])

    def columns(self) -> list[str] | None:
        known = self._node.names()
        if known is not None:
            return known
        block = self._first_block()
        return None if block is None else block.names

    def _first_block(self) -> Block | None:
        run = self._node.start(Order())
        return next((run.read(piece) for piece in run.pieces()), None)

    def num_blocks(self) -> int:
        """Pieces that it is read in."""
        return sum(1 for _ in self._node.start(Order(strict=True)).pieces())

    def size_bytes(self) -> int:
        """In memory: of a source as it describes itself, else by reading."""
        if isinstance(self._node, Read) and self._node.source.in_memory:
            return sum(block.nbytes for block in self._blocks())
        if isinstance(self._node, Read):
            sizes = [group.nbytes for group in self._node.source.groups()]
            known = [size for size in sizes if size is not None]
            if len(known) == len(sizes):
                return sum(known)
        return sum(block.nbytes for block in self._blocks())

    def stats(self) -> str:
        return f"{self!r}: {self.num_blocks()} pieces, {self.size_bytes()} bytes"

    def input_files(self) -> list[str]:
        return sorted(_files_of(self._node))

    def __repr__(self) -> str:
        rows, names = self._node.rows(), self._node.names()
        about = "" if rows is None or self._node.assumes else f", {rows} rows"
        return f"Dataset({self._node.says()}{about}{'' if names is None else f', columns: {chr(44).join(names)}'})"

    # -- over all rows ------------------------------------------------------------------------------------------------
    def sum(self, on: Any = None, ignore_nulls: bool = True) -> Any:  # noqa: FBT001, FBT002
        return self._summary("sum", on, ignore_nulls=ignore_nulls)

    def min(self, on: Any = None, ignore_nulls: bool = True) -> Any:  # noqa: FBT001, FBT002
        return self._summary("min", on, ignore_nulls=ignore_nulls)

    def max(self, on: Any = None, ignore_nulls: bool = True) -> Any:  # noqa: FBT001, FBT002
        return self._summary("max", on, ignore_nulls=ignore_nulls)

    def mean(self, on: Any = None, ignore_nulls: bool = True) -> Any:  # noqa: FBT001, FBT002
        return self._summary("mean", on, ignore_nulls=ignore_nulls)

    def std(self, on: Any = None, ddof: int = 1, ignore_nulls: bool = True) -> Any:  # noqa: FBT001, FBT002
        return self._summary("std", on, ddof=ddof, ignore_nulls=ignore_nulls)

    def _summary(self, what: str, on: Any, *, ddof: int = 1, ignore_nulls: bool = True) -> Any:
        """A number where there is one column, else a dict of them by `what(column)`. None: no rows."""
        names = [on] if isinstance(on, str) else list(on) if on is not None else None
        by_column: dict[str, Summary] = summaries(self._blocks(), names, what, ignore_nulls=ignore_nulls)
        answers = {f"{what}({name})": one.answer(what, ddof) for name, one in by_column.items()}
        return next(iter(answers.values()), None) if len(answers) < 2 else answers

    # -- elsewhere ----------------------------------------------------------------------------------------------------
    def to_pandas(self, limit: int | None = None) -> Any:
        """One DataFrame of all rows. ValueError when there are more than `limit`."""
        block = _block.concat(self._blocks()) if limit is None else self._first(limit + 1)
        if limit is not None and block.rows > limit:
            raise ValueError(f"to_pandas: the dataset has more than {limit} rows; give a larger limit, or None")
        return block.pandas()

    def to_arrow(self) -> Any:
        """One Table of all rows."""
        return _block.concat(self._blocks()).arrow()

    def write_parquet(
        self,
        path: str | os.PathLike[str],
        *,
        filesystem: Any = None,
        num_rows_per_file: int | None = None,
        mode: SaveMode | str = SaveMode.APPEND,
        **options: Any,
    ) -> None:
        """Files in the folder `path`, named by run, write and block. They appear when all are written; an attempt that is retried
        replaces its own. mode: what to do about files of other writes there. options: row_group_size, and those of
        pyarrow's ParquetWriter; min_rows_per_file and max_rows_per_file, one of which num_rows_per_file is too."""
        rows = _write.rows_per_file("write_parquet", num_rows_per_file, options)
        check("write_parquet", {name: options.pop(name) for name in list(options) if name in WRITERS}, WRITERS)
        _write.parquet(self._blocks(), _parts.opened("write_parquet", "parquet", path, filesystem, mode), rows, options)

    def write_csv(
        self,
        path: str | os.PathLike[str],
        *,
        filesystem: Any = None,
        num_rows_per_file: int | None = None,
        mode: SaveMode | str = SaveMode.APPEND,
        **others: Unpack[WriterArguments],
    ) -> None:
        """As `write_parquet`."""
        options: dict[str, Any] = {**others}
        rows = _write.rows_per_file("write_csv", num_rows_per_file, options)
        check("write_csv", options, WRITERS)
        _write.csv(self._blocks(), _parts.opened("write_csv", "csv", path, filesystem, mode), rows)

    def write_json(
        self,
        path: str | os.PathLike[str],
        *,
        filesystem: Any = None,
        num_rows_per_file: int | None = None,
        mode: SaveMode | str = SaveMode.APPEND,
        **others: Unpack[WriterArguments],
    ) -> None:
        """As `write_parquet`; an object in each line."""
        options: dict[str, Any] = {**others}
        rows = _write.rows_per_file("write_json", num_rows_per_file, options)
        check("write_json", options, WRITERS)
        _write.json_lines(self._blocks(), _parts.opened("write_json", "json", path, filesystem, mode), rows)


def _type_of(name: str, column: Any) -> Any:
    try:
        return _block.as_arrow(column, name).type
    except TypeError:
        return object


def _files_of(node: Node) -> set[str]:
    files = getattr(getattr(node, "source", None), "files", None)
    own_files = set(files.paths) if files is not None else set()
    return own_files.union(*(_files_of(child) for child in node.children))


public_in("rtrain.data", Schema)
