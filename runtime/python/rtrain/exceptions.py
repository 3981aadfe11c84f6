"""The exceptions that `rtrain.get` and related functions raise."""

from rtrain._remote._errors import (
    ActorDiedError,
    GetTimeoutError,
    RemoteError,
    TaskCancelledError,
    TaskError,
    WorkerCrashedError,
)

RayTaskError = TaskError
RayActorError = ActorDiedError

__all__ = [
    "ActorDiedError",
    "GetTimeoutError",
    "RayActorError",
    "RayTaskError",
    "RemoteError",
    "TaskCancelledError",
    "TaskError",
    "WorkerCrashedError",
]
