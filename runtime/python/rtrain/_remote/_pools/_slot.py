"""The connection of a pool to one of its workers: a run with one worker, or a process on the CPUs of a blocked worker."""

from __future__ import annotations

import itertools
import pickle
import threading
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Any, Protocol

from rtrain._remote import _printed
from rtrain._remote._call_runs import CallRuns, Slot
from rtrain._remote._channel import Channel, ChannelError, Part
from rtrain._remote._pools._call import PoolCall

_FUNCTIONS_MOST = 500  # functions that a worker keeps


class Owner(Protocol):
    """The pool of a slot, which receives its events."""

    def worker_connected(self, slot: PoolSlot) -> None: ...
    def worker_answered(self, slot: PoolSlot, head: dict[str, Any], parts: list[bytearray]) -> None: ...
    def worker_seen(self, slot: PoolSlot, run: dict[str, Any]) -> None: ...
    def worker_replaced(self, slot: PoolSlot) -> None: ...
    def worker_ended(self, slot: PoolSlot, why: str, error: type[Exception] | None) -> None: ...
    def running(self, slot: PoolSlot) -> str: ...
    def explains(self, slot: PoolSlot) -> bool: ...
    def is_idle(self, slot: PoolSlot) -> bool: ...
    def waits(self) -> bool: ...


class PoolSlot(Slot):
    """A slot whose worker executes calls of its pool, one after the other."""

    def __init__(self, owner: Owner, what: str, job: dict[str, Any], call_runs: CallRuns) -> None:
        super().__init__(what, actor=False, job=job, call_runs=call_runs)
        self.owner = owner
        self.last_run: dict[str, Any] = {}  # the head's newest answer about the run
        self.is_needless = False  # the pool has removed it from its plan
        self.is_expected_to_end = False  # a call was cancelled by force, or the run gave way while it was idle
        self.can_yield = False  # true: the run was submitted with `yields`, and the head has the route that switches it
        self.is_stopped_here = False  # as its worker sent nothing, or a call was cancelled by force
        self._outbox: deque[list[PoolCall] | dict[str, Any]] = deque()
        self._functions: OrderedDict[int, None] = OrderedDict()  # that the worker has, the least recently used first

    # -- to the worker ---------------------------------------------------------------------------------------------------
    def give(self, calls: list[PoolCall]) -> None:
        self._put(calls)

    def order(self, **order: Any) -> None:
        """Sends a message without parts, such as {"op": "back"}."""
        self._put(order)

    def end(self) -> None:
        with self.changed:
            self.ending = True
            self.changed.notify_all()

    def _put(self, item: list[PoolCall] | dict[str, Any]) -> None:
        with self.changed:
            self._outbox.append(item)
            self.changed.notify_all()

    def connected(self, channel: Channel) -> None:
        with self.changed:
            is_unwanted = bool(self.dead or self.stopping)
        if is_unwanted:
            channel.close()
            return
        before = self.channel
        self.owner.worker_replaced(self)
        if before is not None:
            before.close()  # a connection to a node that no longer answers
        with self.changed:
            self.channel = channel
            self._outbox.clear()
            self._functions.clear()
            self.changed.notify_all()
        threading.Thread(target=self._send_all, args=(channel,), daemon=True, name=f"rtrain {self.what} send").start()
        threading.Thread(target=self._receive_all, args=(channel,), daemon=True, name=f"rtrain {self.what} receive").start()
        self.owner.worker_connected(self)

    def _send_all(self, channel: Channel) -> None:
        while True:
            with self.changed:
                while not (self._outbox or self.ending) and self.channel is channel:
                    self.changed.wait(60.0)
                if self.channel is not channel:
                    return
                items = list(self._outbox)
                self._outbox.clear()
            try:
                for are_calls, group in itertools.groupby(items, key=lambda item: isinstance(item, list)):
                    if are_calls:
                        channel.send(_message([call for calls in group for call in calls], self._functions))
                    else:
                        for order in group:
                            channel.send([pickle.dumps(order)])
                if self.ending and not self._outbox:
                    channel.send([pickle.dumps({"op": "end"})])
                    with self.changed:
                        self.end_sent = True
                        self.changed.notify_all()
                    return
            except ChannelError:
                return  # the receiving thread gets the same error and handles it

    def _receive_all(self, channel: Channel) -> None:
        try:
            while True:
                parts = channel.receive()
                head = pickle.loads(parts[0])
                if self.channel is not channel:
                    return
                if head.get("op") == "said":
                    _printed.show(self.owner.running(self), head)
                else:
                    self.owner.worker_answered(self, head, parts[1:])
        except ChannelError:
            with self.changed:
                is_current = self.channel is channel
                if is_current:
                    self.channel = None
                self.changed.notify_all()
            if is_current:
                self.lost_channel()

    def stop(self) -> None:
        """Ends the worker by force."""
        self.call_runs.let_go(self)

    def check(self) -> None:
        """Looks whether the worker's process has ended. Does nothing for a run of its own, whose end the head records."""

    def lost_channel(self) -> None:
        self.call_runs.wake()  # the head has the cause

    # -- from CallRuns ----------------------------------------------------------------------------------------------------
    def submission_fields(self) -> dict[str, Any]:
        return {"yields": False}  # a head of an earlier version ignores it

    def seen(self, run: dict[str, Any]) -> None:
        self.owner.worker_seen(self, run)

    def explains(self) -> bool:
        return self.owner.explains(self)

    def died(self, why: str, error: type[Exception] | None = None) -> None:
        with self.changed:
            is_first = not self.dead
            self.dead = self.dead or why
            self.changed.notify_all()
        if is_first:
            self.owner.worker_ended(self, why, error)

    def needs_stop(self) -> bool:
        if not self.run_id or self.ends:
            return False
        return self.channel is None or not self.owner.is_idle(self)


def _message(calls: Iterable[Any], functions: OrderedDict[int, None]) -> list[Part]:
    """Returns a message with calls. functions: those that the worker has; the message has the pickles of others."""
    sent: list[tuple[int, int]] = []
    heads: list[tuple[int, int, str, int, int]] = []
    code: list[Part] = []
    arguments: list[Part] = []
    for call in calls:
        number = call.code.number
        if number not in functions:
            sent.append((number, len(call.code.parts)))
            code += call.code.parts
        functions[number] = None
        functions.move_to_end(number)
        heads.append((call.number, number, call.what, len(call.refs), len(call.parts)))
        arguments += call.parts
    dropped = []
    while len(functions) > _FUNCTIONS_MOST + len(heads):
        dropped.append(functions.popitem(last=False)[0])
    head = {"op": "calls", "functions": sent, "calls": heads, "drop": dropped}
    return [pickle.dumps(head), *code, *arguments]
