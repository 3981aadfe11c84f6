"""`Dataset`: a plan that grows by operations and is read when somebody asks for rows. This half makes plans."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rtrain._arguments import OPERATIONS, check, check_named
from rtrain._lazy import public_in
from rtrain.data import _block
from rtrain.data._block import Block, check_format
from rtrain.data._consume import Reading, Schema
from rtrain.data._files import Parquet
from rtrain.data._grouped import GroupedData
from rtrain.data._iterator import DataIterator
from rtrain.data._joins import Computed, Slice, Union, Zip
from rtrain.data._ops import (
    AddColumn,
    Columns,
    Filter,
    FilterExpression,
    FlatMap,
    Function,
    MapBatches,
    MapRows,
    Op,
    Sample,
)
from rtrain.data._orders import WINDOW_BYTES, BlockOrder, Frozen, Shuffled
from rtrain.data._plan import Mapped, Node, Read, materialized, rows_of
from rtrain.data._seeds import seed_for
from rtrain.data._share import Share

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rtrain._argument_types import OperationArguments

_nan = float("nan")  # of all NaN in a column one is kept


class Dataset(Reading):
    """Rows with named columns. An operation returns a new Dataset and reads nothing; a Dataset is pickled as its plan."""

    def __init__(self, node: Node) -> None:
        self._node = node

    # -- rows by functions --------------------------------------------------------------------------------------------
    def map(
        self,
        fn: Any,
        *,
        fn_args: Any = None,
        fn_kwargs: Any = None,
        fn_constructor_args: Any = None,
        fn_constructor_kwargs: Any = None,
        **placing: Unpack[OperationArguments],
    ) -> Dataset:
        """Returns a Dataset of what `fn` returns for each row; rows are dicts. A class as `fn` is made once in each process.

        fn_args, fn_kwargs: further arguments of `fn`. fn_constructor_args, fn_constructor_kwargs: arguments of the class.
        """
        check("map", placing, OPERATIONS)
        return self._with(MapRows(Function("map", fn, fn_args, fn_kwargs, fn_constructor_args, fn_constructor_kwargs)))

    def flat_map(
        self,
        fn: Any,
        *,
        fn_args: Any = None,
        fn_kwargs: Any = None,
        fn_constructor_args: Any = None,
        fn_constructor_kwargs: Any = None,
        **placing: Unpack[OperationArguments],
    ) -> Dataset:
        """Returns a Dataset of the rows in the lists that `fn` returns, one list for each row. Arguments are those of `map`."""
        check("flat_map", placing, OPERATIONS)
        return self._with(FlatMap(Function("flat_map", fn, fn_args, fn_kwargs, fn_constructor_args, fn_constructor_kwargs)))

    def filter(
        self,
        fn: Any = None,
        expr: Any = None,
        *,
        fn_args: Any = None,
        fn_kwargs: Any = None,
        fn_constructor_args: Any = None,
        fn_constructor_kwargs: Any = None,
        **placing: Unpack[OperationArguments],
    ) -> Dataset:
        """Returns a Dataset of the rows for which `fn` returns True, or that fit `expr`.

        expr: an expression of pyarrow.compute, as `pc.field("x") > 3`.

        ValueError unless exactly one of the two is given. TypeError for another kind of `expr`, a text among them.
        """
        check("filter", placing, OPERATIONS)
        if (fn is None) == (expr is None):
            raise ValueError("filter needs either fn or expr")
        if expr is not None:
            if not isinstance(expr, pc.Expression):
                raise TypeError(
                    f"filter: expr is a {type(expr).__name__}; it is an expression such as pyarrow.compute.field('x') > 3"
                )
            return self._with(FilterExpression(expr))
        return self._with(Filter(Function("filter", fn, fn_args, fn_kwargs, fn_constructor_args, fn_constructor_kwargs)))

    def map_batches(
        self,
        fn: Any,
        *,
        batch_size: int | str | None = None,
        batch_format: str | None = "default",
        zero_copy_batch: bool = False,
        fn_args: Any = None,
        fn_kwargs: Any = None,
        fn_constructor_args: Any = None,
        fn_constructor_kwargs: Any = None,
        udf_modifying_row_count: bool | None = None,
        **placing: Unpack[OperationArguments],
    ) -> Dataset:
        """Returns a Dataset of what `fn` returns for each batch of at most `batch_size` rows. `fn` may also yield several batches.

        batch_size: None and "auto" give a piece as it is read: at most 4 MiB or 65,536 rows. No batch is larger.
        batch_format: what `fn` is given: "default", "numpy" (a dict of arrays), "pandas" or "pyarrow". It may return any of these.
        zero_copy_batch: the arrays may be read-only.
        udf_modifying_row_count: whether `fn` returns more or fewer rows than it was given. Ranks that share rows must know how
        many there are. Unless this is False, `fn` is called once more to count them. A False that does not hold is refused.
        """
        check("map_batches", placing, OPERATIONS)
        check_format(batch_format, "map_batches")
        size = None if batch_size in ("default", "auto") else batch_size
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
            raise ValueError(f"map_batches: batch_size is {batch_size!r}; it is a whole number from 1 on, or None")
        function = Function("map_batches", fn, fn_args, fn_kwargs, fn_constructor_args, fn_constructor_kwargs)
        keeps = None if udf_modifying_row_count is None else not udf_modifying_row_count
        return self._with(MapBatches(function, size, batch_format, private=not zero_copy_batch, keeps_rows=keeps))

    def random_sample(self, fraction: float, *, seed: int | None = None) -> Dataset:
        """Returns a Dataset that has each row with the probability `fraction`. It has the same rows in every epoch.

        ValueError for a fraction that does not lie between 0 and 1.
        """
        if not 0 <= fraction <= 1:
            raise ValueError(f"random_sample: fraction is {fraction}; it lies between 0 and 1")
        return self._with(Sample(fraction, seed_for(self._node.says()) if seed is None else seed))

    # -- columns ------------------------------------------------------------------------------------------------------
    def add_column(
        self, col: str, fn: Any, *, batch_format: str | None = "pandas", **placing: Unpack[OperationArguments]
    ) -> Dataset:
        """Returns a Dataset with the column `col`, whose values are what `fn` returns for each batch. It replaces one of that name.

        batch_format: what `fn` is given: "pandas", "numpy", "default" or "pyarrow".
        """
        check("add_column", placing, OPERATIONS)
        check_format(batch_format, "add_column")
        if not isinstance(col, str):
            raise TypeError(f"add_column: the column's name is a text, not {type(col).__name__}")
        return self._with(AddColumn(col, Function("add_column", fn), batch_format))

    def drop_columns(self, cols: str | Sequence[str], **placing: Unpack[OperationArguments]) -> Dataset:
        """Returns a Dataset without the columns `cols`. KeyError for a column that is not there.

        The error comes at once where the columns are known, else when rows are read.
        """
        check("drop_columns", placing, OPERATIONS)
        gone = self._named("drop_columns", cols)
        return self._with(Columns("drop_columns", _Dropped(gone), gone))

    def select_columns(self, cols: str | Sequence[str], **placing: Unpack[OperationArguments]) -> Dataset:
        """Returns a Dataset with the columns `cols` alone, in this order. Of Parquet files only these columns are read.

        KeyError for a column that is not there, at once where the columns are known, else when rows are read.
        """
        check("select_columns", placing, OPERATIONS)
        columns = self._named("select_columns", cols)
        source = self._node.source if isinstance(self._node, Read) else None
        if isinstance(source, Parquet) and source.columns is None and not source.include_paths:
            return Dataset(Read(source.selected(columns)))
        return self._with(Columns("select_columns", _Selected(columns), columns))

    def rename_columns(self, names: Mapping[str, str] | Sequence[str], **placing: Unpack[OperationArguments]) -> Dataset:
        """Returns a Dataset with other names of columns: new names by old ones, or a list with a name for every column.

        ValueError when two columns would have one name, or a list has another length.
        """
        check("rename_columns", placing, OPERATIONS)
        if not isinstance(names, Mapping):
            there = self.columns() or []
            if len(names) != len(there):
                raise ValueError(f"rename_columns: {len(names)} names for {len(there)} columns ({', '.join(there)})")
            names = dict(zip(there, names, strict=True))
        renamed = dict(names)
        self._named("rename_columns", list(renamed))
        known = self._node.names()
        after = [renamed.get(name, name) for name in known] if known is not None else list(renamed.values())
        if len(set(after)) < len(after):
            raise ValueError(f"rename_columns: two columns would have one name: {', '.join(after)}")
        return self._with(Columns("rename_columns", _Renamed(renamed), list(renamed)))

    def _named(self, caller: str, cols: str | Sequence[str]) -> list[str]:
        """KeyError at once where the columns are known."""
        columns = [cols] if isinstance(cols, str) else list(cols)
        if not all(isinstance(name, str) for name in columns):
            raise TypeError(f"{caller}: column names are texts")
        if len(set(columns)) < len(columns):
            raise ValueError(f"{caller}: a column is named twice in {columns}")
        known = self._node.names()
        missing = [name for name in columns if known is not None and name not in known]
        if missing:
            raise KeyError(f"{caller}: there is no column {missing[0]!r}; there are: {', '.join(known or [])}")
        return columns

    # -- order, parts ---------------------------------------------------------------------------------------------------
    def random_shuffle(
        self,
        *,
        seed: int | None = None,
        num_blocks: object = None,
        window_bytes: int = WINDOW_BYTES,
        **placing: Unpack[OperationArguments],
    ) -> Dataset:
        """Returns a Dataset with all rows in a random order, another one in each epoch of a shard.

        seed: makes the orders the same in each run.
        num_blocks: changes nothing.
        window_bytes: of files, row groups (or files) come in a random order, and rows are permuted within windows of so many
        bytes. Every reader holds a window in memory. Rows that are in memory already are permuted as a whole.
        """
        check("random_shuffle", placing, OPERATIONS)
        check_named("random_shuffle", num_blocks=num_blocks)
        if window_bytes < 1:
            raise ValueError(f"random_shuffle: window_bytes is {window_bytes}; it is at least 1")
        return Dataset(Shuffled(self._node, _seed("random_shuffle", seed), window_bytes))

    def randomize_block_order(self, *, seed: int | None = None) -> Dataset:
        """Returns a Dataset with row groups, files or pieces in a random order; the rows of each stay together. It costs nothing."""
        return Dataset(BlockOrder(self._node, _seed("randomize_block_order", seed)))

    def repartition(
        self,
        num_blocks: int | None = None,
        *,
        target_num_rows_per_block: int | None = None,
        shuffle: bool = False,
        **placing: Unpack[OperationArguments],
    ) -> Dataset:
        """Returns this Dataset as it is; with `shuffle`, `random_shuffle()` of it.

        Pieces are as large as memory allows, and every number of ranks shares them evenly, so other arguments change nothing.
        """
        check("repartition", placing, OPERATIONS)
        check_named("repartition", num_blocks=num_blocks, target_num_rows_per_block=target_num_rows_per_block)
        return self.random_shuffle() if shuffle else self

    def limit(self, limit: int) -> Dataset:
        """Returns a Dataset of the first `limit` rows, or of all where there are fewer. ValueError for a negative number."""
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise ValueError(f"limit is {limit!r}; it is a whole number from 0 on")
        return Dataset(Slice(self._node, 0, limit, f"limit({limit})"))

    def union(self, *others: Dataset) -> Dataset:
        """Returns a Dataset of the rows of this one, then those of the others. A column that one of them lacks is null there."""
        return Dataset(Union([self._node, *(_node_of("union", other) for other in others)]))

    def zip(self, *others: Dataset) -> Dataset:
        """Returns a Dataset with the columns of all, row by row. ValueError, when rows are read, if one has more rows than another."""
        node = self._node
        for other in others:
            node = Zip(node, _node_of("zip", other))
        return Dataset(node)

    def sort(self, key: str | Sequence[str], descending: bool | Sequence[bool] = False) -> Dataset:  # noqa: FBT001, FBT002
        """Returns a Dataset sorted by the column or columns `key`. Each process that reads it holds all rows in memory.

        descending: for all columns, or one for each.
        """
        keys = self._named("sort", key)
        downs = [descending] * len(keys) if isinstance(descending, bool) else list(descending)
        if len(downs) != len(keys):
            raise ValueError(f"sort: {len(downs)} directions for {len(keys)} keys")
        by = [(name, "descending" if down else "ascending") for name, down in zip(keys, downs, strict=True)]

        def compute(whole: Block) -> Block:
            if not whole.rows:
                return whole
            return whole.take(pc.sort_indices(whole.select(keys, "sort").arrow(), sort_keys=by).to_numpy())

        return self._computed(f"sort({', '.join(keys)})", compute)

    def unique(self, column: str) -> list[Any]:
        """Returns the values of a column, each once, in the order of their first appearance. Reads all rows."""
        self._named("unique", column)
        distinct: dict[Any, None] = {}
        for block in self._blocks():
            array = _block.as_arrow(block.column(column, "unique"), column)
            try:
                values = _block.values_of(array.unique(), column)
            except pa.ArrowNotImplementedError as error:
                raise TypeError(f"unique: the column {column!r} holds {array.type}, which cannot be compared: {error}") from error
            distinct.update(dict.fromkeys(_nan if _block.is_nan(value) else value for value in values))
        return list(distinct)

    def groupby(self, key: str | Sequence[str]) -> GroupedData:
        """Returns the groups of rows with equal values in the column or columns `key`; NaN equals NaN. Nothing is read yet."""
        return GroupedData(self, self._named("groupby", key))

    def split(self, n: int, *, equal: bool = False, locality_hints: object = None) -> list[Dataset]:
        """Returns `n` Datasets of neighbouring rows.

        equal: all have as many rows; at most n - 1 rows are left out. Else the first ones have one row more.
        locality_hints: changes nothing.
        """
        check_named("split", locality_hints=locality_hints)
        if not isinstance(n, int) or n < 1:
            raise ValueError(f"split: n is {n!r}; it is a whole number from 1 on")
        whole = self._frozen()
        each, over = divmod(rows_of(whole), n)
        ends = [0]
        for place in range(n):
            ends.append(ends[-1] + each + (0 if equal else int(place < over)))
        return [_slice(whole, start, stop) for start, stop in itertools.pairwise(ends)]

    def split_at_indices(self, indices: Sequence[int]) -> list[Dataset]:
        """Returns Datasets of the rows before the first index, between neighbouring indices, and from the last index on.

        There is one more of them than there are indices. ValueError unless the indices ascend from 0 on, and where there is none.
        """
        places = list(indices)
        if not places or any(place < 0 for place in places) or places != sorted(places):
            raise ValueError(f"split_at_indices: {places} are no ascending row numbers from 0 on")
        whole = self._frozen()
        return [_slice(whole, start, stop) for start, stop in zip([0, *places], [*places, None], strict=True)]

    def split_proportionately(self, proportions: Sequence[float]) -> list[Dataset]:
        """Returns a Dataset for each of the proportions, and one with the rows that are left.

        ValueError unless the proportions are above 0 and their sum is below 1.
        """
        if not proportions or any(proportion <= 0 for proportion in proportions) or sum(proportions) >= 1:
            raise ValueError(f"split_proportionately: {list(proportions)} are not all above 0 and below 1 together")
        rows = rows_of(self._node)
        ends = np.floor(np.cumsum(list(proportions)) * rows + 1e-9).astype(int)
        return self.split_at_indices([int(end) for end in ends])

    def train_test_split(
        self, test_size: int | float, *, shuffle: bool = False, seed: int | None = None, stratify: None = None
    ) -> tuple[Dataset, Dataset]:
        """Returns two Datasets: the first rows, and the last `test_size` rows. They are the same in every epoch.

        test_size: a number of rows, or a part of all between 0 and 1.
        shuffle, seed: shuffle the rows before.

        ValueError for another test_size; NotImplementedError for `stratify`.
        """
        if stratify is not None:
            raise NotImplementedError("train_test_split(stratify=) is not there; groupby(...).map_groups can do it")
        source = self.random_shuffle(seed=seed) if shuffle else self
        whole = source._frozen()
        rows = rows_of(whole)
        if isinstance(test_size, float) and 0 < test_size < 1:
            test = round(rows * test_size)
        elif isinstance(test_size, int) and not isinstance(test_size, bool) and 0 < test_size < rows:
            test = test_size
        else:
            raise ValueError(
                f"train_test_split: test_size is {test_size!r}; it lies between 0 and 1, or is a number of rows below {rows}"
            )
        return _slice(whole, 0, rows - test), _slice(whole, rows - test, None)

    def materialize(self) -> Dataset:
        """Reads all rows and returns a Dataset that holds them in memory."""
        return Dataset(materialized(_block.concat(self._blocks()).with_counted_nulls(), self._node.says()))

    # -- in a run -----------------------------------------------------------------------------------------------------
    def rtrain_shard(self, rank: int, count: int) -> DataIterator:
        """Returns the share of rank `rank` of `count` ranks. A trainer's `datasets=` calls it; seed 0 decides what is random."""
        return DataIterator(Share(self._node, rank, count, seed=0))

    def rtrain_share_of_run(self, rank: int, count: int, seed: int, *, equal: bool) -> DataIterator:
        """Returns the share of rank `rank` of `count` ranks, with the run's `seed` for what is random without one.

        equal: every rank gets equally many rows, and rows that do not divide evenly are dropped. Else no row is dropped.
        """
        return DataIterator(Share(self._node, rank, count, equal=equal, seed=seed))

    # -- how plans grow -------------------------------------------------------------------------------------------------
    def _with(self, op: Op) -> Dataset:
        node = self._node
        if isinstance(node, Shuffled | BlockOrder) and isinstance(op, Filter | FilterExpression | FlatMap | Sample):
            return Dataset(node.over(Dataset(node.child)._with(op)._node))  # counted once, not in each epoch's order
        if isinstance(node, Mapped) and (node.keeps_rows or not op.keeps_rows):
            return Dataset(Mapped(node.child, (*node.ops, op)))
        return Dataset(Mapped(node, (op,)))

    def _computed(self, text: str, compute: Callable[[Block], Block]) -> Dataset:
        return Dataset(Computed(self._node, text, compute, seed_for(text)))

    def _frozen(self) -> Node:
        return self._node if self._node.steady else Frozen(self._node, seed_for(self._node.says()))


class _Dropped:
    def __init__(self, gone: list[str]) -> None:
        self.gone = gone

    def __call__(self, names: list[str]) -> dict[str, str]:
        return {name: name for name in names if name not in self.gone}


class _Selected:
    def __init__(self, names: list[str]) -> None:
        self.wanted = names

    def __call__(self, names: list[str]) -> dict[str, str]:
        return {name: name for name in self.wanted}


class _Renamed:
    def __init__(self, renamed: dict[str, str]) -> None:
        self.renamed = renamed

    def __call__(self, names: list[str]) -> dict[str, str]:
        return {name: self.renamed.get(name, name) for name in names}


def _slice(whole: Node, start: int, stop: int | None) -> Dataset:
    return Dataset(Slice(whole, start, stop, f"rows {start} to {'the end' if stop is None else stop}"))


def _node_of(caller: str, other: Any) -> Node:
    if not isinstance(other, Dataset):
        raise TypeError(f"{caller} takes datasets, not {type(other).__name__}")
    return other._node


def _seed(caller: str, seed: Any) -> int | None:
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
        raise ValueError(f"{caller}: seed is {seed!r}; it is a whole number from 0 on, or None")
    return seed


DataIterator.dataset_class = Dataset  # its rows are a Dataset again

__all__ = ["Dataset", "Schema"]


public_in("rtrain.data", Dataset)
