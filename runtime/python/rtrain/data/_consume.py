"""The part of a Dataset that reads: rows, batches, counts, aggregates, files."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rtrain._arguments import WRITERS, check
from rtrain._lazy import public_in
from rtrain.data import _block, _parts, _write
from rtrain.data._block import Block, check_format
from rtrain.data._grouped import Summary, summaries
from rtrain.data._iterator import Epochs
from rtrain.data._parts import SaveMode
from rtrain.data._plan import UNKNOWN, Mapped, Node, Order, Piece, Read, Run, part_of, rows_of
from rtrain.data._share import Share

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rtrain._argument_types import WriterArguments

_LOOK_ROWS = 64  # rows that are read for their columns


@dataclass(frozen=True)
class Schema:
    """Names and Arrow types of the columns. A NumPy column of arbitrary objects has the type `object`."""

    names: list[str]
    types: list[Any]

    @property
    def base_schema(self) -> Any:
        """The pyarrow Schema, without columns of the type `object`."""
        return pa.schema([(name, kind) for name, kind in zip(self.names, self.types, strict=True) if kind is not object])

    def __str__(self) -> str:
        return "\n".join(f"{name}: {kind}" for name, kind in zip(self.names, self.types, strict=True))


class Reading:
    _node: Node

    # -- iterating: each call is an epoch of its own ------------------------------------------------------------------
    def _epochs(self) -> Epochs:
        return Epochs(Share(self._node))

    def iter_rows(self) -> Any:
        """Returns an iterable of all rows, each a dict of Python values."""
        return self._epochs().iter_rows()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.iter_rows())

    def iter_batches(self, **options: Any) -> Any:
        """Returns an iterable of batches of all rows, as `DataIterator.iter_batches` does."""
        return self._epochs().iter_batches(**options)

    def iter_torch_batches(self, **options: Any) -> Any:
        """Returns an iterable of batches of tensors, as `DataIterator.iter_torch_batches` does."""
        return self._epochs().iter_torch_batches(**options)

    def to_torch(self, **options: Any) -> Any:
        """Returns a torch IterableDataset, as `DataIterator.to_torch` does."""
        return self._epochs().to_torch(**options)

    def _blocks(self) -> Iterator[Block]:
        _, rows = Share(self._node).begin()
        return rows.blocks()

    def _first(self, rows: int) -> Block:
        """Returns the first `rows` rows."""
        taken: list[Block] = []
        for block in _first_blocks(self._node, Order(Share(self._node).seed)) if rows > 0 else ():
            taken.append(block.slice(0, rows))
            rows -= taken[-1].rows
            if rows <= 0:
                break
        return _block.concat(taken)

    # -- a look -------------------------------------------------------------------------------------------------------
    def take(self, limit: int = 20) -> list[dict[str, Any]]:
        """Returns the first `limit` rows, each a dict of Python values; fewer where there are fewer."""
        return list(self._first(limit).dicts())

    def take_all(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Returns all rows, each a dict of Python values. ValueError when there are more than `limit` rows."""
        if limit is None:
            return [row for block in self._blocks() for row in block.dicts()]
        rows = self.take(limit + 1)
        if len(rows) > limit:
            raise ValueError(f"take_all: the dataset has more than {limit} rows")
        return rows

    def take_batch(self, batch_size: int = 20, *, batch_format: str | None = "default") -> Any:
        """Returns the first `batch_size` rows as one batch, in a format of `iter_batches`. ValueError for an empty dataset."""
        check_format(batch_format, "take_batch")
        block = self._first(batch_size)
        if not block.rows:
            raise ValueError("take_batch: the dataset is empty")
        return block.batch(batch_format)

    def show(self, limit: int = 20) -> None:
        """Prints the first `limit` rows, one a line."""
        for row in self.take(limit):
            print(row)

    # -- what it is ---------------------------------------------------------------------------------------------------
    def count(self) -> int:
        """Returns the number of rows.

        Reads nothing for tables in memory, only the footers for Parquet files, and all rows for CSV files or after a `filter`.
        """
        return rows_of(self._node)

    def schema(self) -> Schema | None:
        """Returns names and types of the columns; None for a dataset without rows.

        The files describe their columns if no operation was applied. Otherwise the first rows are read. A function is called
        with at most 64 rows to get the first one.
        """
        if isinstance(self._node, Read):
            names, types = self._node.source.names(), self._node.source.types()
            if names is not None and types is not None:
                return Schema(names, types)
        block = self._first_block()
        if block is None:
            return None
        return Schema(block.names, [_type_of(name, column) for name, column in block.columns.items()])

    def columns(self) -> list[str] | None:
        """Returns the names of the columns in their order; None for a dataset without rows. May read the first rows."""
        known = self._node.names()
        if known is not None:
            return known
        block = self._first_block()
        return None if block is None else block.names

    def _first_block(self) -> Block | None:
        return next(_first_blocks(self._node, Order()), None)

    def num_blocks(self) -> int:
        """Returns how many pieces the rows are read in."""
        return sum(1 for _ in self._node.start(Order(strict=True)).pieces())

    def size_bytes(self) -> int:
        """Returns how many bytes the rows take in memory. Reads all rows if the source does not report it."""
        if isinstance(self._node, Read) and self._node.source.in_memory:
            return sum(block.nbytes for block in self._blocks())
        if isinstance(self._node, Read):
            sizes = [group.nbytes for group in self._node.source.groups()]
            known = [size for size in sizes if size is not None]
            if len(known) == len(sizes):
                return sum(known)
        return sum(block.nbytes for block in self._blocks())

    def stats(self) -> str:
        """Returns a line with the plan, the number of pieces and the bytes in memory."""
        return f"{self!r}: {self.num_blocks()} pieces, {self.size_bytes()} bytes"

    def input_files(self) -> list[str]:
        """Returns the paths of the files that rows come from, sorted; empty for rows that are in memory."""
        return sorted(_files_of(self._node))

    def __repr__(self) -> str:
        rows, names = self._node.rows(), self._node.names()
        about = "" if rows is None or self._node.assumes else f", {rows} rows"
        return f"Dataset({self._node.says()}{about}{'' if names is None else f', columns: {chr(44).join(names)}'})"

    # -- over all rows ------------------------------------------------------------------------------------------------
    def sum(self, on: Any = None, ignore_nulls: bool = True) -> Any:  # noqa: FBT001, FBT002
        """Returns the sum of a column, or a dict `{"sum(column)": value}` for several columns. None if there are no rows.

        on: the column or columns; left out, all. ignore_nulls: False makes the result None for a column with a null.

        KeyError for an unknown column, TypeError for one whose values cannot be added.
        """
        return self._summary("sum", on, ignore_nulls=ignore_nulls)

    def min(self, on: Any = None, ignore_nulls: bool = True) -> Any:  # noqa: FBT001, FBT002
        """Returns the least value of a column, or a dict `{"min(column)": value}` for several. Arguments are those of `sum`."""
        return self._summary("min", on, ignore_nulls=ignore_nulls)

    def max(self, on: Any = None, ignore_nulls: bool = True) -> Any:  # noqa: FBT001, FBT002
        """Returns the greatest value of a column, or a dict `{"max(column)": value}` for several. Arguments are those of `sum`."""
        return self._summary("max", on, ignore_nulls=ignore_nulls)

    def mean(self, on: Any = None, ignore_nulls: bool = True) -> Any:  # noqa: FBT001, FBT002
        """Returns the mean of a column, or a dict `{"mean(column)": value}` for several. Arguments are those of `sum`."""
        return self._summary("mean", on, ignore_nulls=ignore_nulls)

    def std(self, on: Any = None, ddof: int = 1, ignore_nulls: bool = True) -> Any:  # noqa: FBT001, FBT002
        """Returns the standard deviation of a column, or a dict `{"std(column)": value}` for several.

        ddof: the divisor is the number of values less `ddof`. The other arguments are those of `sum`.
        """
        return self._summary("std", on, ddof=ddof, ignore_nulls=ignore_nulls)

    def _summary(self, what: str, on: Any, *, ddof: int = 1, ignore_nulls: bool = True) -> Any:
        """Returns a number for one column, else a dict of numbers by `what(column)`. None: no rows."""
        names = [on] if isinstance(on, str) else list(on) if on is not None else None
        by_column: dict[str, Summary] = summaries(self._blocks(), names, what, ignore_nulls=ignore_nulls)
        answers = {f"{what}({name})": summary.answer(what, ddof) for name, summary in by_column.items()}
        return next(iter(answers.values()), None) if len(answers) < 2 else answers

    # -- elsewhere ----------------------------------------------------------------------------------------------------
    def to_pandas(self, limit: int | None = None) -> Any:
        """Returns one DataFrame of all rows. ValueError when there are more than `limit`."""
        block = _block.concat(self._blocks()) if limit is None else self._first(limit + 1)
        if limit is not None and block.rows > limit:
            raise ValueError(f"to_pandas: the dataset has more than {limit} rows; give a larger limit, or None")
        return block.with_counted_nulls().pandas()

    def to_arrow(self) -> Any:
        """Returns one pyarrow Table of all rows."""
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
        """Writes all rows as files into the folder `path`. They appear when all are written.

        Names of files are made of run, write and block, so an attempt that is retried replaces its own files.

        filesystem: a pyarrow or fsspec file system that `path` lies on.
        num_rows_per_file: rows of each file but the last; min_rows_per_file or max_rows_per_file in its place means the same.
        mode: a SaveMode: what happens when files of other writes are there.
        options: row_group_size, and the options of pyarrow's ParquetWriter.
        """
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
        """Writes all rows as CSV files into the folder `path`. Arguments are those of `write_parquet`."""
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
        """Writes all rows as files with a JSON object in each line into the folder `path`. Arguments are those of `write_parquet`."""
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


def _first_blocks(node: Node, order: Order) -> Iterator[Block]:
    """Yields the first rows of a node, for a reader that needs few. A function receives at most 64 rows before the first block
    is yielded.

    The blocks grow, so that a longer read takes no more time than an iteration.
    """
    return (block for _, blocks in _first_pieces(node, order, 1) for block in blocks if block.rows)


def _first_pieces(node: Node, order: Order, unit: int) -> Iterator[tuple[Piece, Iterator[Block]]]:
    """Yields the pieces, each with blocks of its rows. unit: the rows of a block are a multiple of it, like batches of
    functions."""
    if isinstance(node, Mapped):
        for op in node.ops:
            unit = math.lcm(unit, op.each or 1) if math.lcm(unit, op.each or 1) <= _LOOK_ROWS else unit
        for piece, blocks in _first_pieces(node.child, order, unit):
            yield Piece(piece, UNKNOWN, piece.group), node.in_parts(blocks, piece, order)
        return
    run = node.start(order)
    for piece in run.pieces():
        yield piece, _growing(run, piece, _LOOK_ROWS // unit * unit, whole=isinstance(node, Read))


def _growing(run: Run, piece: Piece, rows: int, *, whole: bool) -> Iterator[Block]:
    """Yields a piece in blocks of `rows` rows, doubled each time. whole: the piece is read once, because no function makes it."""
    block = run.read(piece) if whole else None
    start = 0
    while start < piece.rows:
        stop = min(start + rows, piece.rows)
        yield part_of(run, piece, start, stop) if block is None else block.slice(start, stop)
        start, rows = stop, 2 * rows


public_in("rtrain.data", Schema)
