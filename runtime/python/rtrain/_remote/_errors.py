"""What `rtrain.get` raises."""

from __future__ import annotations

from typing import Any

from rtrain._lazy import public_in


class RemoteError(RuntimeError):
    """A remote call failed."""


class TaskError(RemoteError):
    """The remote function raised an error. The text has its traceback, and `cause` is the error itself.

    It is also of the class of that error, so an `except` for that class catches it.
    """

    def __init__(self, message: str, cause: BaseException | None = None) -> None:
        RuntimeError.__init__(self, message)
        self.cause = cause

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (str(self), self.cause)


class WorkerCrashedError(RemoteError):
    """The worker ended before it answered. The text has the cause that the cluster knows."""


class ActorDiedError(WorkerCrashedError):
    """The actor has ended: it was killed, it crashed, or its class could not be constructed."""


class GetTimeoutError(RemoteError, TimeoutError):
    """The value was not there within the timeout of `rtrain.get`. It may still come."""


class TaskCancelledError(RemoteError):
    """The connection to the cluster ended before the value came."""


def _text(error: BaseException) -> str:
    return str(error.args[0]) if error.args else ""


def _rebuilt(message: str, cause: BaseException | None) -> TaskError:
    return task_error(message, cause)


def task_error(message: str, cause: BaseException | None) -> TaskError:
    """A TaskError that is also of the cause's class, where that class allows it."""
    if isinstance(cause, Exception) and not isinstance(cause, TaskError):
        kind = type(cause)
        try:
            both = type(f"TaskError({kind.__name__})", (TaskError, kind), {"__init__": TaskError.__init__, "__str__": _text})
            error = both(message, cause)
        except TypeError:  # layouts that do not mix
            return TaskError(message, cause)
        if isinstance(error, TaskError):
            return error
    return TaskError(message, cause)


public_in("rtrain.exceptions", ActorDiedError, GetTimeoutError, RemoteError, TaskCancelledError, TaskError, WorkerCrashedError)
