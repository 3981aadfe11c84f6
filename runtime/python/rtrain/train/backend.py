"""Lets users write backends: functions that run on all ranks before the loop and after it.

    class Ring(Backend):
        def on_start(self, worker_group, backend_config):
            addresses = worker_group.execute(my_address)
            worker_group.execute(join_ring, addresses)

    @dataclass
    class RingConfig(BackendConfig):
        @property
        def backend_cls(self):
            return Ring

    DataParallelTrainer(loop, backend_config=RingConfig())

The hooks run in rank 0's process; `worker_group.execute` runs a function on every rank and gives back what each returned. After a
failure no hook runs: the ranks are ended, and the next attempt begins with `on_start`.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from rtrain.train._session._protocol import Session

__all__ = ["Backend", "BackendConfig", "WorkerGroup"]


class Backend:
    """Hooks around the loop. Each is called on rank 0 alone. Derive from it, and name the class in a BackendConfig."""

    def on_start(self, worker_group: WorkerGroup, backend_config: BackendConfig) -> None:
        """Called once all ranks have started, before the process group is made."""

    def on_training_start(self, worker_group: WorkerGroup, backend_config: BackendConfig) -> None:
        """Called right before the loop."""

    def on_shutdown(self, worker_group: WorkerGroup, backend_config: BackendConfig) -> None:
        """Called when every rank's loop has returned."""


class BackendConfig:
    """The base class of a trainer's `backend_config`: hooks around the loop. Derive from it."""

    @property
    def backend_cls(self) -> type[Backend] | None:
        """The class of the hooks; None: there are no hooks."""
        return None

    @property
    def train_func_context(self) -> Callable[[], AbstractContextManager[Any]]:
        """A function that returns a context; every rank calls the loop in it."""
        return contextlib.nullcontext


class WorkerGroup:
    """All ranks of the attempt, for the hooks of a Backend."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __len__(self) -> int:
        return self._session.facts.world_size

    def execute(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> list[Any]:
        """Calls `function` on every rank at the same time and returns the results, by rank.

        Raises RuntimeError if a rank raises; its text contains the rank and the traceback.
        """
        return self._request(None, function, arguments, named)

    def execute_single(self, worker_index: int, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Calls `function` on the rank `worker_index` and returns the result.

        Raises RuntimeError, with the traceback, if the function raises, and IndexError if there is no such rank.
        """
        if not 0 <= worker_index < len(self):
            raise IndexError(f"there is no rank {worker_index}: the run has {len(self)} workers")
        return self._request(worker_index, function, arguments, named)[worker_index]

    def _request(self, rank: int | None, function: Any, arguments: Any, named: Any) -> list[Any]:
        from rtrain.train._archive._package import dumps

        call = dumps((rank, function, arguments, named), f"worker_group.execute({getattr(function, '__name__', 'function')})")
        answers = _answer(self._session, self._session.broadcast_from_rank_zero(call))
        for at, (fine, value) in enumerate(answers):
            if not fine:
                raise RuntimeError(f"rank {at} failed in a hook of the backend:\n{value}")
        return [value for _, value in answers]


def _answer(session: Session, call: bytes) -> list[tuple[bool, Any]]:
    """Runs one call on this rank and gathers its result. Returns the results of all ranks on rank 0."""
    import traceback

    rank, function, arguments, named = pickle.loads(call)
    outcome: tuple[bool, Any] = True, None
    if rank is None or rank == session.facts.world_rank:
        try:
            outcome = True, function(*arguments, **named)
        except Exception:
            outcome = False, traceback.format_exc()
    return session.gather_to_rank_zero(outcome)


class Hooks:
    """Runs the hooks of a backend on one rank. Does nothing if the trainer's `backend_config` has no hooks."""

    def __init__(self, session: Session, config: Any) -> None:
        self._session = session
        self._config = config
        kind = getattr(config, "backend_cls", None)
        self._kind: type[Backend] | None = kind if isinstance(kind, type) else None
        self._backend: Backend | None = None

    def call(self, name: str) -> None:
        """Runs a hook. All ranks call this together."""
        if self._kind is None:
            return
        if self._session.facts.world_rank != 0:
            while (call := self._session.broadcast_from_rank_zero(None)) is not None:
                _answer(self._session, call)
            return
        if self._backend is None:
            self._backend = self._kind()
        getattr(self._backend, name)(WorkerGroup(self._session), self._config)
        self._session.broadcast_from_rank_zero(None)

    @contextlib.contextmanager
    def around_loop(self) -> Iterator[None]:
        make = getattr(self._config, "train_func_context", None)
        with make() if callable(make) else contextlib.nullcontext():
            yield
