"""The exceptions of `fit()`. Every class can be pickled."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rtrain import _exception_pickle, _public_names
from rtrain._lazy import public_in

_SNIPPET = 1000
_NUMBERS = re.compile(r"\b(0x[0-9a-fA-F]+|\d+(\.\d+)?)\b")


class TrainingFailedError(RuntimeError):
    """The run failed. The subclasses name the kind of failure."""


class WorkerGroupError(TrainingFailedError):
    """Workers failed. `worker_failures` maps a world rank to its exception."""

    def __init__(self, message: str, worker_failures: Mapping[int, Exception] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.worker_failures: dict[int, Exception] = dict(worker_failures or {})

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, {rank: _Carried(failure) for rank, failure in self.worker_failures.items()})


class NCCLHangError(WorkerGroupError):
    """Ranks waited for each other in a collective that never ended, and were killed."""


class ControllerError(TrainingFailedError):
    """The run could not be started, placed or kept, and no worker is the cause.

    `controller_failure` is the reason. The text is the `message`, or the reason's text without one.
    """

    _of_a_callback = False

    def __init__(self, controller_failure: Exception | str, message: str = "") -> None:
        if not isinstance(controller_failure, BaseException):  # a text in place of an exception
            message, controller_failure = message or str(controller_failure), RuntimeError(controller_failure)
        self.message = message or f"Training failed: {type(controller_failure).__name__}: {controller_failure}"
        super().__init__(self.message)
        self.controller_failure: Exception = controller_failure

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (_Carried(self.controller_failure), self.message)


class PreemptionError(TrainingFailedError):
    """Nodes were taken away more often than the run allows. The text names the nodes and their ranks, from `preemption_info`."""

    def __init__(self, preemption_info: object = None, drain_timed_out: bool = False, message: str = "") -> None:  # noqa: FBT001, FBT002
        if isinstance(preemption_info, str):  # a text in place of the information
            message, preemption_info = message or preemption_info, None
        self.message = message or _preemption_message(preemption_info, drain_timed_out=drain_timed_out)
        super().__init__(self.message)
        self.preemption_info = preemption_info
        self.drain_timed_out = drain_timed_out

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.preemption_info, self.drain_timed_out, self.message)


class TrainingStoppedError(TrainingFailedError):
    """A user stopped the run."""


class CollectiveTimeoutError(RuntimeError):
    """Not all ranks reached `report`, `collective.barrier` or `collective.broadcast_from_rank_zero` in time.

    The text names the missing ranks, as far as they are known.
    """


class BroadcastCollectiveTimeoutError(CollectiveTimeoutError):
    """Not all ranks reached `report`, `collective.barrier` or `collective.broadcast_from_rank_zero`. The text names
    the missing ranks, as far as they are known.
    """


class WorkerHealthCheckTimeoutError(RuntimeError):
    """A worker made no progress for `hang_timeout` and was ended."""


class WorkerHealthCheckFailedError(RuntimeError):
    """A worker or its node ended without an error of its own: killed, out of memory, lost."""


class WorkerGroupStartupFailedError(RuntimeError):
    """The run's workers could not be started."""


class WorkerGroupStartupTimeoutError(WorkerGroupStartupFailedError):
    """The run's workers were not started in time."""


class InsufficientClusterResourcesError(RuntimeError):
    """The cluster had too few free resources for the run's workers."""


class CheckpointManagerInitializationError(RuntimeError):
    """The run's directory is not the readable directory of a run."""


def _preemption_message(info: object, *, drain_timed_out: bool) -> str:
    """Returns "the run's nodes were taken away: node-1 (ranks 0, 1), node-2 (rank 2)"."""
    by_node: Mapping[str, list[int]] = getattr(info, "preempted_node_to_ranks", None) or {}
    nodes = [
        f"{node} (rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, sorted(ranks)))})" if ranks else node
        for node, ranks in by_node.items()
    ]
    text = "the run's nodes were taken away" + (f": {', '.join(nodes)}" if nodes else "")
    return f"{text}; the workers had not ended by the deadline" if drain_timed_out else text


def worker_exception(text: str) -> Exception:
    """Returns the exception for the text of a rank's failure."""
    ended_by_agent = text.startswith("killed by signal 9")
    if "BroadcastCollectiveTimeoutError: " in text.partition("\n")[0]:
        return BroadcastCollectiveTimeoutError(text)
    if ended_by_agent and ("ranks report unequally often" in text or "ranks make unequally many collective calls" in text):
        return BroadcastCollectiveTimeoutError(text)
    if ended_by_agent and "failure.hang_timeout" in text:
        return WorkerHealthCheckTimeoutError(text)
    return UserExceptionWithTraceback(text)


def controller_exception(reason: str, kind: str | None, *, started: bool) -> Exception:
    """Returns the reason of a failure that no worker caused. `kind`: the run's `reason_kind`."""
    if kind in ("queue_time", "never_fits"):
        return InsufficientClusterResourcesError(reason)
    return RuntimeError(reason) if started else WorkerGroupStartupFailedError(reason)


class UserExceptionWithTraceback(Exception):
    """The exception of a worker, as text: first the deepest frame in the user's files, then the whole traceback."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.text,)


class _Carried:
    """An exception of the user's code in a pickled form. Unpickling it gives that exception, or its text if the
    exception cannot be made.
    """

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __reduce__(self) -> tuple[Any, ...]:
        cause = self._error.__cause__
        trace = cause.text if isinstance(cause, UserExceptionWithTraceback) else ""
        try:
            content = _exception_pickle.dumped(self._error, _public_names.dumps)
        except _exception_pickle.NotCarried:
            content = b""
        return _opened, (content, trace, _exception_pickle.in_one_line(self._error))


def _opened(content: bytes, trace: str, line: str) -> Exception:
    """Makes the exception from its pickle, with the worker's traceback as its cause. If that is not possible, makes a
    replacement with its text. Pickles contain the name of this function.
    """
    try:
        error = _exception_pickle.loaded(content)
    except _exception_pickle.NotCarried:
        return UserExceptionWithTraceback(trace or line)
    if trace:
        error.__cause__ = UserExceptionWithTraceback(trace)
    return error if isinstance(error, Exception) else UserExceptionWithTraceback(trace or line)


def group_message(failures: Mapping[int, str], more: str = "") -> str:
    """Returns the text of a WorkerGroupError. Ranks whose tracebacks differ only in numbers are shown together."""
    groups: dict[str, list[int]] = {}
    shown: dict[str, str] = {}
    for rank in sorted(failures):
        key = _NUMBERS.sub("#", failures[rank])
        groups.setdefault(key, []).append(rank)
        shown.setdefault(key, failures[rank])
    parts = ["Training failed due to worker errors:"]
    for key, ranks in groups.items():
        text = shown[key].strip()
        if len(text) > _SNIPPET:
            text = text[: _SNIPPET // 2] + "\n... (shortened; `rtrain describe` has it whole)\n" + text[-_SNIPPET // 2 :]
        parts.append(f"[Rank {','.join(map(str, ranks))} Error Snippet]:\n{text}")
    if more:
        parts.append(more)
    return "\n".join(parts)


public_in(
    "rtrain.train",
    BroadcastCollectiveTimeoutError,
    CheckpointManagerInitializationError,
    CollectiveTimeoutError,
    ControllerError,
    InsufficientClusterResourcesError,
    NCCLHangError,
    PreemptionError,
    TrainingFailedError,
    TrainingStoppedError,
    UserExceptionWithTraceback,
    WorkerGroupError,
    WorkerGroupStartupFailedError,
    WorkerGroupStartupTimeoutError,
    WorkerHealthCheckFailedError,
    WorkerHealthCheckTimeoutError,
)
