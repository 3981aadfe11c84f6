"""Decides for one pool which worker executes which call, when a further worker starts, and when one ends.

Pure: no clock, no thread, no socket. The pool passes events and the time, and performs the orders of `decide`.

Invariant: each call that is not answered is in `queue` or in `sent` of exactly one worker.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

_WEIGHT = 0.2  # weight of the newest duration in a function's estimate
_FUNCTIONS_MOST = 10_000  # estimates that are kept
_UNKNOWN_S = 1e6  # the estimate of a function's first call: nothing is sent behind it


@dataclass(frozen=True)
class Limits:
    """Times in seconds. docs/decisions/0076-calls-are-served-by-pools.md has the reasons."""

    idle_s: float = 3.0  # a worker without calls ends after this time
    idle_yielding_s: float = 10.0  # the same for one that yields its resources to any run meanwhile
    start_s: float = 0.3  # the time within which a new worker is of use
    short_s: float = 0.002  # calls that are estimated shorter may be sent ahead
    ahead_s: float = 0.004  # the sum of estimates that a worker has ahead
    held_s: float = 0.02  # calls behind one that runs longer than this are taken back
    lend_after_s: float = 0.25  # time for which a blocked worker waits for other workers before it lends its CPUs
    yield_s: float = 1.0  # a worker without calls yields to waiting runs after this time
    yields_apart_s: float = 0.5  # the shortest time between two changes to yielding
    ahead_most: int = 64
    ahead_bytes: int = 64 << 10  # a call with larger arguments is not sent ahead
    first: int = 2  # workers that may start before one is connected
    calls_most: int = 0  # calls of one worker, after which it ends; 0: no limit


@dataclass
class Task:
    """A call, as the plan sees it."""

    number: int
    function: int
    size: int = 0  # bytes of its arguments
    retries: int = 0  # repetitions that are left after the loss of a worker; -1: without limit
    estimate: float = 0.0  # seconds, set when it is given to a worker


@dataclass
class Worker:
    name: str
    is_lent: bool = False
    is_connected: bool = False
    sent: dict[int, Task] = field(default_factory=dict)  # in the order of execution; only the first one may have begun
    began: float = 0.0  # time at which the first one of `sent` can have begun
    idle_since: float = 0.0
    asked_back: bool = False
    can_yield: bool = False
    is_yielding: bool = False  # it gets no call before the head has answered that it does not yield
    is_waking: bool = False  # the head is asked for that
    is_full: bool = False  # it has as much ahead as it may have, or did and has not done half of it
    is_leaving: bool = False  # it ends after its call
    calls: int = 0
    work: float = 0.0  # the sum of estimates of `sent`

    def give(self, task: Task, now: float) -> None:
        if not self.sent:
            self.began, self.work = now, 0.0
        self.sent[task.number] = task
        self.work += task.estimate

    def take(self, number: int) -> Task | None:
        task = self.sent.pop(number, None)
        if task is not None:
            self.work -= task.estimate
        return task


@dataclass
class Orders:
    """Instructions for the pool. wake_at: the time of the next `decide` if no event comes before."""

    send: list[tuple[str, list[Task]]] = field(default_factory=list)
    take_back: list[tuple[str, list[int]]] = field(default_factory=list)
    end: list[str] = field(default_factory=list)
    let_yield: list[str] = field(default_factory=list)
    wake: list[str] = field(default_factory=list)
    start: int = 0
    start_lent: bool = False
    wake_at: float = math.inf


class Plan:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.queue: deque[Task] = deque()
        self.workers: dict[str, Worker] = {}
        self._next_yield = 0.0
        self.no_start_before = 0.0  # a time, after a worker could not be started
        self._estimates: dict[int, float] = {}
        self._waiting: Counter[int] = Counter()  # calls in the queue, by function
        self._empty_since = 0.0

    # -- events --------------------------------------------------------------------------------------------------------
    def ready(self, task: Task) -> None:
        """Adds a call whose arguments are there."""
        self.queue.append(task)
        self._waiting[task.function] += 1

    def starting(self, name: str, now: float, *, is_lent: bool = False) -> None:
        self.workers[name] = Worker(name, is_lent=is_lent, idle_since=now)

    def connected(self, name: str, now: float, *, can_yield: bool = False) -> None:
        worker = self.workers[name]
        worker.is_connected, worker.asked_back, worker.idle_since, worker.can_yield = True, False, now, can_yield

    def woken(self, name: str, now: float) -> None:
        """Makes a worker usable again whose run does not yield any more."""
        worker = self.workers.get(name)
        if worker is not None:
            worker.is_yielding = worker.is_waking = False
            worker.idle_since = now

    def not_woken(self, name: str) -> None:
        if name in self.workers:
            self.workers[name].is_waking = False

    def cannot_yield(self, name: str, now: float) -> None:
        if name in self.workers:
            self.workers[name].can_yield = False
            self.woken(name, now)

    def leaving(self, name: str) -> None:
        """Gives no further calls to a worker that ends soon."""
        if name in self.workers:
            self.workers[name].is_leaving = True

    def answered(self, name: str, number: int, seconds: float | None, now: float) -> Task | None:
        """Returns the call; None if the worker does not have it. seconds: the time of the execution, None if it was cut short."""
        worker = self.workers.get(name)
        if worker is None or (task := worker.take(number)) is None:
            return None
        worker.began = worker.idle_since = now
        worker.calls += 1
        if seconds is not None:
            before = self._estimates.pop(task.function, seconds)
            self._estimates[task.function] = before + _WEIGHT * (seconds - before)
            if len(self._estimates) > _FUNCTIONS_MOST:
                del self._estimates[next(iter(self._estimates))]
        return task

    def returned(self, name: str, numbers: Iterable[int], now: float) -> None:
        """Puts calls that a worker has given back at the front of the queue, in their order."""
        worker = self.workers.get(name)
        if worker is None:
            return
        worker.asked_back = False
        back = [task for number in numbers if (task := worker.take(number)) is not None]
        self._to_the_front(back)
        if not worker.sent:
            worker.idle_since = now

    def lost(self, name: str, *, is_counted: bool, stays: bool = False) -> list[Task]:
        """Removes a worker that has ended, and queues its calls again. Returns those without repetitions left.

        is_counted: whether the loss uses up a repetition of the call that may have begun. stays: its run will have another
        process.
        """
        worker = self.workers.pop(name, None)
        if worker is None:
            return []
        tasks = list(worker.sent.values())
        spent = []
        if tasks and is_counted:
            if tasks[0].retries == 0:
                spent.append(tasks.pop(0))
            elif tasks[0].retries > 0:
                tasks[0].retries -= 1
        self._to_the_front(tasks)
        if stays:
            self.workers[name] = Worker(name, is_lent=worker.is_lent, idle_since=worker.idle_since)
        return spent

    def removed(self, number: int) -> bool:
        """Removes a call from the queue. Returns false if it is not there."""
        for task in self.queue:
            if task.number == number:
                self.queue.remove(task)
                self._counted_down(task)
                return True
        return False

    def emptied(self) -> list[Task]:
        """Removes and returns all calls of the queue."""
        tasks = list(self.queue)
        self.queue.clear()
        self._waiting.clear()
        return tasks

    def has(self, name: str, number: int) -> bool:
        return name in self.workers and number in self.workers[name].sent

    # -- whether a decision is due ---------------------------------------------------------------------------------------
    # A queue that no worker could take from is looked at again by the time in `wake_at`, so these events need no decision.
    def is_due_for_call(self) -> bool:
        """Returns true if a call that was just added may be given to a worker, or may start one."""
        return len(self.queue) <= self.limits.first or not any(worker.is_connected for worker in self.workers.values())

    def is_due_for_answer(self, name: str) -> bool:
        """Returns true if a worker that has just answered may take a call, yield or end."""
        worker = self.workers.get(name)
        if worker is None or not worker.sent:
            return True
        half_s, half = self.limits.ahead_s / 2, self.limits.ahead_most / 2
        return bool(self.queue) and not (worker.is_full and (len(worker.sent) >= half or worker.work > half_s))

    # -- decisions -----------------------------------------------------------------------------------------------------
    def decide(self, now: float, *, may_lend: bool = False, blocked_since: float | None = None) -> Orders:
        """Returns the orders that follow from all events so far.

        may_lend: whether lent workers may execute calls now, because this process waits and its CPUs are free. blocked_since:
        the time since which it waits.
        """
        orders = Orders()
        self._assign(orders, now, may_lend)
        self._take_back(orders, now)
        self._end(orders, now)
        self._yield(orders, now)
        self._grow(orders, now)
        self._lend(orders, now, may_lend, blocked_since)
        return orders

    def _assign(self, orders: Orders, now: float, may_lend: bool) -> None:
        given: dict[str, list[Task]] = {}
        while self.queue:
            task = self.queue[0]
            worker = self._free(may_lend) or self._with_room(task, now, may_lend)
            if worker is None:
                break
            self.queue.popleft()
            self._counted_down(task)
            task.estimate = self._estimates.get(task.function, _UNKNOWN_S)
            worker.give(task, now)
            given.setdefault(worker.name, []).append(task)
        orders.send += given.items()
        if not self.queue:
            self._empty_since = self._empty_since or now
        else:
            self._empty_since = 0.0

    def _usable(self, worker: Worker, may_lend: bool) -> bool:
        most = self.limits.calls_most
        is_spent = bool(most) and worker.calls + len(worker.sent) >= most
        is_away = worker.asked_back or worker.is_yielding or worker.is_leaving
        return worker.is_connected and not is_away and not is_spent and (may_lend or not worker.is_lent)

    def _free(self, may_lend: bool) -> Worker | None:
        """Returns the worker that became idle last, so that the others may end."""
        free = [worker for worker in self.workers.values() if not worker.sent and self._usable(worker, may_lend)]
        return max(free, key=lambda worker: (not worker.is_lent, worker.idle_since), default=None)

    def _with_room(self, task: Task, now: float, may_lend: bool) -> Worker | None:
        """Returns the worker with the least work to which a short call may be sent ahead."""
        estimate = self._estimates.get(task.function)
        if estimate is None or estimate > self.limits.short_s or task.size > self.limits.ahead_bytes:
            return None
        best, least = None, self.limits.ahead_s - estimate
        for worker in self.workers.values():
            if not self._usable(worker, may_lend) or self._is_full(worker, estimate):
                continue
            if now - worker.began > self.limits.held_s:
                continue  # its call takes longer than estimated
            if worker.work <= least:
                best, least = worker, worker.work
        return best

    def _is_full(self, worker: Worker, estimate: float) -> bool:
        """Returns true from the time at which a worker has what it may have ahead until half of that is done, so that calls are
        sent in batches.
        """
        share = 0.5 if worker.is_full else 1.0
        most_s, most = share * self.limits.ahead_s, share * self.limits.ahead_most
        worker.is_full = worker.work + estimate > most_s or len(worker.sent) >= most
        return worker.is_full

    def _take_back(self, orders: Orders, now: float) -> None:
        for worker in self.workers.values():
            if not worker.is_connected or len(worker.sent) < 2 or worker.asked_back:
                continue
            if now - worker.began >= self.limits.held_s:
                worker.asked_back = True
                orders.take_back.append((worker.name, list(worker.sent)[1:]))
            else:
                orders.wake_at = min(orders.wake_at, worker.began + self.limits.held_s)

    def _end(self, orders: Orders, now: float) -> None:
        for worker in list(self.workers.values()):
            if worker.sent:
                continue
            is_spent = bool(self.limits.calls_most) and worker.calls >= self.limits.calls_most
            since = worker.idle_since if worker.is_connected else max(worker.idle_since, self._empty_since)
            idle_s = self.limits.idle_yielding_s if worker.can_yield else self.limits.idle_s
            if is_spent or (not self.queue and now - since >= idle_s):
                del self.workers[worker.name]
                orders.end.append(worker.name)
            elif not self.queue:
                orders.wake_at = min(orders.wake_at, since + idle_s)

    def _yield(self, orders: Orders, now: float) -> None:
        """Lets idle workers yield, one at a time, and wakes as many as there are calls in the queue."""
        for worker in self.workers.values():
            if not worker.can_yield or not worker.is_connected or worker.sent:
                continue
            if worker.is_yielding:
                if len(self.queue) > sum(other.is_waking for other in self.workers.values()) and not worker.is_waking:
                    worker.is_waking = True
                    orders.wake.append(worker.name)
            elif not self.queue:
                due = max(worker.idle_since + self.limits.yield_s, self._next_yield)
                if now >= due:
                    worker.is_yielding = True
                    orders.let_yield.append(worker.name)
                    self._next_yield = now + self.limits.yields_apart_s
                else:
                    orders.wake_at = min(orders.wake_at, due)

    def end_idle(self, now: float) -> Orders:
        """Returns the end of all workers without calls, for other work of this process that waits for their resources."""
        orders = Orders()
        if not self.queue:
            orders.end = [worker.name for worker in self.workers.values() if not worker.sent and not worker.is_lent]
            for name in orders.end:
                del self.workers[name]
        return orders

    def _grow(self, orders: Orders, now: float) -> None:
        if not self.queue:
            return
        own = [worker for worker in self.workers.values() if not worker.is_lent]
        connected = [worker for worker in own if worker.is_connected]
        starting = len(own) - len(connected)
        useful = len(self.queue)
        if connected:
            useful = min(useful, math.ceil(self._seconds_waiting(connected, now) / self.limits.start_s))
            useful -= sum(self._soon_free(worker, now) for worker in connected)
            orders.wake_at = min(orders.wake_at, now + self.limits.start_s / 4)
        if now < self.no_start_before:
            orders.wake_at = min(orders.wake_at, self.no_start_before)
            return
        # Doubles at most with each start, so that runs which the head cannot place never outnumber those it has placed.
        orders.start = max(0, min(useful, max(self.limits.first, len(connected))) - starting)

    def _seconds_waiting(self, connected: list[Worker], now: float) -> float:
        """Returns the estimated time of all calls in the queue. A function without an estimate takes at least as long as its
        call that runs now.
        """
        running: dict[int, float] = {}
        for worker in connected:
            if worker.sent:
                function = next(iter(worker.sent.values())).function
                running[function] = max(running.get(function, 0.0), now - worker.began)
        return sum(
            count * max(self._estimates.get(function, 0.0), running.get(function, 0.0))
            if function in self._estimates or function in running
            else count * self.limits.start_s
            for function, count in self._waiting.items()
        )

    def _soon_free(self, worker: Worker, now: float) -> bool:
        """Returns true if the worker is expected to take another call within the time that a new worker needs to start."""
        if worker.is_leaving:
            return False
        if not worker.sent:
            return not worker.is_yielding or worker.is_waking
        elapsed = now - worker.began
        left = sum(self._estimates.get(task.function, 0.0) for task in worker.sent.values()) - elapsed
        return elapsed < self.limits.start_s and left < self.limits.start_s

    def _lend(self, orders: Orders, now: float, may_lend: bool, blocked_since: float | None) -> None:
        if not self.queue or not may_lend or blocked_since is None:
            return
        if any(worker.is_lent and (not worker.is_connected or worker.sent) for worker in self.workers.values()):
            return
        due = blocked_since + self.limits.lend_after_s
        if now >= due:
            orders.start_lent = True
        else:
            orders.wake_at = min(orders.wake_at, due)

    # -- the queue -----------------------------------------------------------------------------------------------------
    def _to_the_front(self, tasks: list[Task]) -> None:
        self.queue.extendleft(reversed(tasks))
        self._waiting.update(task.function for task in tasks)

    def _counted_down(self, task: Task) -> None:
        self._waiting[task.function] -= 1
        if not self._waiting[task.function]:
            del self._waiting[task.function]
