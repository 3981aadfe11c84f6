"""References to values that remote calls will return."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rtrain import _arguments, _exception_pickle
from rtrain._lazy import public_in
from rtrain._remote import _blocked, _values
from rtrain._remote._channel import Part
from rtrain._remote._errors import GetTimeoutError, RemoteError

if TYPE_CHECKING:
    import concurrent.futures

_settled = threading.Condition()  # shared by all refs of the process, since `wait` waits for many of them


def _in_a_child() -> None:
    global _settled
    _settled = threading.Condition()  # replaces the lock, which a thread of the parent may hold


os.register_at_fork(after_in_child=_in_a_child)


class ObjectRef:
    """Refers to the value that a remote call will have: what `f.remote()` returns. `rtrain.get(ref)` waits for the value.

    As an argument of another remote call the ref is replaced by its value. A ref within an argument, as in a list of refs,
    stays a ref; `rtrain.get` works on it there.
    """

    def __init__(self, what: str, check: Callable[[], None] = lambda: None) -> None:
        self._what = what
        self._check = check  # called while a caller waits; may fail the ref
        self._done = False
        self._parts: Sequence[Part] | None = None
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[], None]] = []
        self._cancel: Callable[[bool, bool], None] | None = None  # takes `force` and `recursive` of rtrain.cancel
        self._kept: Sequence[Any] = ()  # handles that the value mentions; their actors live until it is unpickled

    def done(self) -> bool:
        """Returns whether the value or the error is there, so that `rtrain.get` would return at once."""
        return self._done

    def _settle(self, *, parts: Sequence[Part] | None = None, value: Any = None, error: BaseException | None = None) -> None:
        with _settled:
            if self._done:
                return
            self._parts, self._value, self._error, self._done = parts, value, error, True
            _settled.notify_all()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def _when_done(self, callback: Callable[[], None]) -> None:
        """Calls `callback` in any thread once the value or the error is there, at once if it is there."""
        with _settled:
            if not self._done:
                self._callbacks.append(callback)
                return
        callback()

    def _wait(self, deadline: float | None) -> bool:
        while not self._done:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            with _settled:
                if not self._done:
                    _settled.wait(0.5 if left is None else min(left, 0.5))
            self._check()
        return True

    def _get(self, deadline: float | None) -> Any:
        if not self._wait(deadline):
            raise GetTimeoutError(f"{self._what} has no value yet")
        if self._error is not None:
            raise self._error
        if self._parts is not None:
            try:
                self._value, self._parts = _values.unpack(self._parts), None
                self._kept = ()
            except Exception as error:  # the code of the value's classes may raise anything
                raise RemoteError(
                    f"what {self._what} returned cannot be read here: {_exception_pickle.in_one_line(error)}. Make its module known to "
                    "this process too, or return plain values or arrays"
                ) from error
        return self._value

    def __reduce__(self) -> tuple[Any, ...]:
        """Waits for the value and pickles it with the ref, so that `get` works in any process. Within `collecting` it does not
        wait.
        """
        if not self._done and _collected.refs is not None:
            _collected.refs.append(self)
            return _arrived, (self._what, None, None)
        self._wait(None)
        try:
            return _arrived, (self._what, self._get(None), None)
        except BaseException as error:
            return _arrived, (self._what, None, error)

    def future(self) -> concurrent.futures.Future[Any]:
        """Returns a future of the value, for `concurrent.futures` and `asyncio.wrap_future`."""
        from concurrent.futures import Future

        future: Future[Any] = Future()

        def done() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(self._get(None))
            except BaseException as error:
                future.set_exception(error)

        self._when_done(done)
        return future

    def __await__(self) -> Any:
        import asyncio

        return asyncio.wrap_future(self.future()).__await__()

    def __repr__(self) -> str:
        return f"ObjectRef({self._what}, {'there' if self._done else 'on its way'})"


def get(refs: ObjectRef | Sequence[ObjectRef], *, timeout: float | None = None) -> Any:
    """Returns the value of a ref, or a list with the values of several refs in their order. Waits for them.

    timeout: seconds to wait; None waits without end.

    Raises the exception of the remote function, as a TaskError that is also of that exception's class. Raises
    WorkerCrashedError or ActorDiedError if the worker ended before, GetTimeoutError after `timeout` seconds, and RemoteError
    for a value that this process cannot unpickle.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    listed = [refs] if isinstance(refs, ObjectRef) else _listed("get", refs)
    with contextlib.nullcontext() if all(ref._done for ref in listed) else _blocked.waiting():
        values = [ref._get(deadline) for ref in listed]
    return values[0] if isinstance(refs, ObjectRef) else values


def _listed(caller: str, refs: Any, kinds: tuple[type, ...] = (ObjectRef,)) -> list[Any]:
    """Returns the refs of a list, a tuple or another iterable. Raises TypeError for anything else."""
    given = list(refs) if isinstance(refs, Iterable) else [refs]
    wrong = [value for value in given if not isinstance(value, kinds)]
    if wrong:
        kind = type(wrong[0]).__name__
        raise TypeError(f"rtrain.{caller} takes what .remote() or rtrain.put() gave back, or a list of it, not {kind}")
    return given


def wait(
    refs: Sequence[ObjectRef], *, num_returns: int = 1, timeout: float | None = None, fetch_local: bool = True
) -> tuple[list[ObjectRef], list[ObjectRef]]:
    """Waits until `num_returns` of the refs have a value or an error, at most `timeout` seconds (None: without end).

    Returns two lists, both in the order given: the refs that are done, and the others. `fetch_local` changes nothing.
    """
    _arguments.check_named("wait", fetch_local=fetch_local)
    waiting: list[Any] = [refs] if isinstance(refs, ObjectRef) else _listed("wait", refs, (ObjectRef, *_WAITED))
    if isinstance(refs, ObjectRef) or not 1 <= num_returns <= len(waiting) or len(set(map(id, waiting))) != len(waiting):
        raise ValueError("rtrain.wait takes a list of different refs, and num_returns between 1 and their number")
    deadline = None if timeout is None else time.monotonic() + timeout
    with _blocked.waiting():
        return _waited(waiting, num_returns, deadline)


def _waited(waiting: list[ObjectRef], num_returns: int, deadline: float | None) -> tuple[list[ObjectRef], list[ObjectRef]]:
    while True:
        done = [ref for ref in waiting if ref.done()][:num_returns]
        left = 0.5 if deadline is None else min(0.5, deadline - time.monotonic())
        if len(done) == num_returns or left <= 0:
            return done, [ref for ref in waiting if ref not in done]
        with _settled:
            if sum(ref.done() for ref in waiting) < num_returns:
                _settled.wait(left)
        for ref in waiting:
            ref._check()


_WAITED: list[type] = []  # classes beside ObjectRef that `wait` takes: they have `done` and `_check`


def waited(kind: type) -> None:
    _WAITED.append(kind)


def put(value: Any) -> ObjectRef:
    """Returns a ref that has `value` already. Useful where the same large argument goes to several calls."""
    if isinstance(value, ObjectRef):
        raise TypeError("rtrain.put takes a value, and this is a ref already")
    ref = ObjectRef(f"put({type(value).__name__})")
    ref._settle(value=value)
    return ref


class _Collected(threading.local):
    refs: list[ObjectRef] | None = None


_collected = _Collected()


@contextlib.contextmanager
def collecting() -> Iterator[list[ObjectRef]]:
    """Collects the refs without a value that this thread pickles. A pickle of such a ref is of no use."""
    before, _collected.refs = _collected.refs, []
    try:
        yield _collected.refs
    finally:
        _collected.refs = before


def wait_until(ready: Callable[[], bool], seconds: float) -> None:
    """Waits for one settled ref or notification, at most `seconds`, unless `ready()`."""
    with _settled:
        if not ready():
            _settled.wait(seconds)


def notify() -> None:
    """Wakes all threads that wait for refs."""
    with _settled:
        _settled.notify_all()


def settled(ref: ObjectRef, *, parts: Sequence[Part] | None = None, error: BaseException | None = None) -> None:
    ref._settle(parts=parts, error=error)


def _arrived(what: str, value: Any, error: BaseException | None) -> ObjectRef:
    ref = ObjectRef(what)
    ref._settle(value=value, error=error)
    return ref


public_in("rtrain", ObjectRef, get, put, wait)
