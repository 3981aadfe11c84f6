"""The exceptions that `rtrain.get` raises."""

from __future__ import annotations

import builtins
import contextlib
from typing import Any

from rtrain import _exception_pickle, _public_names
from rtrain._lazy import public_in


class RemoteError(RuntimeError):
    """A remote call failed."""


class TaskError(RemoteError):
    """The remote function raised an error. The text has its traceback, and `cause` is the error itself.

    It is also of the class of that error, so an `except` for that class catches it. `cause` is None where the error cannot be
    unpickled in this process; the text says why.
    """

    def __init__(self, message: str, cause: BaseException | None = None) -> None:
        RuntimeError.__init__(self, message)
        self.cause = cause

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the cause separately: a process that cannot unpickle it still has the text."""
        cause: Any = self.cause
        if isinstance(cause, BaseException):
            try:
                cause = _exception_pickle.dumped(cause, _public_names.dumps)
            except _exception_pickle.NotCarried:
                cause = None
        return _rebuilt, (str(self), cause)


class WorkerCrashedError(RemoteError):
    """The worker ended before it answered. The text contains the cause if the cluster has recorded one."""


class ActorError(WorkerCrashedError):
    """The actor did not answer the call."""


class ActorDiedError(ActorError):
    """The actor has ended: it was killed, it crashed, or its class could not be constructed."""


class ActorUnavailableError(ActorError):
    """The worker of the actor was lost during the call. The actor is constructed again, so later calls may succeed."""


class PendingCallsLimitExceeded(RemoteError):
    """The actor has `max_pending_calls` calls that are not answered."""


class GetTimeoutError(RemoteError, TimeoutError):
    """The value did not arrive within the timeout of `rtrain.get`. It may still arrive later."""


class TaskCancelledError(RemoteError):
    """The connection to the cluster ended before the value arrived."""


def _text(error: BaseException) -> str:
    return str(error.args[0]) if error.args else ""


def _rebuilt(message: str, cause: BaseException | bytes | None) -> TaskError:
    """Builds a TaskError from its parts. Pickles refer to this function by name. In pickles of 0.1.0 the cause is the
    exception itself.
    """
    if isinstance(cause, bytes):
        try:
            cause = _exception_pickle.loaded(cause)
        except _exception_pickle.NotCarried:
            cause = None
    return task_error(message, cause)


def task_error(message: str, cause: BaseException | None) -> TaskError:
    """Returns a TaskError that is also of the cause's class, where that class allows it."""
    if isinstance(cause, Exception) and not isinstance(cause, TaskError):
        kind = type(cause)
        names = {"__new__": _new_group, "__init__": TaskError.__init__, "__str__": _text}
        if not _is_group(cause):
            del names["__new__"]
        with contextlib.suppress(Exception):  # incompatible layouts, or a class that raises anything here
            error = type(f"TaskError({kind.__name__})", (TaskError, kind), names)(message, cause)
            if isinstance(error, TaskError):
                return error
    return TaskError(message, cause)


def _is_group(error: BaseException) -> bool:
    group = getattr(builtins, "BaseExceptionGroup", None)  # exists since Python 3.11
    return group is not None and isinstance(error, group)


def _new_group(kind: Any, message: str, cause: Any) -> Any:
    """Makes a group of the cause's exceptions, so that `except*` finds them."""
    return builtins.BaseExceptionGroup.__new__(kind, message, cause.exceptions)  # type: ignore[attr-defined,unused-ignore]


public_in(
    "rtrain.exceptions",
    ActorDiedError,
    ActorError,
    ActorUnavailableError,
    GetTimeoutError,
    PendingCallsLimitExceeded,
    RemoteError,
    TaskCancelledError,
    TaskError,
    WorkerCrashedError,
)
