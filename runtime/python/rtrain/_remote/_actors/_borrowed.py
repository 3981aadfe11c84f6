"""The slot of a process that was sent the handle of an actor: it dials the actor's worker, whose run it does not end.

The worker's address comes with the handle, or from the value `remote-address` of the run. Connections are made at the first
call, and again after each loss, until the run has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from dataclasses import dataclass
from typing import Any

from rtrain import _closing
from rtrain._http import HeadError, NotFound, Unreachable, part
from rtrain._remote import _call_runs
from rtrain._remote._actors._slot import CallsOfActor
from rtrain._remote._call_runs import ENDED, PLACED_ANEW, CallRuns
from rtrain._remote._calls import Call
from rtrain._remote._channel import SLOT_CHARACTERS, dial
from rtrain._remote._cipher import Identity
from rtrain._remote._ends import cause
from rtrain._remote._errors import TaskCancelledError

ADDRESS = "remote-address"  # value of the run: where its worker listens for holders of handles
HOLDERS = "holders of it".ljust(SLOT_CHARACTERS)  # the slot that they dial
_PAUSE_MOST_S = 1.0
_DIAL_S = 5.0
_REFUSED_S = 60.0
_SENT_WITHIN_S = 10.0  # at the end of this process
_ANSWERED_WITHIN_S = 2.0


@dataclass
class Borrowed(CallsOfActor):
    """The slot of another process's actor."""

    reaching: bool = False  # a thread looks for the worker
    over: bool = False  # all calls are answered, and no handle is left

    def call(self, call: Call) -> None:
        self.call_runs_of_process()
        super().call(call)
        self._reach()

    def end(self) -> None:
        super().end()
        with self.changed:
            if self.channel is None and not self.reaching and not self.calls:
                self.over = True

    def call_runs_of_process(self) -> CallRuns:
        """Returns this process's `CallRuns`, which is made when the first call needs it."""
        if self.call_runs is None:
            self.call_runs = _call_runs.call_runs()
            _closing.before_shutdown(close)
        return self.call_runs

    def is_held(self) -> bool:
        """Returns true while this process has a handle or calls that are not answered."""
        return not self.dead and (self.handles > 0 or self.pending() > 0)

    def waits_at_the_end(self, seconds: float) -> bool:
        """Returns true if this process, which has been ending for `seconds`, still waits for calls to be sent and answered."""
        if self.dead:
            return False
        return (bool(self.calls) and seconds < _SENT_WITHIN_S) or (bool(self.sent) and seconds < _ANSWERED_WITHIN_S)

    def share(self) -> dict[str, Any]:
        """Returns what a handle in another process needs."""
        return self.description()

    def restart(self) -> None:
        self.notify({"op": "crash"})

    def lost(self) -> None:
        with self.changed:
            if self.ending and not (self.sent or self.calls):
                self.over = True
                return
        self.set_aside()
        self._reach()

    def _reach(self) -> None:
        with self.changed:
            if self.reaching or self.dead or self.channel is not None or not (self.calls or self.under_way):
                return
            self.reaching = True
        threading.Thread(target=self._look_for_worker, daemon=True, name=f"rtrain {self.what} dial").start()

    def _look_for_worker(self) -> None:
        pause, waiting = 0.05, threading.Event()
        refused_since = 0.0  # the time since which the worker has not answered at the address that it has published
        while not self.dead and not self.call_runs._closed:
            if self.address and self._dialled(self.address):
                return
            try:
                address = self._look()
            except Unreachable:
                address = ""
            except HeadError as error:
                self.died(str(error))
                break
            if not address or address != self.address:
                refused_since = 0.0
            elif time.monotonic() - (refused_since := refused_since or time.monotonic()) > _REFUSED_S:
                self.died(
                    f"this process does not reach its worker at {address}: call it from a process on the nodes (rtrain submit)"
                )
            if not address or address == self.address:
                waiting.wait(pause)
                pause = min(pause * 1.5, _PAUSE_MOST_S)
            self.address = address or self.address
        with self.changed:
            self.reaching = False

    def _look(self) -> str:
        """Returns the worker's address; "" while there is none. A run that has ended fails all calls."""
        run = self.call_runs.head.get(f"/v1/runs/{part(self.run_id)}")
        if run["state"] in ENDED:
            self.died(cause(self.call_runs.head, run))
            return ""
        if run["state"] in PLACED_ANEW:
            self.unavailable("its worker was ended, and the actor waits for another one")
            return ""
        with contextlib.suppress(NotFound):
            content = self.call_runs.head.content(f"/v1/runs/{part(self.run_id)}/values/{ADDRESS}")
            with contextlib.suppress(ValueError, KeyError, TypeError):  # no value of rtrain
                value = json.loads(content)
                if value["attempt"] == run["attempt"]:
                    return str(value["address"])
        return ""

    def _dialled(self, address: str) -> bool:
        host, _, port = address.rpartition(":")
        assert self.identity is not None
        try:
            channel = dial((host, int(port)), HOLDERS, self.identity, _DIAL_S)
        except (OSError, ValueError):
            return False
        self.unavailable("the connection to its worker was lost")
        with self.changed:
            self.reaching = False
        self.connected(channel)
        return True


_slots: dict[str, Borrowed] = {}
_lock = threading.Lock()


def borrowed(given: dict[str, Any]) -> Borrowed:
    """Returns the slot for what `share` has returned in another process, with one handle more."""
    with _lock:
        slot = _slots.get(given["id"])
        if slot is None or slot.ending or slot.dead:
            nobody: Any = None  # `CallRuns` is made for the first call
            slot = Borrowed(given["what"], True, {}, nobody, name=given["id"], run_id=given["run"])
            slot.identity, slot.address = Identity(given["key"]), given["address"]
            _slots[given["id"]] = slot
        slot.held()
        return slot


def held() -> list[str]:
    """Returns the ids of the actors whose handles this process was sent and still has."""
    with _lock:
        for name in [name for name, slot in _slots.items() if not slot.is_held()]:
            del _slots[name]
        return list(_slots)


def close() -> None:
    """Ends the connections to other processes' actors, once the calls are sent."""
    with _lock:
        slots = list(_slots.values())
        _slots.clear()
    began, pause = time.monotonic(), threading.Event()
    for slot in slots:
        while slot.waits_at_the_end(time.monotonic() - began):
            pause.wait(0.01)
        slot.died("the connection to the cluster was ended", TaskCancelledError)
        channel = slot.channel
        if channel is not None:
            channel.close()


def _in_a_child() -> None:
    """Leaves the connections to the parent in a forked child."""
    global _lock
    _lock = threading.Lock()
    slots = list(_slots.values())
    _slots.clear()
    for slot in slots:
        slot.changed = threading.Condition()
        channel, slot.channel = slot.channel, None
        if channel is not None:
            channel.leave()
        slot.died(f"it belongs to process {os.getppid()}, which this one was forked from", TaskCancelledError)


os.register_at_fork(after_in_child=_in_a_child)
