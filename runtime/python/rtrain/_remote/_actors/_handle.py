"""Handles of actors. A handle that is sent to another process takes the key of the actor's connections along."""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any

from rtrain._remote import _call_runs, _travel
from rtrain._remote._actors._borrowed import Borrowed, borrowed
from rtrain._remote._actors._slot import ActorSlot
from rtrain._remote._calls import Call
from rtrain._remote._errors import PendingCallsLimitExceeded
from rtrain._remote._generator import ObjectRefGenerator, Stream
from rtrain._remote._methods import STREAMING, MethodOptions
from rtrain._remote._refs import ObjectRef

_owned: weakref.WeakValueDictionary[str, ActorSlot] = weakref.WeakValueDictionary()  # actors that this process has made


class ActorHandle:
    """A handle of an object on a node. `handle.method.remote(...)` calls a method. The object begins the calls of one process in
    their order.

    In arguments and results of remote calls a handle reaches other processes, which call the same object. The object ends with
    the process that made it, and when no process has a handle any more.
    """

    def __init__(self, slot: ActorSlot | Borrowed, methods: dict[str, MethodOptions], limits: dict[str, int]) -> None:
        self._slot = slot
        self._methods = methods
        self._limits = limits  # max_task_retries, max_pending_calls
        if isinstance(slot, ActorSlot):
            _owned[slot.name] = slot
        weakref.finalize(self, slot.let_go)

    @property
    def actor_id(self) -> str:
        """The id of the actor's connections, which is the same in all processes."""
        return self._slot.name

    def __getattr__(self, name: str) -> ActorMethod:
        methods = self.__dict__.get("_methods", {})
        if name not in methods:
            if name.startswith("__"):
                raise AttributeError(name)
            raise AttributeError(f"{self._slot.what} has no method {name!r}")
        return ActorMethod(self, name, methods[name])

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self._methods})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorHandle) and other._slot.name == self._slot.name

    def __hash__(self) -> int:
        return hash(self._slot.name)

    def __reduce__(self) -> tuple[Any, ...]:
        _travel.lend(self, self._slot.what)
        return arrived, (self._slot.share(), self._methods, self._limits)

    def __repr__(self) -> str:
        return f"ActorHandle({self._slot.what}, run {self._slot.run_id})"


def arrived(given: dict[str, Any], methods: dict[str, MethodOptions], limits: dict[str, int]) -> ActorHandle:
    """Makes a handle from its pickle. Pickles refer to this function by name."""
    own = _owned.get(given["id"])
    if own is not None and not own.ending:
        own.held()
        return ActorHandle(own, methods, limits)
    return ActorHandle(borrowed(given), methods, limits)


class ActorMethod:
    """A method of an actor. It holds the handle, and so keeps the actor alive."""

    def __init__(self, handle: ActorHandle, name: str, options: MethodOptions) -> None:
        self._handle = handle
        self._name = name
        self._options = options

    def options(self, **given: Any) -> ActorMethod:
        """Returns the method with other options: those of `rtrain.method`."""
        name = f"{self._handle._slot.what}.{self._name}.options"
        return ActorMethod(self._handle, self._name, self._options.changed(name, given))

    def remote(self, *arguments: Any, **named: Any) -> Any:
        """Calls the method and returns a ref to its value, or `num_returns` refs, or an ObjectRefGenerator. Does not wait.

        Raises PendingCallsLimitExceeded if the actor has `max_pending_calls` calls that are not answered.
        """
        slot, options, limits = self._handle._slot, self._options, self._handle._limits
        what = f"{slot.what}.{self._name}()"
        most = limits["max_pending_calls"]
        if most > 0 and slot.pending() >= most:
            raise PendingCallsLimitExceeded(f"{what}: {most} calls of this process are not answered (max_pending_calls)")
        check = _call_runs.checker(slot)
        stream = Stream(what, options.ahead, check) if options.num_returns == STREAMING else None
        refs = [stream.ended] if stream else [ObjectRef(what, check) for _ in range(int(options.num_returns))]
        call = Call("method", what, self._name, arguments, named, refs, stream=stream, repeated_for=options.repeated_for())
        retries = limits["max_task_retries"] if options.max_task_retries is None else options.max_task_retries
        slot.call(dataclasses.replace(call, retries=retries))
        if stream is not None:
            return ObjectRefGenerator(stream)
        return refs[0] if len(refs) == 1 else refs

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"{self._name} is remote: call handle.{self._name}.remote(...)")
