"""`@rtrain.remote`: functions whose calls run on nodes of the cluster, and classes whose objects live there."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, overload

from rtrain import _arguments
from rtrain._lazy import public_in
from rtrain._remote import _call_runs
from rtrain._remote._actors import _names
from rtrain._remote._actors._handle import ActorHandle, ActorMethod
from rtrain._remote._actors._slot import ActorSlot
from rtrain._remote._call_runs import Slot
from rtrain._remote._calls import Call
from rtrain._remote._errors import GetTimeoutError
from rtrain._remote._generator import ObjectRefGenerator, Stream
from rtrain._remote._methods import STREAMING, is_async, is_generator, methods_of
from rtrain._remote._options import Options, plain_name, run_name
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
        """Starts a call and returns a ref to its value, or `num_returns` refs, or an ObjectRefGenerator. Does not wait.

        Raises HeadError if the head refuses the run of its first worker, and TypeError if the arguments do not fit the
        function.
        """
        returns = self._options.num_returns or (STREAMING if is_generator(self._function) else 1)
        if returns == STREAMING:
            return self._generator(arguments, named)
        if self._options.name:
            refs = self._started(arguments, named)[1]
        else:
            self._options.check_for_function()
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
            slot.call_runs.let_go(slot)
            slot.died(f"it took longer than {seconds} s")
            raise

    def _started(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[Slot, list[ObjectRef]]:
        slot = self._slot(arguments, named)
        refs = [ObjectRef(slot.what, _call_runs.checker(slot)) for _ in range(int(self._options.num_returns or 1))]
        for ref in refs:
            ref._cancel = _pools.canceller_of_run(slot)
        slot.call(Call("function", slot.what, self._function, arguments, named, refs))
        slot.end()
        slot.call_runs.submit(slot)
        return slot, refs

    def _generator(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> ObjectRefGenerator:
        slot = self._slot(arguments, named)
        stream = Stream(slot.what, self._options._generator_backpressure_num_objects, _call_runs.checker(slot))
        slot.call(Call("function", slot.what, self._function, arguments, named, [stream.ended], stream=stream))
        slot.end()
        slot.call_runs.submit(slot)
        return ObjectRefGenerator(stream)

    def _slot(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> Slot:
        """Returns a new run for one call. Raises TypeError if the arguments do not fit the function."""
        self._options.check_for_function()
        self._code.check(arguments, named)
        _arguments.check("rtrain.remote", self._options.repetitions(), _arguments.NAMED_CALL)
        what = f"{getattr(self._function, '__name__', 'function')}()"
        job = self._options.job(self._options.name or run_name(what), actor=False, function=plain_name(what))
        return Slot(what, actor=False, job=job, call_runs=_call_runs.call_runs())

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

        Raises HeadError if the head refuses the run, TypeError if the arguments do not fit the class, and ValueError if an actor
        of this program has the name.
        """
        _fits(self._kind, arguments, named)
        _arguments.check("rtrain.remote", self._options.repetitions(), _arguments.ACTOR)
        name, space = self._options.name, self._options.namespace
        if name is None:
            return self._made(arguments, named)
        named_before = _names.find(name, space)
        if named_before is None:
            handle = self._made(arguments, named)
            if _names.add(name, space, handle):
                return handle
            named_before = _names.find(name, space)  # another process has made one meanwhile; this one ends with its handle
        if named_before is not None and self._options.get_if_exists:
            return named_before
        raise ValueError(f"an actor of this program has the name {name!r} already: get_actor finds it, or get_if_exists=True")

    def _made(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> ActorHandle:
        options, what, call_runs = self._options, self._kind.__name__, _call_runs.call_runs()
        methods = methods_of(self._kind)
        limits = {"max_task_retries": options.max_task_retries, "max_pending_calls": options.max_pending_calls}
        fields = {"concurrency": options.max_concurrency, "is_async": is_async(self._kind)}
        job = options.job(options.name or run_name(what), actor=True, function=plain_name(what))
        slot = ActorSlot(what, actor=True, job=job, call_runs=call_runs, max_restarts=options.max_restarts, options=fields)
        target = (self._kind, methods, limits)
        slot.construct(Call("construct", f"{what}()", target, arguments, named, [ObjectRef(f"{what}()")]))
        slot.held()
        call_runs.submit(slot)
        return ActorHandle(slot, methods, limits)

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"{self.__name__} is remote: make it with {self.__name__}.remote(...)")


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
    num_returns: into how many refs the returned list is split; "streaming": a generator, whose calls return an
    ObjectRefGenerator. Generator functions have that by themselves.
    name: the name of the run that holds the worker; of an actor also its name within this program, for `get_actor`.
    runtime_env: {"env_vars": {...}}; these win over those of `init`.

    Of a class: max_concurrency: how many calls run at a time, in threads (left out: 1), or in an event loop where the class
    has `async def` methods (left out: 1000).
    max_restarts: how often a lost worker is started and constructed again; -1: without end. Drains and preemptions do not
    count. max_task_retries: how often a call is repeated that a lost worker had; -1: without end.
    namespace, get_if_exists: divides names of actors; returns the actor that has the name already.
    max_pending_calls: unanswered calls of one process; a further one raises PendingCallsLimitExceeded. -1: any number.
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

    no_restart: False ends the worker as a crash does, without waiting: an actor with `max_restarts` is constructed again.

    Raises TimeoutError if the actor has not ended after a minute. Raises Unreachable if the head does not answer;
    the actor may still run then.
    """
    if not isinstance(actor, ActorHandle):
        raise TypeError(f"rtrain.kill takes an actor's handle, not {type(actor).__name__}")
    slot, call_runs = actor._slot, actor._slot.call_runs_of_process()
    if not no_restart:
        slot.restart()
        return
    try:
        call_runs.stop_run(slot)
    finally:
        slot.died("it was killed")
    call_runs.until_gone(slot)


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
public_in("rtrain.actor", ActorHandle, ActorMethod, RemoteClass)
