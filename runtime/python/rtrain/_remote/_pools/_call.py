"""One call of a remote function: its function, which is pickled once, and its arguments, which are pickled when their refs are there."""

from __future__ import annotations

import inspect
import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rtrain._remote import _values
from rtrain._remote._channel import Part
from rtrain._remote._errors import TaskCancelledError
from rtrain._remote._refs import ObjectRef, collecting, settled

_numbers = itertools.count(1)


class Code:
    """A function with its signature and its pickle, which are made once. Calls made later do not see later changes of what the
    function refers to.
    """

    def __init__(self, function: Any) -> None:
        self.function = function
        self._forget()

    def _forget(self) -> None:
        self.number = next(_numbers)
        self.parts: list[Part] | None = None
        self.lent: list[Any] = []  # handles of actors that the function refers to
        self._signature: inspect.Signature | bool | None = False  # False: not read yet

    def __getstate__(self) -> dict[str, Any]:
        return {"function": self.function}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.function = state["function"]
        self._forget()

    def check(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Raises TypeError if the arguments do not fit the function."""
        if self._signature is False:
            try:
                self._signature = inspect.signature(self.function)
            except (TypeError, ValueError):  # built-ins without a known signature
                self._signature = None
        if not isinstance(self._signature, inspect.Signature):
            return
        try:
            self._signature.bind(*arguments, **named)
        except TypeError as error:
            raise TypeError(f"{getattr(self.function, '__name__', self.function)}: {error}") from None


@dataclass(frozen=True)
class Retries:
    """How often a call is repeated, and after which exceptions."""

    most: int = 3  # -1: without limit
    exceptions: bool | tuple[type[BaseException], ...] = False

    def covers(self, error: BaseException | None) -> bool:
        if isinstance(self.exceptions, bool):
            return self.exceptions
        return isinstance(error, self.exceptions)


@dataclass
class PoolCall:
    """Invariant: `refs` are settled by exactly one of: an answer, a failure, a cancellation. `is_over` is set under the pool's lock."""

    what: str
    code: Code
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    refs: list[ObjectRef]
    retries: Retries
    parent: int = 0  # the call of this process's driver that made this one; 0: none
    number: int = field(default_factory=lambda: next(_numbers))
    parts: Sequence[Part] | None = None
    lent: list[Any] = field(
        default_factory=list
    )  # handles of actors among the arguments; their actors live until the call is over
    is_over: bool = False
    is_cancelled: bool = False

    def awaited(self) -> list[ObjectRef]:
        """Returns refs among the arguments that have no value yet."""
        given = (*self.arguments, *self.named.values())
        return [value for value in given if isinstance(value, ObjectRef) and not value.done()]

    def pack(self) -> list[ObjectRef]:
        """Pickles the function and the arguments, without waiting. Returns the refs that must have a value first; pickling is
        complete if there are none.

        Raises what the task of an argument raised, and TypeError for what cannot be pickled.
        """
        if awaited := self.awaited():
            return awaited
        if self.code.parts is None:
            with collecting() as awaited:
                packed = _values.pack(self.code.function, self.what, lent=self.code.lent)
            if awaited:
                return awaited
            self.code.parts = packed
        here = tuple(value._get(None) if isinstance(value, ObjectRef) else value for value in self.arguments)
        named = {name: value._get(None) if isinstance(value, ObjectRef) else value for name, value in self.named.items()}
        with collecting() as awaited:
            parts = _values.pack((here, named), f"an argument of {self.what}", lent=self.lent)
        if not awaited:
            self.parts = parts
            self.arguments, self.named = (), {}  # the parts hold what the worker needs
        return awaited

    def size(self) -> int:
        return sum(memoryview(part).nbytes for part in self.parts or ())

    def settle(self, counts: list[int], parts: list[bytearray]) -> None:
        """counts: how many of the parts belong to each ref."""
        at = 0
        for ref, count in zip(self.refs, counts, strict=True):
            own: list[Part] = list(parts[at : at + count])
            ref._kept = self.lent  # the value may hold them; they live until it is unpickled
            settled(ref, parts=own)
            at += count
        self.lent = []

    def fail(self, error: BaseException) -> None:
        self.lent = []
        for ref in self.refs:
            settled(ref, error=error)

    def cancelled(self) -> None:
        self.fail(TaskCancelledError(f"{self.what} was cancelled"))


def when_done(refs: Sequence[ObjectRef], then: Callable[[], None]) -> None:
    """Calls `then` once, in any thread, after all of the refs have a value or an error."""
    left = len(refs)
    lock = threading.Lock()

    def one() -> None:
        nonlocal left
        with lock:
            left -= 1
            is_last = left == 0
        if is_last:
            then()

    for ref in refs:
        ref._when_done(one)
