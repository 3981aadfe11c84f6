"""What is done to each piece: a function of the user's, or a change of columns. An op is small and picklable; a callable class is
made once in each process. An error of the user's function names the op and the line it comes from."""

from __future__ import annotations

import collections
import contextlib
import functools
import inspect
import itertools
import math
import pathlib
import threading
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from rtrain import _chance
from rtrain._lazy import public_in
from rtrain.data import _block
from rtrain.data._block import Block
from rtrain.data._making._made import spread
from rtrain.data._making._placing import Placing

T = TypeVar("T")
_HERE = str(pathlib.Path(__file__).parent)
_idle_instances: dict[str, list[Any]] = {}  # of callable classes, by their op: those that no thread uses now


class _Held(threading.local):
    instances: dict[str, Any] | None = None  # that this thread alone uses now, by their op


_held = _Held()


@contextlib.contextmanager
def own_instances() -> Iterator[None]:
    """Gives this thread instances of callable classes for the block. No other thread uses them meanwhile."""
    if _held.instances is not None:
        yield
        return
    _held.instances = {}
    try:
        yield
    finally:
        held, _held.instances = _held.instances, None
        for key, instance in held.items():
            _idle_instances.setdefault(key, []).append(instance)


class UserCodeError(RuntimeError):
    """A function that an operation of `rtrain.data` was given has failed. The cause (`__cause__`) is what it raised."""


class Op:
    name = ""
    keeps_rows = True
    assumed = False  # keeps_rows is the user's word
    undeclared = False  # keeps_rows is False because nobody said: counting finds out
    each = 0  # the op takes so many rows, from the beginning of a piece, without the others; 0: it needs the whole piece

    def apply(self, block: Block, salt: int) -> Block:
        """`salt` tells pieces apart, for what is drawn at random."""
        raise NotImplementedError

    def apply_from(self, block: Block, salt: int, start: int) -> Block:
        """Applies the op to rows of a piece from row `start` on."""
        return self.apply(block, salt)

    def names(self, before: list[str] | None) -> list[str] | None:
        """The columns after it, where that can be told from those before."""
        return None


class Function:
    """The user's function with its arguments; of a class, an instance for each thread or process that carries it out."""

    concurrency: int | None = None  # `Placing` has these four
    num_cpus = 1.0
    memory = 0
    in_rank = False

    def __init__(
        self,
        op: str,
        fn: Any,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        constructor_args: Iterable[Any] | None = None,
        constructor_kwargs: Mapping[str, Any] | None = None,
        placing: Placing = Placing(),  # noqa: B008 (a value)
    ) -> None:
        if not callable(fn):
            raise TypeError(f"{op} needs a function or a class with __call__, not {type(fn).__name__}")
        named = getattr(fn, "__name__", None) or type(fn).__name__
        self.said = f"{op}({named})"
        self.fn = fn
        self.args, self.kwargs = tuple(args or ()), dict(kwargs or {})
        self.made_with = tuple(constructor_args or ()), dict(constructor_kwargs or {})
        self.key = uuid.uuid4().hex
        # One by one: nodes of version 0.1.0 know no class for them.
        self.concurrency, self.num_cpus = placing.concurrency, placing.num_cpus
        self.memory, self.in_rank = placing.memory, placing.in_rank
        if any(self.made_with) and not inspect.isclass(fn):
            raise ValueError(f"{self.said}: fn_constructor_args are for a class, and {named} is none")

    @property
    def threads(self) -> int | None:
        """Returns how many threads may carry it out at the same time; None: as many as the CPUs allow."""
        return 1 if self.concurrency is None and inspect.isclass(self.fn) else self.concurrency

    def over(self, rows: Sequence[Any], check: Callable[[Any], Any] | None = None) -> list[Any]:
        """Returns what the function returns for each of the rows. check: called with each, in their order."""
        here, returned = _chance.here, list[Any]()
        if here.seeds or _held.instances is None:
            for row in rows:
                returned.append(self(row))
                if check is not None:
                    check(returned[-1])
            return returned
        try:
            call, args, kwargs, add = self._callable(), self.args, self.kwargs, returned.append
            if args or kwargs:
                call = functools.partial(_called, call, args, kwargs)
            for here.place, row in enumerate(rows, here.place + 1):  # noqa: B020
                add(call(row))
        except Exception as error:
            if check is not None:
                collections.deque(map(check, returned), 0)
            raise self.failed(error) from error
        if check is not None and not set(map(type, returned)) <= {dict}:
            collections.deque(map(check, returned), 0)
        return returned

    def __call__(self, value: Any) -> Any:
        if _held.instances is None and inspect.isclass(self.fn):
            with own_instances():
                return self(value)
        _chance.here.place += 1
        if _chance.here.seeds:
            _chance.seed_global_generators()
        try:
            return self._callable()(value, *self.args, **self.kwargs)
        except Exception as error:
            raise self.failed(error) from error

    def _callable(self) -> Any:
        if not inspect.isclass(self.fn):
            return self.fn
        held = {} if _held.instances is None else _held.instances
        if self.key not in held:
            try:
                held[self.key] = _idle_instances.get(self.key, []).pop()
            except IndexError:
                held[self.key] = self.fn(*self.made_with[0], **self.made_with[1])
        return held[self.key]

    def failed(self, error: Exception) -> UserCodeError:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_HERE)]
        own = next((frame for frame in frames if "site-packages" not in frame.filename), frames[0] if frames else None)
        place = "" if own is None else f" ({own.filename}:{own.lineno} in {own.name}{f': {own.line}' if own.line else ''})"
        return UserCodeError(f"{self.said} failed: {type(error).__name__}: {error}{place}")

    def wrong(self, what: str) -> TypeError:
        return TypeError(f"{self.said}: {what}")


def _called(call: Any, args: tuple[Any, ...], kwargs: dict[str, Any], row: Any) -> Any:
    return call(row, *args, **kwargs)


class Calling(Op):
    """An op that calls a function of the user."""

    fn: Function


class MapRows(Calling):
    each = 1

    def __init__(self, fn: Function) -> None:
        self.fn = fn
        self.name = fn.said

    def apply(self, block: Block, salt: int) -> Block:
        given = _named_by(self, block.lists)
        rows = spread(self._made, _block.all_rows_of(given, block.rows))
        return _named_by(self, _block.from_rows, rows, given, block)

    def _made(self, rows: Sequence[dict[str, Any]]) -> list[Any]:
        return self.fn.over(rows, self._check)

    def _check(self, new_row: Any) -> None:
        if not isinstance(new_row, Mapping):
            raise self.fn.wrong(f"a row is a dict, and the function gave {_kind(new_row)}")


class FlatMap(Calling):
    keeps_rows = False
    each = 1

    def __init__(self, fn: Function) -> None:
        self.fn = fn
        self.name = fn.said

    def apply(self, block: Block, salt: int) -> Block:
        given = _named_by(self, block.lists)
        rows = itertools.chain.from_iterable(spread(self._made, _block.all_rows_of(given, block.rows)))
        return _named_by(self, _block.from_rows, list(rows), given, block)

    def _made(self, given: Sequence[dict[str, Any]]) -> list[list[Mapping[str, Any]]]:
        """Returns the new rows of each row. A function that yields them is carried out to its end before the next row's."""
        lists: list[list[Mapping[str, Any]]] = []
        for row in given:
            new_rows = self.fn(row)
            rows: list[Mapping[str, Any]] = []
            if isinstance(new_rows, Mapping | str) or not isinstance(new_rows, Iterable):
                raise self.fn.wrong(f"the function gives a list of dicts, and gave {_kind(new_rows)}")
            for new_row in new_rows:
                if not isinstance(new_row, Mapping):
                    raise self.fn.wrong(f"the function gives a list of dicts, and an item of it is {_kind(new_row)}")
                rows.append(new_row)
            lists.append(rows)
        return lists


class Filter(Calling):
    keeps_rows = False
    each = 1

    def __init__(self, fn: Function) -> None:
        self.fn = fn
        self.name = fn.said

    def apply(self, block: Block, salt: int) -> Block:
        kept = spread(self._made, _block.all_rows_of(block.lists(), block.rows))
        return block.take(np.flatnonzero(np.asarray(kept, dtype=bool)))

    def _made(self, rows: Sequence[dict[str, Any]]) -> list[bool]:
        return [bool(keeps) for keeps in self.fn.over(rows, self._check)]

    def _check(self, keeps: Any) -> None:
        if not isinstance(keeps, bool | np.bool_ | int):
            raise self.fn.wrong(f"the function gives True or False, and gave {_kind(keeps)}")

    def names(self, before: list[str] | None) -> list[str] | None:
        return before


class FilterExpression(Op):
    """A pyarrow.compute expression."""

    keeps_rows = False

    def __init__(self, expression: Any) -> None:
        self.expression = expression
        self.name = f"filter({expression})"

    def apply(self, block: Block, salt: int) -> Block:
        kept = _block.from_arrow(block.arrow().filter(self.expression))
        return Block(kept.columns, frozenset(name for name in block.names if not block.may_hold_nulls(name)))

    def names(self, before: list[str] | None) -> list[str] | None:
        return before


class MapBatches(Calling):
    """Batches lie within a piece: at most `size` rows, fewer at its end. keeps_rows: the user's word; None: it was not given."""

    def __init__(
        self, fn: Function, size: int | None, batch_format: str | None, *, private: bool, keeps_rows: bool | None
    ) -> None:
        self.fn = fn
        self.size, self.batch_format, self.private = size, batch_format, private
        self.keeps_rows = self.assumed = bool(keeps_rows)
        self.undeclared = keeps_rows is None
        self.each = size or 0
        self.name = fn.said

    def apply(self, block: Block, salt: int) -> Block:
        size = self.size or max(block.rows, 1)
        parts = (block.slice(start, start + size) for start in range(0, block.rows, size))
        return _named_by(self, _block.concat, [block for part in parts for block in self._made(part)])

    def _made(self, part: Block) -> list[Block]:
        given = _named_by(self, functools.partial(_block.Given, private=self.private), part, self.batch_format)
        value = self.fn(given.batch)
        values = self._yielded(value) if inspect.isgenerator(value) else [value]
        return [_named_by(self, given.block_of, batch) for batch in values]

    def _yielded(self, values: Iterable[Any]) -> list[Any]:
        try:
            return list(values)
        except Exception as error:
            raise self.fn.failed(error) from error


class AddColumn(Calling):
    def __init__(self, column: str, fn: Function, batch_format: str | None) -> None:
        self.column, self.fn, self.batch_format = column, fn, batch_format
        self.name = f"add_column({column})"

    def apply(self, block: Block, salt: int) -> Block:
        given = _named_by(self, _block.Given, block, self.batch_format)
        value = self.fn(given.batch)

        def added() -> Block:
            new = given.block_of({self.column: value}).columns
            return Block({**block.columns, **new}, block.without_nulls - new.keys())

        return _named_by(self, added)

    def names(self, before: list[str] | None) -> list[str] | None:
        return None if before is None else [*(name for name in before if name != self.column), self.column]


class Columns(Op):
    """select_columns, drop_columns and rename_columns: new names by old ones, in their order; dropped ones named apart."""

    each = 1

    def __init__(self, name: str, change: Callable[[list[str]], dict[str, str]], asked: Sequence[str]) -> None:
        self.name = f"{name}({', '.join(asked)})"
        self.change, self.asked = change, list(asked)

    def apply(self, block: Block, salt: int) -> Block:
        if not block.columns and not block.rows:
            return block
        for column in self.asked:
            block.column(column, self.name)
        renamed = self.change(block.names)
        _named_by(self, _block.named, renamed.values())
        complete = frozenset(new for old, new in renamed.items() if old in block.without_nulls)
        return Block({new: block.columns[old] for old, new in renamed.items()}, complete)

    def names(self, before: list[str] | None) -> list[str] | None:
        return None if before is None else list(self.change(before).values())


class Sample(Op):
    """Each row with the same chance; the same rows in every epoch."""

    keeps_rows = False

    def __init__(self, fraction: float, seed: int) -> None:
        self.fraction, self.seed = fraction, seed
        self.name = f"random_sample({fraction})"

    def apply(self, block: Block, salt: int) -> Block:
        return self.apply_from(block, salt, 0)

    def apply_from(self, block: Block, salt: int, start: int) -> Block:
        numbers = np.random.default_rng([self.seed, salt]).random(start + block.rows)[start:]
        return block.take(np.flatnonzero(numbers < self.fraction))

    def names(self, before: list[str] | None) -> list[str] | None:
        return before


class Steps:
    """The ops of one node. Pickled, they carry the node's functions to another process."""

    def __init__(self, ops: tuple[Op, ...], depth: int) -> None:
        self.ops, self.depth = ops, depth
        divides = all(op.each for op in ops) and all(op.keeps_rows for op in ops[:-1])
        self.unit = math.lcm(*(op.each for op in ops)) if divides else 0
        self.may_leave = not any(op.fn.in_rank for op in ops if isinstance(op, Calling))

    @property
    def key(self) -> tuple[int, int]:
        return id(self.ops), self.depth  # a crew holds the ops, so no others get their id

    @property
    def says(self) -> str:
        return " -> ".join(op.name for op in self.ops)

    def apply(self, block: Block, place: tuple[int, ...], first: int) -> Block:
        """Carries out the ops on a piece, or on its rows from number `first` on. place: seed and epoch, then what the piece is
        known by."""
        origin = block.origin
        keeps_rows = True  # the ops before
        for number, op in enumerate(self.ops):
            with self.chance_of(number, place, first, apart=not keeps_rows), own_instances():
                block = op.apply_from(block, place[2], first if keeps_rows else 0)
            keeps_rows = keeps_rows and op.keeps_rows
        block.origin = block.origin or origin
        return block

    def chance_of(
        self, number: int, place: tuple[int, ...], first: int, *, apart: bool = False
    ) -> contextlib.AbstractContextManager[None]:
        """Names the position of an op's calls, of which the first gets row `first` of a piece. apart: the parts of a cut piece have
        numbers of their own, as ops before may have made more rows."""
        each = self.ops[number].each
        if first and (apart or not each):
            return _chance.at(*place, self.depth, number, first)
        return _chance.at(*place, self.depth, number, calls=first // each if each else 0)

    def lost(self, block: Block, place: tuple[int, ...], first: int, how: str) -> UserCodeError:
        """Returns the error of rows that ended two processes."""
        return UserCodeError(
            f"{self.says} ended two processes, one after the other, while it made rows {first} to {first + block.rows - 1} of a piece of "
            f"{block.origin or 'the dataset'} (epoch {place[1]}): {how}"
        )


def _named_by(op: Op, make: Callable[..., T], *arguments: Any) -> T:
    """Returns what `make` returns. Its error, as for values without a common type, names the op."""
    try:
        return make(*arguments)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{op.name}: {error}") from error


def _kind(value: Any) -> str:
    if isinstance(value, list | tuple) and value:
        inner = ", ".join(sorted({type(element).__name__ for element in itertools.islice(value, 3)}))
        return f"a {type(value).__name__} of {inner}"
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


public_in("rtrain.data", UserCodeError)
