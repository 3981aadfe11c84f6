"""The methods of a class, as handles have them: names, and the options that `rtrain.method` gives."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, overload

from rtrain import _arguments
from rtrain._lazy import public_in

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rtrain._argument_types import MethodArguments

_ATTRIBUTE = "__rtrain_method__"
STREAMING = "streaming"
# Methods of every actor, beside its own: is it ready, end behind the calls before, call a function with the object.
OF_ALL = ("__ray_ready__", "__ray_terminate__", "__ray_call__")

M = TypeVar("M", bound=Callable[..., Any])


@dataclass(frozen=True)
class MethodOptions:
    num_returns: int | str = 1  # STREAMING: a generator
    ahead: int | None = None  # `_generator_backpressure_num_objects`
    max_task_retries: int | None = None  # None: as the actor's
    retry_exceptions: Any = False  # False, True, or a list of classes

    def changed(self, caller: str, given: Mapping[str, Any]) -> MethodOptions:
        """Returns a copy with the given options. Raises TypeError for an unknown one and ValueError for a wrong value."""
        own = {"num_returns", "max_task_retries", "retry_exceptions", "_generator_backpressure_num_objects"}
        _arguments.check(caller, {name: value for name, value in given.items() if name not in own}, _arguments.METHOD)
        known = {name: value for name, value in given.items() if name in own and value is not None}
        if "_generator_backpressure_num_objects" in known:
            known["ahead"] = _at_least_one(
                "_generator_backpressure_num_objects", known.pop("_generator_backpressure_num_objects")
            )
        if "num_returns" in known:
            checked_returns(known["num_returns"])
        return replace(self, **known)

    def repeated_for(self) -> tuple[type[BaseException], ...]:
        if isinstance(self.retry_exceptions, bool):
            return (Exception,) if self.retry_exceptions else ()
        return tuple(self.retry_exceptions)


@overload
def method(function: M, /) -> M: ...
@overload
def method(**options: Unpack[MethodArguments]) -> Callable[[M], M]: ...
def method(*function: Any, **options: Any) -> Any:
    """Gives a method of an actor's class options, as `@rtrain.method(num_returns=2)`.

    num_returns: into how many refs the returned list is split; "streaming": the method is a generator, and a call returns an
    ObjectRefGenerator. A generator is that by itself.
    max_task_retries: how often a call is repeated when the actor was restarted meanwhile; -1: without end.
    retry_exceptions: exceptions of the method after which it is repeated as well; True: all.
    """
    chosen = MethodOptions().changed("rtrain.method", options)

    def decorated(target: Any) -> Any:
        setattr(target, _ATTRIBUTE, replace(chosen, num_returns=options.get("num_returns") or _returns_of(target)))
        return target

    if len(function) == 1 and not options and callable(function[0]):
        return decorated(function[0])
    if function:
        raise TypeError("use @rtrain.method(num_returns=2, ...) with names")
    return decorated


def methods_of(kind: type) -> dict[str, MethodOptions]:
    """Returns the methods that a handle may call."""
    methods = dict.fromkeys(OF_ALL, MethodOptions())
    for name in dir(kind):
        if name.startswith("__") and name != "__call__":
            continue
        member = getattr(kind, name, None)
        if callable(member):
            methods[name] = getattr(member, _ATTRIBUTE, None) or MethodOptions(num_returns=_returns_of(member))
    return methods


def is_async(kind: type) -> bool:
    """Returns true if the class has a coroutine method: its calls then run in an event loop."""
    members = (inspect.getattr_static(kind, name, None) for name in dir(kind))
    functions = [getattr(member, "__func__", member) for member in members]
    return any(inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function) for function in functions)


def checked_returns(num_returns: Any) -> int | str:
    """Raises ValueError for a number of refs that a call cannot have."""
    if num_returns == "dynamic":
        raise ValueError('num_returns="dynamic" is not supported: use "streaming", whose refs come while the generator runs')
    if num_returns == STREAMING or (isinstance(num_returns, int) and num_returns >= 1):
        return num_returns  # type: ignore[no-any-return]
    raise ValueError(f'num_returns is {num_returns!r}; it is 1 or more, or "streaming"')


def _returns_of(member: Any) -> int | str:
    return STREAMING if is_generator(member) else 1


def is_generator(function: Any) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def _at_least_one(name: str, value: Any) -> int:
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} is {value!r}; it is 1 or more")
    return value


public_in("rtrain", method)
