"""The steps that change a piece: a user's function, or a change of columns. An op is small and picklable. A callable class has
one instance for each thread or process. An error of the user's function names the op and the line that created it."""

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
_idle_instances: dict[str, list[Any]] = {}  # instances of callable classes that no thread uses now, by their op


class _Held(threading.local):
    instances: dict[str, Any] | None = None  # instances that only this thread uses now, by their op


_held = _Held()


@contextlib.contextmanager
def own_instances() -> Iterator[None]:
    """Gives this thread its own instances of callable classes within the block."""
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
    """A user's function of an operation of `rtrain.data` has failed. `__cause__` is the function's error."""


class Op:
    name = ""
    keeps_rows = True
    assumed = False  # keeps_rows was set by the user
    undeclared = False  # keeps_rows is False because the user did not set it; counting finds whether it holds
    each = 0  # the op can process parts of so many rows, from the beginning of a piece; 0: it needs the whole piece

    def apply(self, block: Block, salt: int) -> Block:
        """Applies the op to a piece. salt: a number of the piece, for its random numbers."""
        raise NotImplementedError

    def apply_from(self, block: Block, salt: int, start: int) -> Block:
        """Applies the op to rows of a piece from row `start` on."""
        return self.apply(block, salt)

    def names(self, before: list[str] | None) -> list[str] | None:
        """Returns the columns after the op; None if they do not follow from the columns before."""
        return None


class Function:
    """The user's function with its arguments. A class has one instance for each thread or process."""

    concurrency: int | None = None  # These four settings come from `Placing`.
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
        # These are separate attributes, because pickles of version 0.1.0 have no class for them.
        self.concurrency, self.num_cpus = placing.concurrency, placing.num_cpus
        self.memory, self.in_rank = placing.memory, placing.in_rank
        if any(self.made_with) and not inspect.isclass(fn):
            raise ValueError(f"{self.said}: fn_constructor_args are for a class, and {named} is none")

    @property
    def threads(self) -> int | None:
        """Returns how many threads may carry the function out at the same time; None: as many as the CPUs allow."""
        return 1 if self.concurrency is None and inspect.isclass(self.fn) else self.concurrency

    def over(self, rows: Sequence[Any], check: Callable[[Any], Any] | None = None) -> list[Any]:
        """Returns the results of the function for the rows. check: called with each result, in order."""
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
    """An op that calls a user's function."""

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
        """Returns the new rows of each row. A generator is run to its end before the function is called with the next row."""
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
    """Keeps the rows for which a pyarrow.compute expression is true."""

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
    """Applies a function to batches within a piece: at most `size` rows, fewer at its end. keeps_rows: as set by the user;
    None: not set."""

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
    """Implements select_columns, drop_columns and rename_columns: maps old names to new names, in order. Dropped columns are
    listed separately."""

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
    """Keeps each row with the same probability. Every epoch has the same rows."""

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
    """The ops of one node. A pickle of it carries the node's functions to another process."""

    def __init__(self, ops: tuple[Op, ...], depth: int) -> None:
        self.ops, self.depth = ops, depth
        divides = all(op.each for op in ops) and all(op.keeps_rows for op in ops[:-1])
        self.unit = math.lcm(*(op.each for op in ops)) if divides else 0
        self.may_leave = not any(op.fn.in_rank for op in ops if isinstance(op, Calling))

    @property
    def key(self) -> tuple[int, int]:
        return id(self.ops), self.depth  # A crew holds the ops, so no other object gets the same id.

    @property
    def says(self) -> str:
        return " -> ".join(op.name for op in self.ops)

    def apply(self, block: Block, place: tuple[int, ...], first: int) -> Block:
        """Applies the ops to a piece, or to its rows from number `first` on. place: seed, epoch, and the key of the piece."""
        origin = block.origin
        keeps_rows = True  # the previous ops keep rows
        for number, op in enumerate(self.ops):
            with self.chance_of(number, place, first, apart=not keeps_rows), own_instances():
                block = op.apply_from(block, place[2], first if keeps_rows else 0)
            keeps_rows = keeps_rows and op.keeps_rows
        block.origin = block.origin or origin
        return block

    def chance_of(
        self, number: int, place: tuple[int, ...], first: int, *, apart: bool = False
    ) -> contextlib.AbstractContextManager[None]:
        """Sets the position of an op's calls, for random numbers. The first call is for row `first` of a piece. apart: parts of
        a cut piece have their own numbers, because earlier ops may have changed the number of rows."""
        each = self.ops[number].each
        if first and (apart or not each):
            return _chance.at(*place, self.depth, number, first)
        return _chance.at(*place, self.depth, number, calls=first // each if each else 0)

    def lost(self, block: Block, place: tuple[int, ...], first: int, how: str) -> UserCodeError:
        """Returns the error for rows during which two processes ended."""
        return UserCodeError(
            f"{self.says} ended two processes, one after the other, while it made rows {first} to {first + block.rows - 1} of a piece of "
            f"{block.origin or 'the dataset'} (epoch {place[1]}): {how}"
        )


def _named_by(op: Op, make: Callable[..., T], *arguments: Any) -> T:
    """Calls `make` and returns its result. The op's name is added to an error, for example about values without a common type."""
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
