"""One pool: the calls and the workers of this process for one combination of resources, environment and code."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from rtrain._http import Conflict, HeadError, NotFound, part
from rtrain._remote import _calls
from rtrain._remote._call_runs import CallRuns
from rtrain._remote._errors import TaskCancelledError, WorkerCrashedError, task_error
from rtrain._remote._options import run_name
from rtrain._remote._pools._call import PoolCall, when_done
from rtrain._remote._pools._lent import LentSlot
from rtrain._remote._pools._plan import Limits, Orders, Plan, Task
from rtrain._remote._pools._slot import PoolSlot

_ENDED = ("SUCCEEDED", "FAILED", "STOPPED")
_PLACED_ANEW = ("QUEUED", "RECOVERING", "STARTING")
# Causes of an attempt's end that are no failure of the call, its worker or its node.
_MOVED = ("preempted_by", "quota_reclaimed", "node_drains", "drained_by", "resize_requested", "room_to_grow", "requested_by")
UNCOUNTED = frozenset({*_MOVED, "yielded_to", "owner_ended"})
_OF_NODES = frozenset({"node_lost", "node_left", "nodes_lost", "node_forgot", "end_unseen"})
_AFTER_FAILED_START_S = 10.0  # no other worker starts in this time
_STARTS_MOST = 3  # starts in a row that nodes may make fail
_SILENT_S = 10.0  # a worker without a connection whose run goes on is stopped after this time
_FORCED_S = 2.0  # a worker that does not end by itself for a cancelled call is stopped after this time


class Registry(Protocol):
    """The surroundings of a pool: a thread for requests to the head, a clock, and CPUs to lend."""

    def soon(self, does: Callable[[], None]) -> None: ...
    def wake_at(self, when: float) -> None: ...
    def may_lend(self, pool: Pool) -> bool: ...
    def blocked_since(self) -> float | None: ...


class Pool:
    def __init__(self, registry: Registry, call_runs: CallRuns, job: dict[str, Any], cpus: float | None, limits: Limits) -> None:
        """cpus: the CPUs of a call if this process may lend them, None otherwise."""
        self.call_runs = call_runs
        self.job = job
        self.cpus = cpus
        self.lock = threading.RLock()
        self._registry = registry
        self._plan = Plan(limits)
        self._calls: dict[int, PoolCall] = {}  # that are not over
        self._slots: dict[str, PoolSlot] = {}  # that the plan knows
        self._silent: dict[str, float] = {}  # slots without a connection, and since when
        self._forced: dict[str, float] = {}  # workers that must end by themselves, and by when
        self._starts_failed = 0
        self.lends = False  # a worker on lent CPUs executes a call
        self._closed: TaskCancelledError | None = None

    # -- calls ---------------------------------------------------------------------------------------------------------
    def submit(self, call: PoolCall) -> None:
        """Queues a call. Raises HeadError if the head refuses the run of the pool's first worker."""
        with self.lock:
            if self._closed is not None:
                raise self._closed
            self._calls[call.number] = call
        if self._packed(call) and (first := self._queue(call)) is not None:
            try:
                self._start(first)
            except BaseException as error:
                with self.lock:
                    self._plan.removed(call.number)
                    self._over(call)
                self._start_refused(first, error)
                raise

    def _packed(self, call: PoolCall) -> bool:
        """Pickles the call. Returns false if it waits for refs, or has failed."""
        try:
            awaited = call.pack()
        except Exception as error:  # the task of an argument raised, or something cannot be pickled
            if self._over(call):
                call.fail(error)
            return False
        if awaited:
            when_done(awaited, lambda: self._registry.soon(lambda: self._packed_later(call)))
        return not awaited

    def _packed_later(self, call: PoolCall) -> None:
        if not call.is_over and self._packed(call) and (first := self._queue(call)) is not None:
            self._start_reported(first)

    def _queue(self, call: PoolCall) -> PoolSlot | None:
        """Returns the pool's first worker, which the caller must start."""
        with self.lock:
            if call.is_over:
                return None
            self._plan.ready(Task(call.number, call.code.number, call.size(), call.retries.most))
            is_first = not self._slots
            return self._decide(starts_one=is_first) if self._plan.is_due_for_call() else None

    def _over(self, call: PoolCall) -> bool:
        """Returns true to the one caller that may settle the call's refs."""
        with self.lock:
            if call.is_over:
                return False
            call.is_over = True
            self._calls.pop(call.number, None)
            return True

    def cancel(self, call: PoolCall, *, force: bool, recursive: bool) -> None:
        with self.lock:
            if call.is_over:
                return
            slot = next((slot for name, slot in self._slots.items() if self._plan.has(name, call.number)), None)
            if slot is not None:
                call.is_cancelled = True
                slot.order(op="cancel", number=call.number, force=force, recursive=recursive)
                if force:
                    self._forced[slot.name] = time.monotonic() + _FORCED_S
                    self._registry.wake_at(self._forced[slot.name])
                return
            self._plan.removed(call.number)
            self._over(call)
        call.cancelled()

    def children_of(self, parent: int) -> list[PoolCall]:
        with self.lock:
            return [call for call in self._calls.values() if call.parent == parent]

    # -- what the plan orders ------------------------------------------------------------------------------------------
    def tick(self, now: float) -> None:
        with self.lock:
            for name, since in list(self._silent.items()):
                if now - since > _SILENT_S and (slot := self._slots.get(name)) is not None:
                    del self._silent[name]
                    slot.is_stopped_here = True
                    self._registry.soon(lambda slot=slot: self.call_runs.let_go(slot))  # type: ignore[misc]
            for name, by in list(self._forced.items()):
                if now >= by:
                    del self._forced[name]
                    if (slot := self._slots.get(name)) is not None:
                        slot.is_expected_to_end = True
                        self._registry.soon(slot.stop)
            self._decide()

    def end_idle(self) -> None:
        """Ends workers without calls, as other work of this process waits for their resources."""
        with self.lock:
            self._perform(self._plan.end_idle(time.monotonic()), starts_one=False)

    def _decide(self, *, starts_one: bool = False) -> PoolSlot | None:
        if self._closed is not None:
            return None
        now = time.monotonic()
        may_lend = self.cpus is not None and self._registry.may_lend(self)
        return self._perform(
            self._plan.decide(now, may_lend=may_lend, blocked_since=self._registry.blocked_since()), starts_one=starts_one
        )

    def _perform(self, orders: Orders, *, starts_one: bool) -> PoolSlot | None:
        for name, tasks in orders.send:
            self._slots[name].give([call for task in tasks if (call := self._given(name, task)) is not None])
        self.lends = any(worker.is_lent and worker.sent for worker in self._plan.workers.values())
        for name, numbers in orders.take_back:
            self._slots[name].order(op="back", of=numbers)
        for name in orders.end:
            self._end(self._slots.pop(name))
        for name in orders.let_yield:
            self._change_yields(self._slots[name], yields=True)
        for name in orders.wake:
            self._change_yields(self._slots[name], yields=False)
        first = None
        for _ in range(orders.start):
            slot = self._new_slot()
            if starts_one and first is None:
                first = slot
            else:
                self._registry.soon(lambda slot=slot: self._start_reported(slot))  # type: ignore[misc]
        if orders.start_lent:
            self._start_lent()
        if orders.wake_at < float("inf"):
            self._registry.wake_at(orders.wake_at)
        return first

    def _given(self, name: str, task: Task) -> PoolCall | None:
        """Returns the call; None if it is over, as it was cancelled while its worker's end was looked up."""
        call = self._calls.get(task.number)
        if call is None:
            self._plan.answered(name, task.number, None, time.monotonic())
        return call

    def _change_yields(self, slot: PoolSlot, *, yields: bool) -> None:
        self._registry.soon(lambda: self._send_yields(slot, yields=yields))

    def _send_yields(self, slot: PoolSlot, *, yields: bool) -> None:
        """Sends the head whether the run yields. A worker that does not yield gets calls after the head's answer."""
        try:
            self.call_runs.head.post(f"/v1/runs/{part(slot.run_id)}/yields", {"yields": yields})
        except NotFound:  # a head of an earlier version, or the run was removed
            slot.can_yield = False
            with self.lock:
                self._plan.cannot_yield(slot.name, time.monotonic())
                self._decide()
            return
        except Conflict:  # the run ends already
            with self.lock:
                self._plan.leaving(slot.name)
                self._decide()
            return
        except HeadError:
            if not yields:
                with self.lock:
                    self._plan.not_woken(slot.name)  # the next decision repeats it
                    self._registry.wake_at(time.monotonic() + _SILENT_S / 10)
            return
        if not yields:
            with self.lock:
                self._plan.woken(slot.name, time.monotonic())
                self._decide()

    def _new_slot(self) -> PoolSlot:
        what = next((self._calls[task.number].what for task in self._plan.queue if task.number in self._calls), "call")
        slot = PoolSlot(self, what, {**self.job, "name": run_name(what)}, self.call_runs)
        self._slots[slot.name] = slot
        self._plan.starting(slot.name, time.monotonic())
        return slot

    def _start_lent(self) -> None:
        slot = LentSlot(self, self.job, self.call_runs)
        self._slots[slot.name] = slot
        self._plan.starting(slot.name, time.monotonic(), is_lent=True)
        self._registry.soon(slot.start)

    def _start(self, slot: PoolSlot) -> None:
        """Submits the slot's run. Raises HeadError if the head refuses it."""
        if not slot.is_needless:
            self.call_runs.submit(slot)
        if slot.is_needless:
            self._drop(slot)

    def _start_reported(self, slot: PoolSlot) -> None:
        try:
            self._start(slot)
        except Exception as error:
            self._start_refused(slot, error)

    def _start_refused(self, slot: PoolSlot, error: BaseException) -> None:
        """Fails the calls in the queue, unless another worker will execute them."""
        with self.lock:
            self._slots.pop(slot.name, None)
            self._plan.lost(slot.name, is_counted=False)
            if any(not isinstance(other, LentSlot) for other in self._slots.values()):
                return
            failed = self._emptied()
        for call in failed:
            call.fail(error if isinstance(error, Exception) else WorkerCrashedError(f"{call.what}: {error!r}"))

    def _emptied(self) -> list[PoolCall]:
        return [call for task in self._plan.emptied() if (call := self._calls.get(task.number)) and self._over(call)]

    def _end(self, slot: PoolSlot) -> None:
        slot.is_needless = True
        self._silent.pop(slot.name, None)
        if slot.channel is not None:
            slot.end()
        elif slot.run_id:
            slot.stopping = True
            self._registry.soon(lambda: self._drop(slot))

    def _drop(self, slot: PoolSlot) -> None:
        self.call_runs.let_go(slot)
        slot.died("its pool needs no further worker")

    # -- what workers do -----------------------------------------------------------------------------------------------
    def worker_connected(self, slot: PoolSlot) -> None:
        with self.lock:
            if slot.name not in self._slots:
                slot.end()
                return
            self._starts_failed = 0
            self._plan.no_start_before = 0.0
            self._silent.pop(slot.name, None)
            self._plan.connected(slot.name, time.monotonic(), can_yield=slot.can_yield)
            self._decide()

    def worker_answered(self, slot: PoolSlot, head: dict[str, Any], parts: list[bytearray]) -> None:
        now = time.monotonic()
        if head.get("op") == "returned":
            with self.lock:
                if head.get("leaves"):
                    self._plan.leaving(slot.name)
                self._plan.returned(slot.name, head["of"], now)
                self._drop_cancelled(head["of"])
                self._decide()
            return
        with self.lock:
            call = self._calls.get(head["id"])
            task = self._plan.answered(slot.name, head["id"], head.get("s"), now)
            if self._plan.is_due_for_answer(slot.name):
                self._decide()
        if call is None or call.is_over or task is None:
            return
        if head["ok"]:
            if self._over(call):
                call.settle(head["counts"], parts)
        elif head.get("cancelled"):
            if head.get("ends"):
                slot.is_expected_to_end = True
            if self._over(call):
                call.cancelled()
        else:
            self._raised(call, task, head, parts)

    def _drop_cancelled(self, numbers: list[int]) -> None:
        for number in numbers:
            call = self._calls.get(number)
            if call is not None and call.is_cancelled and self._plan.removed(number) and self._over(call):
                call.cancelled()

    def _raised(self, call: PoolCall, task: Task, head: dict[str, Any], parts: list[bytearray]) -> None:
        text, cause = _calls.unpacked_error(head, parts)
        if not call.is_cancelled and task.retries != 0 and call.retries.covers(cause):
            with self.lock:
                if not call.is_over and self._closed is None:
                    task.retries = max(-1, task.retries - 1)
                    self._plan.ready(task)
                    self._decide()
                    return
        if self._over(call):
            call.fail(task_error(text, cause))

    def worker_replaced(self, slot: PoolSlot) -> None:
        """Queues the calls of a worker again whose run has another process already. Does nothing for the run's first one."""
        with self.lock:
            worker = self._plan.workers.get(slot.name)
        if worker is None or not worker.is_connected:
            return
        cause, is_counted = self._cause_of_last_end(slot)
        self._lost(slot, cause, is_counted=is_counted, stays=True)

    def worker_seen(self, slot: PoolSlot, run: dict[str, Any]) -> None:
        """Receives the state of the run of a worker without a connection."""
        slot.last_run = run
        slot.can_yield = run.get("yields") is not None
        with self.lock:
            worker = self._plan.workers.get(slot.name)
            is_lost = worker is not None and worker.is_connected
            if is_lost and run["state"] not in _ENDED:
                self._silent.setdefault(slot.name, time.monotonic())
                self._registry.wake_at(self._silent[slot.name] + _SILENT_S)
        if is_lost and run["state"] in _PLACED_ANEW:
            cause, is_counted = self._cause_of_last_end(slot)
            self._lost(slot, cause, is_counted=is_counted, stays=True)

    def worker_ended(self, slot: PoolSlot, why: str, error: type[Exception] | None) -> None:
        with self.lock:
            worker = self._plan.workers.get(slot.name)
            self._slots.pop(slot.name, None)
            self._silent.pop(slot.name, None)
        if worker is None:
            return
        if error is not None:
            failed = [call for number in worker.sent if (call := self._calls.get(number)) and self._over(call)]
            self._plan.lost(slot.name, is_counted=False)
            for call in failed:
                call.fail(error(f"{call.what}: {why}"))
        elif not worker.is_connected and not isinstance(slot, LentSlot):
            self._never_connected(slot, why)
        else:
            is_of_head = str(slot.last_run.get("reason_kind") or "") in UNCOUNTED
            was_stopped = slot.last_run.get("state") == "STOPPED" and not (
                slot.is_expected_to_end or slot.is_stopped_here or is_of_head
            )
            is_counted = not (slot.is_expected_to_end or is_of_head) and self._end_is_counted(slot)
            self._lost(slot, why, is_counted=is_counted, was_stopped=was_stopped)

    def _never_connected(self, slot: PoolSlot, why: str) -> None:
        kind = self._kind_of_last_end(slot)
        with self.lock:
            now = time.monotonic()
            self._plan.lost(slot.name, is_counted=False)
            self._starts_failed += 1
            is_of_nodes = kind in UNCOUNTED | _OF_NODES and self._starts_failed < _STARTS_MOST
            if not is_of_nodes:
                self._plan.no_start_before = now + _AFTER_FAILED_START_S
            if is_of_nodes or any(not isinstance(other, LentSlot) for other in self._slots.values()):
                self._decide()
                return
            self._plan.no_start_before = now
            self._starts_failed = 0
            failed = self._emptied()
        for call in failed:
            call.fail(WorkerCrashedError(f"{call.what}: {why}"))

    def _lost(self, slot: PoolSlot, why: str, *, is_counted: bool, stays: bool = False, was_stopped: bool = False) -> None:
        """Queues the calls of a worker that has ended again, and fails the one that has no repetition left."""
        with self.lock:
            worker = self._plan.workers.get(slot.name)
            sent = list(worker.sent.values()) if worker is not None else []
            if sent and was_stopped:
                sent[0].retries = 0  # a person has stopped it
            spent = self._plan.lost(slot.name, is_counted=is_counted or was_stopped, stays=stays)
            calls = [self._calls[task.number] for task in sent if task.number in self._calls]
            spent_numbers = {task.number for task in spent}
            failed = [call for call in calls if (call.number in spent_numbers or call.is_cancelled) and self._over(call)]
            for call in failed:
                self._plan.removed(call.number)
            again = [call for call in calls[:1] if not call.is_over]
            self._decide()
        for call in failed:
            if call.is_cancelled:
                call.cancelled()
            else:
                call.fail(WorkerCrashedError(f"{call.what}: {why}"))
        for call in again:
            print(f"rtrain: {call.what} starts anew: {why}", file=sys.stderr, flush=True)

    def _end_is_counted(self, slot: PoolSlot) -> bool:
        return isinstance(slot, LentSlot) or self._kind_of_last_end(slot) not in UNCOUNTED

    def _kind_of_last_end(self, slot: PoolSlot) -> str:
        with contextlib.suppress(HeadError):
            attempts = self.call_runs.head.items(f"/v1/runs/{part(slot.run_id)}/attempts")
            ended = [attempt for attempt in attempts if attempt["state"] in (*_ENDED, "LOST")]
            return str((ended[-1].get("cause_kind") if ended else "") or "")
        return ""

    def _cause_of_last_end(self, slot: PoolSlot) -> tuple[str, bool]:
        return self.call_runs.why_ended(slot), self._end_is_counted(slot)

    # -- what others see -----------------------------------------------------------------------------------------------
    def running(self, slot: PoolSlot) -> str:
        """Returns the call that the worker executes, for the lines that it prints."""
        with self.lock:
            worker = self._plan.workers.get(slot.name)
            for number in worker.sent if worker is not None else ():
                if (call := self._calls.get(number)) is not None:
                    slot.what = call.what
                break
            return slot.what

    def explains(self, slot: PoolSlot) -> bool:
        """Returns true for one slot of a pool whose calls wait while no worker is connected."""
        with self.lock:
            if slot.name not in self._slots or not self._plan.queue:
                return False
            if any(worker.is_connected for worker in self._plan.workers.values()):
                return False
            return next(iter(self._slots)) == slot.name

    def waits(self) -> bool:
        """Returns true if a call waits for a worker."""
        return bool(self._plan.queue)

    def is_idle(self, slot: PoolSlot) -> bool:
        with self.lock:
            worker = self._plan.workers.get(slot.name)
            return worker is None or not worker.sent

    def lent_slots(self) -> list[PoolSlot]:
        with self.lock:
            return [slot for slot in self._slots.values() if isinstance(slot, LentSlot)]

    def check(self) -> None:
        """Fails the calls if the connection to the cluster was ended while a caller waits for a ref."""
        if self.call_runs._closed and self._closed is None:
            self.close(TaskCancelledError("the connection to the cluster was ended"))

    # -- the end -------------------------------------------------------------------------------------------------------
    def close(self, error: TaskCancelledError) -> None:
        """Fails all calls that no worker has. `CallRuns` has ended the workers."""
        with self.lock:
            self._closed = error
            failed = [call for call in list(self._calls.values()) if self._over(call)]
        for call in failed:
            call.fail(type(error)(f"{call.what}: {error}"))

    def leave(self, error: TaskCancelledError) -> None:
        """Leaves the pool in a forked child, where another thread of the parent may hold the lock."""
        self.lock = threading.RLock()
        self.close(error)
