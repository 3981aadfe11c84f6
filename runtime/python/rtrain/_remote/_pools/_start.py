"""Starts calls of remote functions, and cancels them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rtrain._lazy import public_in
from rtrain._remote import _call_runs
from rtrain._remote._call_runs import Slot
from rtrain._remote._errors import TaskCancelledError
from rtrain._remote._options import Options
from rtrain._remote._pools import _current
from rtrain._remote._pools._call import Code, PoolCall, Retries
from rtrain._remote._pools._registry import registry
from rtrain._remote._refs import ObjectRef

_RETRIES = 3


def start(code: Code, options: Options, arguments: tuple[Any, ...], named: dict[str, Any]) -> list[ObjectRef]:
    """Starts a call in a pool and returns its refs. Raises HeadError and TypeError like `remote`."""
    code.check(arguments, named)
    with _current.shielded():
        call_runs = _call_runs._call_runs or _call_runs.call_runs()  # it is there while the process is connected
        pool = registry(call_runs).pool(options)
        what = f"{getattr(code.function, '__name__', 'function')}()"
        refs = [ObjectRef(what, pool.check) for _ in range(int(options.num_returns or 1))]
        call = PoolCall(what, code, arguments, named, refs, retries_of(options), parent=_current.number)
        for ref in refs:
            ref._cancel = lambda force, recursive: pool.cancel(call, force=force, recursive=recursive)
        pool.submit(call)
        return refs


def retries_of(options: Options) -> Retries:
    given = options.retry_exceptions
    kinds = given or False if given is None or isinstance(given, bool) else tuple(given)
    return Retries(_RETRIES if options.max_retries is None else options.max_retries, kinds)


def canceller_of_run(slot: Slot) -> Callable[[bool, bool], None]:
    """Returns the function that cancels a call with a run of its own: it stops the run."""

    def cancel(force: bool, recursive: bool) -> None:
        slot.call_runs.let_go(slot)
        slot.died("it was cancelled", TaskCancelledError)

    return cancel


def cancel(ref: ObjectRef, *, force: bool = False, recursive: bool = True) -> None:
    """Cancels the call of a remote function. `rtrain.get` then raises TaskCancelledError. Does nothing if the value is there.

    A call that has not begun is dropped. In the function of one that has begun, KeyboardInterrupt is raised; the call ends when
    the function does, and has its value if the function returns one. A call with a name is a run of its own, which is stopped.
    force: the call's worker is ended.
    recursive: calls that the call has made are cancelled too. With `force` they end in any case.

    Raises TypeError for anything but the ref of a remote function's call.
    """
    if not isinstance(ref, ObjectRef):
        raise TypeError(f"rtrain.cancel takes the ref of a remote function's call, not {type(ref).__name__}")
    if ref._cancel is not None:
        ref._cancel(force, recursive)
    elif not ref.done():
        raise TypeError(f"{ref!r} is no call of a remote function: rtrain.kill ends an actor and its calls")


public_in("rtrain", cancel)
