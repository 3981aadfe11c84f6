"""`@rtrain.remote`: functions whose calls run on nodes of the cluster, and classes whose objects live there."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, overload

from rtrain import _arguments
from rtrain._lazy import public_in
from rtrain._remote import _hub
from rtrain._remote._errors import GetTimeoutError
from rtrain._remote._hub import Call, Slot
from rtrain._remote._options import Options, run_name
from rtrain._remote._pools import _start as _pools
from rtrain._remote._pools._call import Code
from rtrain._remote._refs import ObjectRef, get

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rtrain._argument_types import RemoteArguments


class RemoteFunction:
    """A function whose calls, made with `.remote(...)`, run on a node. Workers of a pool execute them; a call with a name is
    a run of its own.
    """

    def __init__(self, function: Any, options: Options, code: Code | None = None) -> None:
        self._function = function
        self._options = options
        self._code = code or Code(function)
        functools.update_wrapper(self, function)

    def options(self, **given: Unpack[RemoteArguments]) -> RemoteFunction:
        """Returns the same function with other options."""
        return RemoteFunction(self._function, self._options.changed(**given), self._code)

    def remote(self, *arguments: Any, **named: Any) -> Any:
        """Starts a call and returns a ref to its value, or `num_returns` refs. Does not wait.

        Raises HeadError if the head refuses the run of its first worker, and TypeError if the arguments do not fit the
        function.
        """
        if self._options.name:
            refs = self._started(arguments, named)[1]
        else:
            refs = _pools.start(self._code, self._options, arguments, named)
        return refs[0] if len(refs) == 1 else refs

    def value_within(self, seconds: float | None, *arguments: Any, **named: Any) -> Any:
        """Starts a call in a run of its own and returns its value. After `seconds` without it, ends the call's run by force and raises
        GetTimeoutError.
        """
        slot, refs = self._started(arguments, named)
        try:
            return get(refs[0], timeout=seconds)
        except GetTimeoutError:
            slot.hub.let_go(slot)
            slot.died(f"it took longer than {seconds} s")
            raise

    def _started(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[Slot, list[ObjectRef]]:
        self._code.check(arguments, named)
        _arguments.check("rtrain.remote", self._options.repetitions(), _arguments.NAMED_CALL)
        hub = _hub.hub()
        what = f"{getattr(self._function, '__name__', 'function')}()"
        job = self._options.job(self._options.name or run_name(what), actor=False)
        slot = Slot(what, actor=False, job=job, hub=hub)
        refs = [ObjectRef(what, _hub.checker(slot)) for _ in range(self._options.num_returns)]
        for ref in refs:
            ref._cancel = _pools.canceller_of_run(slot)
        slot.call(Call("function", what, self._function, arguments, named, refs))
        slot.end()
        hub.submit(slot)
        return slot, refs

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"{self.__name__} is remote: call {self.__name__}.remote(...), and rtrain.get its value")  # type: ignore[attr-defined]


class RemoteClass:
    """A class whose `.remote(...)` makes an object on a node, an actor."""

    def __init__(self, kind: type, options: Options) -> None:
        self._kind = kind
        self._options = options
        self.__name__ = kind.__name__
        self.__doc__ = kind.__doc__

    def options(self, **given: Unpack[RemoteArguments]) -> RemoteClass:
        """Returns the same class with other options."""
        return RemoteClass(self._kind, self._options.changed(**given))

    def remote(self, *arguments: Any, **named: Any) -> ActorHandle:
        """Makes an object and returns its handle. Does not wait. The object ends when its last handle is deleted.

        Raises HeadError if the head refuses the run, and TypeError if the arguments do not fit the class.
        """
        _fits(self._kind, arguments, named)
        _arguments.check("rtrain.remote", self._options.repetitions(), _arguments.ACTOR)
        hub = _hub.hub()
        what = self._kind.__name__
        slot = Slot(what, actor=True, job=self._options.job(self._options.name or run_name(what), actor=True), hub=hub)
        slot.call(Call("construct", f"{what}()", self._kind, arguments, named, [ObjectRef(f"{what}()")]))
        hub.submit(slot)
        return ActorHandle(slot, self._kind)

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"{self.__name__} is remote: make it with {self.__name__}.remote(...)")


class ActorHandle:
    """A handle of an object on a node. `handle.method.remote(...)` calls a method. The object runs the calls in
    their order.
    """

    def __init__(self, slot: Slot, kind: type) -> None:
        self._slot = slot
        self._kind = kind
        weakref.finalize(self, slot.end)

    def __getattr__(self, name: str) -> ActorMethod:
        if name.startswith("__") and name != "__call__":
            raise AttributeError(name)
        if not callable(getattr(self._kind, name, None)):
            raise AttributeError(f"{self._kind.__name__} has no method {name!r}")
        return ActorMethod(self, name)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(f"the handle of {self._kind.__name__} cannot travel: only the process that made an actor may call it")

    def __repr__(self) -> str:
        return f"ActorHandle({self._kind.__name__}, run {self._slot.run_id})"


class ActorMethod:
    """A method of an actor. It holds the handle, and so keeps the actor alive."""

    def __init__(self, handle: ActorHandle, name: str, num_returns: int = 1) -> None:
        self._handle = handle
        self._name = name
        self._num_returns = num_returns

    def options(self, *, num_returns: int = 1) -> ActorMethod:
        return ActorMethod(self._handle, self._name, num_returns)

    def remote(self, *arguments: Any, **named: Any) -> Any:
        """Calls the method and returns a ref to its value, or `num_returns` refs. Does not wait."""
        slot = self._handle._slot
        what = f"{slot.what}.{self._name}()"
        refs = [ObjectRef(what, _hub.checker(slot)) for _ in range(self._num_returns)]
        slot.call(Call("method", what, self._name, arguments, named, refs))
        return refs[0] if len(refs) == 1 else refs

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"{self._name} is remote: call handle.{self._name}.remote(...)")


class RemoteDecorator(Protocol):
    """The type of `rtrain.remote(num_gpus=1, ...)`."""

    @overload
    def __call__(self, target: type, /) -> RemoteClass: ...  # type: ignore[overload-overlap]  # a class is callable
    @overload
    def __call__(self, target: Callable[..., Any], /) -> RemoteFunction: ...


@overload
def remote(target: type, /) -> RemoteClass: ...  # type: ignore[overload-overlap]  # a class is callable
@overload
def remote(target: Callable[..., Any], /) -> RemoteFunction: ...
@overload
def remote(**options: Unpack[RemoteArguments]) -> RemoteDecorator: ...
def remote(*target: Any, **options: Any) -> Any:
    """Makes a function or a class remote: `@rtrain.remote`, or `@rtrain.remote(num_gpus=1, num_cpus=4)`.

    num_cpus, num_gpus, memory, resources: what its worker has: CPUs (left out: 1 for a function, 0 for an actor), GPUs,
    bytes, {"name": amount}. A node takes at most 256 workers without resources of each user.
    accelerator_type, label_selector: which nodes it may run on.
    num_returns: into how many refs the returned list is split.
    name: the name of the run that holds the worker.
    runtime_env: {"env_vars": {...}}; these win over those of `init`.
    """
    chosen = Options().changed(**options)
    if len(target) == 1 and not options and callable(target[0]):
        return _as_remote(target[0], chosen)
    if target:
        raise TypeError("use @rtrain.remote, or @rtrain.remote(num_gpus=1, ...) with names")
    return lambda decorated: _as_remote(decorated, chosen)


def kill(actor: ActorHandle, *, no_restart: bool = True) -> None:
    """Ends an actor by force. Returns when its process has ended and its GPUs are free. Unfinished calls raise
    ActorDiedError.

    no_restart: accepted for Ray's sake; actors are never restarted.

    Raises TimeoutError if the actor has not ended after a minute. Raises Unreachable if the head does not answer;
    the actor may still run then.
    """
    _arguments.check_named("kill", no_restart=no_restart)
    if not isinstance(actor, ActorHandle):
        raise TypeError(f"rtrain.kill takes an actor's handle, not {type(actor).__name__}")
    slot = actor._slot
    try:
        slot.hub.stop_run(slot)
    finally:
        slot.died("it was killed")
    slot.hub.until_gone(slot)


def _as_remote(target: Any, options: Options) -> RemoteFunction | RemoteClass:
    if inspect.isclass(target):
        return RemoteClass(target, options)
    if callable(target):
        return RemoteFunction(target, options)
    raise TypeError(f"rtrain.remote takes a function or a class, not {type(target).__name__}")


def _fits(target: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):  # built-ins without a known signature
        return
    try:
        signature.bind(*arguments, **named)
    except TypeError as error:
        raise TypeError(f"{getattr(target, '__name__', target)}: {error}") from None


public_in("rtrain", kill, remote)
