"""The exceptions that `rtrain.get` and related functions raise, and the names that Ray has for them."""

from rtrain._remote._errors import (
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

RayError = RemoteError
RayTaskError = TaskError
RayActorError = ActorError


class ObjectLostError(RemoteError):
    """A value is gone. rtrain keeps values in the process that holds their refs, and raises WorkerCrashedError instead."""


class ObjectFetchTimedOutError(ObjectLostError):
    """A value did not arrive in time. rtrain raises GetTimeoutError instead."""


class OwnerDiedError(ObjectLostError):
    """The process that made a ref is gone. rtrain sends a ref to other processes together with its value, so none raises it."""


class ObjectReconstructionFailedError(ObjectLostError):
    """A lost value could not be made again. rtrain raises WorkerCrashedError instead."""


class ObjectStoreFullError(RemoteError):
    """There is no room for a value. rtrain has no object store: a process without memory raises MemoryError."""


class OutOfMemoryError(RemoteError):
    """A worker used too much memory. rtrain raises WorkerCrashedError, whose text says so."""


class NodeDiedError(RemoteError):
    """A node was lost. rtrain raises WorkerCrashedError or ActorDiedError, whose text names the node."""


class RaySystemError(RemoteError):
    """The cluster failed. rtrain raises the HeadError of the request that failed."""


class RuntimeEnvSetupError(RemoteError):
    """A `runtime_env` could not be made. rtrain raises ValueError at the call, or WorkerCrashedError with the cause."""


class TaskUnschedulableError(RemoteError):
    """No node can run a call. rtrain lets it wait for nodes, and prints why."""


class ActorUnschedulableError(RemoteError):
    """No node can hold an actor. rtrain lets it wait for nodes, and prints why."""


__all__ = [
    "ActorDiedError",
    "ActorError",
    "ActorUnavailableError",
    "ActorUnschedulableError",
    "GetTimeoutError",
    "NodeDiedError",
    "ObjectFetchTimedOutError",
    "ObjectLostError",
    "ObjectReconstructionFailedError",
    "ObjectStoreFullError",
    "OutOfMemoryError",
    "OwnerDiedError",
    "PendingCallsLimitExceeded",
    "RayActorError",
    "RayError",
    "RaySystemError",
    "RayTaskError",
    "RemoteError",
    "RuntimeEnvSetupError",
    "TaskCancelledError",
    "TaskError",
    "TaskUnschedulableError",
    "WorkerCrashedError",
]
