"""The pools of this process, and the two threads that they share: one for timers, one for requests to the head."""

from __future__ import annotations

import json
import math
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rtrain import _runtime_env
from rtrain._remote import _blocked
from rtrain._remote._call_runs import CallRuns
from rtrain._remote._code import WorkingDir
from rtrain._remote._errors import TaskCancelledError
from rtrain._remote._options import CPUS, Options
from rtrain._remote._pools import _current
from rtrain._remote._pools._lent import WORKER
from rtrain._remote._pools._plan import Limits
from rtrain._remote._pools._pool import Pool
from rtrain._remote._pools._slot import PoolSlot

IDLE = "RTRAIN_POOL_IDLE_S"  # seconds after which a worker without calls ends
_SLOWEST_TICK_S = 1.0


class Registry:
    def __init__(self, call_runs: CallRuns) -> None:
        self._call_runs = call_runs
        self._code = WorkingDir(call_runs.head)
        self._lock = threading.Lock()
        self._pools: dict[str, Pool] = {}
        self._keys: dict[tuple[Any, ...], tuple[Options, Pool]] = {}  # a pool for options in one environment
        self._requests: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._wake = threading.Event()
        self._next = math.inf
        self._closed = False
        self._names = _names()
        self._limits = _limits()
        self._lends = _cpus_to_lend()
        call_runs.attached.append(self)
        _current.set_children(self._cancel_children)
        if self._lends is not None:
            _blocked.listen(self._blocked)
        threading.Thread(target=self._perform_requests, daemon=True, name="rtrain pools requests").start()
        threading.Thread(target=self._tick, daemon=True, name="rtrain pools timers").start()

    def pool(self, options: Options) -> Pool:
        """Returns the pool for these options in the present environment."""
        key = (id(options), *map(os.environ.get, self._names))
        known = self._keys.get(key)
        if known is not None:
            return known[1]
        job = {**options.job("", actor=False), "entrypoint": [sys.executable, "-m", WORKER]}
        secrets = {name: os.environ.get(name) for name in _runtime_env.inherited_secrets(job)}
        calls_most = options.calls_of_a_worker()
        digest = self._code.digest()
        text = json.dumps([job, secrets, digest, calls_most], sort_keys=True, default=str)
        with self._lock:
            if text not in self._pools:
                limits = replace(self._limits, calls_most=calls_most)
                self._pools[text] = Pool(self, self._call_runs, job, self._cpus_of(options, digest), limits)
            self._keys[key] = options, self._pools[text]  # the options stay, so that no others have their id
            return self._pools[text]

    def _cpus_of(self, options: Options, digest: str) -> float | None:
        """Returns the CPUs of a call that this process may lend CPUs for; None if it needs more than CPUs, or other code."""
        needs_more = options.num_gpus or options.memory or options.resources or options.accelerator_type or options.label_selector
        if self._lends is None or needs_more or digest or options.calls_of_a_worker():
            return None
        cpus = 1.0 if options.num_cpus is None else options.num_cpus
        return cpus if cpus <= self._lends else None

    # -- for pools -----------------------------------------------------------------------------------------------------
    def soon(self, does: Callable[[], None]) -> None:
        self._requests.put(does)

    def wake_at(self, when: float) -> None:
        if when < self._next:
            self._next = when
            self._wake.set()

    def may_lend(self, pool: Pool) -> bool:
        if self._lends is None or pool.cpus is None or _blocked.since() is None:
            return False
        lent = sum(other.cpus or 0.0 for other in list(self._pools.values()) if other is not pool and other.lends)
        return lent + pool.cpus <= self._lends

    def blocked_since(self) -> float | None:
        return _blocked.since()

    def _cancel_children(self, parent: int, *, force: bool) -> None:
        """Cancels the calls that call `parent` of this worker has made."""
        for pool in list(self._pools.values()):
            for call in pool.children_of(parent):
                pool.cancel(call, force=force, recursive=True)

    # -- for CallRuns ---------------------------------------------------------------------------------------------------
    def make_room(self, slot: object) -> None:
        """Ends idle workers of other pools, as a run of this process waits for resources."""
        if isinstance(slot, PoolSlot) and not slot.owner.waits():
            return
        for pool in list(self._pools.values()):
            if not (isinstance(slot, PoolSlot) and slot.owner is pool):
                pool.end_idle()

    def close(self) -> None:
        self._end(TaskCancelledError("the connection to the cluster was ended"))
        self._requests.put(None)
        self._wake.set()
        if self._lends is not None:
            _blocked.listen(None)

    def leave(self) -> None:
        error = TaskCancelledError(f"it belongs to process {os.getppid()}, which this one was forked from")
        self._lock = threading.Lock()
        self._closed = True
        for pool in self._pools.values():
            pool.leave(error)

    def _end(self, error: TaskCancelledError) -> None:
        self._closed = True
        for pool in list(self._pools.values()):
            pool.close(error)

    # -- threads -------------------------------------------------------------------------------------------------------
    def _blocked(self) -> None:
        since = _blocked.since()
        if since is not None and any(pool.cpus is not None for pool in list(self._pools.values())):
            self.wake_at(since + self._limits.lend_after_s)

    def _perform_requests(self) -> None:
        while (does := self._requests.get()) is not None:
            try:
                does()
            except Exception:  # a fault here must not end all further requests
                print(f"rtrain: a request for remote functions failed:\n{traceback.format_exc()}", file=sys.stderr, flush=True)

    def _tick(self) -> None:
        while not self._closed:
            now = time.monotonic()
            if self._next > now:
                self._wake.wait(min(self._next - now, _SLOWEST_TICK_S))
            self._wake.clear()
            now = time.monotonic()
            self._next = math.inf
            for pool in list(self._pools.values()):
                if self._closed:
                    return
                for slot in pool.lent_slots():
                    slot.check()
                pool.tick(now)


def _names() -> list[str]:
    """Returns the variables that the job of a call depends on, and that the program may change."""
    listed = [os.environ.get("RTRAIN_ENV_NAMES", ""), os.environ.get("RTRAIN_SECRET_NAMES", "")]
    return ["PYTHONPATH", *(name for text in listed for name in text.split(",") if name)]


def _limits() -> Limits:
    text = os.environ.get(IDLE, "")
    if not text:
        return Limits()
    try:
        given = float(text)
    except ValueError:
        given = -1.0
    if not 0 <= given < math.inf:
        raise ValueError(f"{IDLE} is {text!r}; it is a number of seconds")
    return Limits(idle_s=given, idle_yielding_s=given)


def _cpus_to_lend() -> float | None:
    text = os.environ.get(CPUS, "")
    return float(text) if text else None


_making = threading.Lock()


def _in_a_child() -> None:
    global _making
    _making = threading.Lock()  # replaces the lock, which a thread of the parent may hold


os.register_at_fork(after_in_child=_in_a_child)


def registry(call_runs: CallRuns) -> Registry:
    """Returns the registry of this process."""
    with _making:
        known = next((attached for attached in call_runs.attached if isinstance(attached, Registry)), None)
        return known or Registry(call_runs)
