"""The classes that refer to each other. A `Dataset` is a plan that grows by operations. Its `groupby` returns a `GroupedData`,
and an iteration is a `DataIterator`. Both of these return Datasets again."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rtrain._arguments import OPERATIONS, check, check_named
from rtrain._lazy import public_in
from rtrain.data import _block, _grouped
from rtrain.data._block import Block
from rtrain.data._consume import Schema
from rtrain.data._dealing._board import Beside
from rtrain.data._in_streams._packed import packed
from rtrain.data._iterator import Epochs
from rtrain.data._joins import Computed, Slice, Union, Zip
from rtrain.data._operations import Operations
from rtrain.data._ops import Function
from rtrain.data._orders import WINDOW_BYTES, BlockOrder, Frozen, Shuffled
from rtrain.data._plan import Node, materialized, rows_of
from rtrain.data._share import Share, seed_for

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rtrain._argument_types import OperationArguments

_nan = float("nan")  # stands for all NaN values of a column, which count as one value


class Dataset(Operations):
    """Rows with named columns. An operation returns a new Dataset and reads nothing; a Dataset is pickled as its plan."""

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
        return Dataset(Shuffled(self._node, check_seed("random_shuffle", seed), window_bytes))

    def randomize_block_order(self, *, seed: int | None = None) -> Dataset:
        """Returns a Dataset with row groups, files or pieces in a random order; the rows of each stay together. It costs nothing."""
        return Dataset(BlockOrder(self._node, check_seed("randomize_block_order", seed)))

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

    def pack(
        self,
        length: int,
        columns: str | Sequence[str] = "input_ids",
        *,
        split_documents: bool = True,
        drop_last: bool = False,
        padding: int | Mapping[str, int] = 0,
    ) -> Dataset:
        """Returns a Dataset of rows with `length` tokens each, which are filled with the lists in `columns`.

        A row has each of `columns`, an array of shape [length] of the lists' type, and two arrays of int32 of that shape:
        `document_ids` numbers the lists of the row from 0 on, and is -1 behind the last token. `position_ids` counts from 0 in
        each of them. Other columns are left out. Lists without values take no room.

        columns: one or several columns of lists of numbers. In a row of this Dataset all of them have one length.
        split_documents: fills every row; a list that does not fit continues in the next row, as a document of that row. With
        False, lists stay whole: up to 1,024 neighbours are packed together, each into the row with the least room that fits it.
        A list longer than a row is split in both cases.
        drop_last: leaves out the tokens at the end of each stream that fill no row. With False, padding fills the row.
        padding: the value behind the last token of a row, for all columns or by column.

        ValueError for another length, columns or padding; KeyError for a column that is not there. When rows are read: TypeError
        for a column that has no lists of numbers, ValueError for nulls and for columns with lists of unlike lengths.
        """
        return Dataset(packed(self._node, length, columns, padding, split=split_documents, drop_last=drop_last))

    def zip(self, *others: Dataset) -> Dataset:
        """Returns a Dataset with the columns of all, row by row. ValueError, when rows are read, if the numbers of rows differ."""
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
        """Returns the groups of rows with equal values in the column or columns `key`. NaN equals NaN. Reads nothing."""
        return GroupedData(self, self._named("groupby", key))

    def split(self, n: int, *, equal: bool = False, locality_hints: object = None) -> list[Dataset]:
        """Returns `n` Datasets of neighbouring rows.

        equal: all have as many rows; at most n - 1 rows are left out. With False, the first ones have one row more.
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

    # -- iterating ----------------------------------------------------------------------------------------------------
    def iterator(self) -> DataIterator:
        """Returns a DataIterator that reads all rows in each epoch."""
        return DataIterator(Share(self._node))

    def streaming_split(self, n: int, *, equal: bool = False, locality_hints: object = None) -> list[DataIterator]:
        """Returns `n` iterators that together read all rows of each epoch, each its own part.

        equal: all read as many rows; at most n - 1 rows are left out.
        locality_hints: changes nothing.
        """
        if not isinstance(n, int) or n < 1:
            raise ValueError(f"streaming_split: n is {n!r}; it is a whole number from 1 on")
        check_named("streaming_split", locality_hints=locality_hints)
        seed = seed_for(self._node.says())
        board = Beside()
        return [DataIterator(Share(self._node, rank, n, equal=equal, seed=seed, board=board)) for rank in range(n)]

    # -- in a run -----------------------------------------------------------------------------------------------------
    def rtrain_shard(self, rank: int, count: int) -> DataIterator:
        """Returns the share of rank `rank` of `count` ranks. A trainer's `datasets=` calls it; random choices use seed 0."""
        return DataIterator(Share(self._node, rank, count, seed=0))

    def rtrain_share_of_run(
        self,
        rank: int,
        count: int,
        seed: int,
        *,
        equal: bool,
        streams: int | None = None,
        usual_streams: int | None = None,
    ) -> DataIterator:
        """Returns the share of rank `rank` of `count` ranks, with the run's `seed` for random choices without their own seed.

        equal: every rank gets equally many rows, and rows that do not divide evenly are dropped. With False, no row is dropped.
        streams: how many streams an epoch is cut into. usual_streams: how many if neither `streams` nor a state sets it.
        """
        return DataIterator(Share(self._node, rank, count, equal=equal, seed=seed, streams=streams, usual_streams=usual_streams))

    # -- how plans grow -------------------------------------------------------------------------------------------------
    def _computed(self, text: str, compute: Callable[[Block], Block]) -> Dataset:
        return Dataset(Computed(self._node, text, compute, seed_for(text)))

    def _frozen(self) -> Node:
        return self._node if self._node.steady else Frozen(self._node, seed_for(self._node.says()))


class GroupedData:
    """The groups that `Dataset.groupby` returns. A process that computes with them holds all rows in memory."""

    def __init__(self, dataset: Dataset, keys: Sequence[str]) -> None:
        self._dataset, self._keys = dataset, list(keys)

    def count(self) -> Dataset:
        """Returns a Dataset with a row for each group: its key, and its number of rows in the column `count()`."""
        return self._aggregated([([], "count_all", "count()")], [])

    def sum(self, on: Any = None) -> Dataset:
        """Returns a Dataset with a row for each group: its key, and the sum of each column in `sum(column)`.

        on: a column or several; left out, all but the key.
        """
        return self._by("sum", on)

    def min(self, on: Any = None) -> Dataset:
        """Returns a Dataset with a row for each group: its key, and the least value of each column in `min(column)`.

        on: as for `sum`.
        """
        return self._by("min", on)

    def max(self, on: Any = None) -> Dataset:
        """Returns a Dataset with a row for each group: its key, and the greatest value of each column in `max(column)`.

        on: as for `sum`.
        """
        return self._by("max", on)

    def mean(self, on: Any = None) -> Dataset:
        """Returns a Dataset with a row for each group: its key, and the mean of each column in `mean(column)`.

        on: as for `sum`.
        """
        return self._by("mean", on)

    def std(self, on: Any = None, ddof: int = 1) -> Dataset:
        """Returns a Dataset with a row for each group: its key, and the standard deviation of each column in `std(column)`.

        on: as for `sum`. ddof: the divisor is the number of rows less `ddof`.
        """
        names = self._columns(on)
        option = pc.VarianceOptions(ddof=ddof)
        return self._aggregated([(name, "stddev", f"std({name})", option) for name in names], names)

    def map_groups(self, fn: Any, *, batch_format: str | None = "default", fn_args: Any = None, fn_kwargs: Any = None) -> Dataset:
        """Returns a Dataset of the batches that `fn` returns, one for each group's rows, which it gets as one batch.

        batch_format: what `fn` is given, as in `Dataset.map_batches`. fn_args, fn_kwargs: further arguments of `fn`.
        """
        _block.check_format(batch_format, "map_groups")
        keys = self._keys
        function = Function("map_groups", fn, fn_args, fn_kwargs)

        def compute(whole: Block) -> Block:
            return _block.concat(_grouped._mapped_group(function, group, batch_format) for group in _grouped._groups(whole, keys))

        return self._dataset._computed(f"groupby({', '.join(keys)}) -> {function.said}", compute)

    def _by(self, what: str, on: Any) -> Dataset:
        names = self._columns(on)
        return self._aggregated([(name, what, f"{what}({name})") for name in names], names)

    def _columns(self, on: Any) -> list[str]:
        if on is None:
            return [name for name in self._dataset.columns() or [] if name not in self._keys]
        return [on] if isinstance(on, str) else list(on)

    def _aggregated(self, aggregations: list[tuple[Any, ...]], needed: list[str]) -> Dataset:
        keys = self._keys

        def compute(whole: Block) -> Block:
            if not whole.rows:
                return Block({})
            table = whole.select(list(dict.fromkeys([*keys, *needed])), "groupby").arrow()
            return _block.from_arrow(
                _grouped._aggregate(table, keys, aggregations).sort_by([(name, "ascending") for name in keys])
            )

        text = f"groupby({', '.join(keys)}).{', '.join(str(aggregation[2]) for aggregation in aggregations)}"
        return self._dataset._computed(text, compute)


class DataIterator(Epochs):
    """Reads a dataset, or one rank's share of it. Each iteration is one epoch.

    It can be pickled. `state_dict` returns how far the newest iteration is, in rows that the loop received.
    """

    def schema(self) -> Schema | None:
        """Returns names and types of the columns. Returns None if the files do not describe them and there are no rows."""
        return Dataset(self._share.node).schema()

    def columns(self) -> list[str] | None:
        """Returns the names of the columns in their order. Returns None if they are known from rows only and there are no rows."""
        return Dataset(self._share.node).columns()

    def to_tf(
        self,
        feature_columns: str | list[str],
        label_columns: str | list[str],
        *,
        additional_columns: str | list[str] | None = None,
        prefetch_batches: int = 1,
        batch_size: int = 1,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        feature_type_spec: Any = None,
        label_type_spec: Any = None,
        additional_type_spec: Any = None,
    ) -> Any:
        """Returns a tf.data.Dataset of batches (features, labels), and of `additional_columns` if they are given.

        feature_columns, label_columns, additional_columns: one name gives a tensor, a list gives a dict of tensors.
        *_type_spec: a `tf.TensorSpec`, or a dict of them by column; None: types and shapes of the first row, which is read
        for that.

        Each iteration is an epoch. The other arguments are those of `iter_batches`. ValueError names an unknown column.
        """
        from rtrain.data._values import _tensorflow

        groups = [(feature_columns, feature_type_spec), (label_columns, label_type_spec)]
        if additional_columns is not None:
            groups.append((additional_columns, additional_type_spec))
        batches = self.iter_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
        )
        return _tensorflow.dataset(batches, groups, lambda: Dataset(self._share.node).take_batch(1))

    def materialize(self) -> Dataset:
        """Returns a Dataset with this share's rows of the next epoch, held in memory."""
        progress, rows = self._share.begin()
        in_memory = _block.concat(rows.blocks())
        progress.consumed, progress.ended = in_memory.rows, True
        return Dataset(materialized(in_memory, self._share.node.says()))


def _slice(whole: Node, start: int, stop: int | None) -> Dataset:
    return Dataset(Slice(whole, start, stop, f"rows {start} to {'the end' if stop is None else stop}"))


def _node_of(caller: str, other: Any) -> Node:
    if not isinstance(other, Dataset):
        raise TypeError(f"{caller} takes datasets, not {type(other).__name__}")
    return other._node


def check_seed(caller: str, seed: Any) -> int | None:
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
        raise ValueError(f"{caller}: seed is {seed!r}; it is a whole number from 0 on, or None")
    return seed


__all__ = ["DataIterator", "Dataset", "GroupedData", "Schema"]

public_in("rtrain.data", DataIterator, Dataset, GroupedData)
