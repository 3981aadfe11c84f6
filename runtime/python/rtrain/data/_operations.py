"""Operations on a dataset's rows and columns. Each returns a dataset whose plan has one more step, and reads nothing."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from rtrain._arguments import OPERATIONS, check
from rtrain._lazy import public_in
from rtrain.data._block import check_format
from rtrain.data._consume import Reading
from rtrain.data._files import Parquet
from rtrain.data._joins import Rebatched
from rtrain.data._making._placing import placing_of
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
from rtrain.data._orders import BlockOrder, Shuffled
from rtrain.data._plan import Mapped, Node, Read
from rtrain.data._share import seed_for

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from rtrain._argument_types import OperationArguments


class Operations(Reading):
    """The part of a Dataset that changes rows and columns."""

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
    ) -> Self:
        """Returns a Dataset of the results of `fn` for each row. Rows are dicts. If `fn` is a class, each thread or process
        creates one instance.

        concurrency: threads or processes that call `fn` at the same time; left out, as many as the CPUs allow, and one for a
        class.
        compute: a TaskPoolStrategy, or for a class an ActorPoolStrategy, instead of `concurrency`.
        num_cpus, memory: CPUs and bytes of each thread or process, out of those of the rank and its node.
        fn_args, fn_kwargs: further arguments of `fn`. fn_constructor_args, fn_constructor_kwargs: arguments of the class.
        """
        where = placing_of("map", placing, is_class=inspect.isclass(fn))
        return self._with(MapRows(Function("map", fn, fn_args, fn_kwargs, fn_constructor_args, fn_constructor_kwargs, where)))

    def flat_map(
        self,
        fn: Any,
        *,
        fn_args: Any = None,
        fn_kwargs: Any = None,
        fn_constructor_args: Any = None,
        fn_constructor_kwargs: Any = None,
        **placing: Unpack[OperationArguments],
    ) -> Self:
        """Returns a Dataset of the rows in the lists that `fn` returns, one list for each row. Arguments are those of `map`."""
        where = placing_of("flat_map", placing, is_class=inspect.isclass(fn))
        return self._with(
            FlatMap(Function("flat_map", fn, fn_args, fn_kwargs, fn_constructor_args, fn_constructor_kwargs, where))
        )

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
    ) -> Self:
        """Returns a Dataset of the rows for which `fn` returns True, or that fit `expr`.

        expr: an expression of pyarrow.compute, as `pc.field("x") > 3`.

        ValueError unless exactly one of the two is given. TypeError for another kind of `expr`, a text among them.
        """
        where = placing_of("filter", placing, is_class=inspect.isclass(fn))
        if (fn is None) == (expr is None):
            raise ValueError("filter needs either fn or expr")
        if expr is not None:
            if not isinstance(expr, pc.Expression):
                raise TypeError(
                    f"filter: expr is a {type(expr).__name__}; it is an expression such as pyarrow.compute.field('x') > 3"
                )
            return self._with(FilterExpression(expr))
        return self._with(Filter(Function("filter", fn, fn_args, fn_kwargs, fn_constructor_args, fn_constructor_kwargs, where)))

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
    ) -> Self:
        """Returns a Dataset of the results of `fn` for each batch of `batch_size` rows. `fn` may also yield several batches.

        batch_size: the last batch of all rows, or of a stream, may have fewer. If only reading finds the preceding rows (CSV
        and JSON files, or after `filter`), batches also end with a piece. None and "auto" pass pieces as they are read: at most
        4 MiB or 65,536 rows.
        batch_format: the type that `fn` receives: "default", "numpy" (a dict of arrays), "pandas" or "pyarrow". Its result may
        have any of these types.
        zero_copy_batch: the arrays may be read-only.
        udf_modifying_row_count: True if `fn` may return more or fewer rows than it receives. With False, rows keep their
        positions, so a resumed epoch reads no row again. An error is raised if False is wrong.
        """
        where = placing_of("map_batches", placing, is_class=inspect.isclass(fn))
        check_format(batch_format, "map_batches")
        size = None if batch_size in ("default", "auto") else batch_size
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
            raise ValueError(f"map_batches: batch_size is {batch_size!r}; it is a whole number from 1 on, or None")
        function = Function("map_batches", fn, fn_args, fn_kwargs, fn_constructor_args, fn_constructor_kwargs, where)
        keeps = None if udf_modifying_row_count is None else not udf_modifying_row_count
        op = MapBatches(function, size, batch_format, private=not zero_copy_batch, keeps_rows=keeps)
        return self._of(Mapped(Rebatched(self._node, size), (op,))) if size is not None else self._with(op)

    def random_sample(self, fraction: float, *, seed: int | None = None) -> Self:
        """Returns a Dataset that has each row with the probability `fraction`. It has the same rows in every epoch.

        ValueError for a fraction that does not lie between 0 and 1.
        """
        if not 0 <= fraction <= 1:
            raise ValueError(f"random_sample: fraction is {fraction}; it lies between 0 and 1")
        return self._with(Sample(fraction, seed_for(self._node.says()) if seed is None else seed))

    # -- columns ------------------------------------------------------------------------------------------------------
    def add_column(
        self, col: str, fn: Any, *, batch_format: str | None = "pandas", **placing: Unpack[OperationArguments]
    ) -> Self:
        """Returns a Dataset with the column `col`, whose values are what `fn` returns for each batch. It replaces one of that name.

        batch_format: what `fn` is given: "pandas", "numpy", "default" or "pyarrow".
        """
        where = placing_of("add_column", placing, is_class=inspect.isclass(fn))
        check_format(batch_format, "add_column")
        if not isinstance(col, str):
            raise TypeError(f"add_column: the column's name is a text, not {type(col).__name__}")
        return self._with(AddColumn(col, Function("add_column", fn, placing=where), batch_format))

    def drop_columns(self, cols: str | Sequence[str], **placing: Unpack[OperationArguments]) -> Self:
        """Returns a Dataset without the columns `cols`. KeyError for an unknown column.

        The error is raised at once if the columns are known, else when rows are read.
        """
        check("drop_columns", placing, OPERATIONS)
        gone = self._named("drop_columns", cols)
        return self._with(Columns("drop_columns", _Dropped(gone), gone))

    def select_columns(self, cols: str | Sequence[str], **placing: Unpack[OperationArguments]) -> Self:
        """Returns a Dataset with the columns `cols` only, in this order. Parquet files are read for these columns only.

        KeyError for an unknown column: at once if the columns are known, else when rows are read.
        """
        check("select_columns", placing, OPERATIONS)
        columns = self._named("select_columns", cols)
        source = self._node.source if isinstance(self._node, Read) else None
        if isinstance(source, Parquet) and source.columns is None and not source.include_paths:
            return self._of(Read(source.selected(columns)))
        return self._with(Columns("select_columns", _Selected(columns), columns))

    def rename_columns(self, names: Mapping[str, str] | Sequence[str], **placing: Unpack[OperationArguments]) -> Self:
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
        """Returns the columns as a list. KeyError for an unknown one if the columns are known."""
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

    # -- how plans grow -------------------------------------------------------------------------------------------------
    def _of(self, node: Node) -> Self:
        return type(self)(node)

    def _with(self, op: Op) -> Self:
        node = self._node
        if isinstance(node, Shuffled | BlockOrder) and isinstance(op, Filter | FilterExpression | FlatMap | Sample):
            return self._of(
                node.over(self._of(node.child)._with(op)._node)
            )  # A window of the shuffle then holds the remaining rows.
        if isinstance(node, Mapped) and (node.keeps_rows or not op.keeps_rows):
            return self._of(Mapped(node.child, (*node.ops, op)))
        return self._of(Mapped(node, (op,)))


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


public_in("rtrain.data._dataset", _Dropped, _Selected, _Renamed)  # the module by which pickles of version 0.1.0 refer to them
