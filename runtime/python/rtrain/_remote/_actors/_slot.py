"""The slot of the process that made an actor: restarts, repeated calls, and the address for other holders of the handle.

    worker lost ──► calls on their way: repeated (max_task_retries), or held until it is known how the run goes on
      the head starts another attempt ──► construct again, repeated calls, calls that waited; the held ones: unavailable
      the head has ended the run      ──► all calls: the actor has died

The head counts restarts: `max_restarts` is the job's `failure.max_failures`, and drains and preemptions do not count.
"""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass, field
from typing import Any

from rtrain._remote._call_runs import CallRuns, Slot
from rtrain._remote._calls import Call
from rtrain._remote._channel import Channel
from rtrain._remote._errors import ActorUnavailableError
from rtrain._remote._refs import ObjectRef, settled


@dataclass
class CallsOfActor(Slot):
    """The common part of both kinds of slots of an actor: calls that were on their way when the connection ended."""

    handles: int = 0  # handles in this process
    address: str = ""  # where the worker listens for holders of handles
    under_way: list[Call] = field(default_factory=list)  # sent to a lost worker, and not to be repeated

    def set_aside(self) -> None:
        """Sorts the calls that were sent: those with retries are sent again, the others wait for what is known of the actor."""
        with self.changed:
            again = [call for call in self.sent.values() if call.retries]
            self.under_way += [call for call in self.sent.values() if not call.retries]
            self.sent.clear()
            for call in again:
                call.retries -= call.retries > 0
            self.calls.extendleft(reversed(again))

    def unavailable(self, why: str) -> None:
        """Fails the calls that a lost worker had."""
        with self.changed:
            failed, self.under_way = self.under_way, []
        for call in failed:
            error = ActorUnavailableError(f"{call.what}: {why}; the call may have taken effect: max_task_retries repeats it")
            for ref in call.refs:
                settled(ref, error=error)

    def died(self, why: str, error: type[Exception] | None = None) -> None:
        super().died(why, error)
        with self.changed:
            failed, self.under_way = self.under_way, []
        for call in failed:
            self._fail(call, error)

    def description(self) -> dict[str, Any]:
        """Returns what a handle in another process needs."""
        if self.identity is None:
            raise RuntimeError(f"{self.what} has no run, so its handle cannot be sent")
        return {"id": self.name, "run": self.run_id, "what": self.what, "key": self.identity.text(), "address": self.address}

    def held(self) -> None:
        """Counts one handle more."""
        with self.changed:
            self.handles += 1

    def let_go(self) -> None:
        """Counts one handle less. The last one ends the slot once its calls are answered."""
        with self.changed:
            self.handles -= 1
            last = not self.handles
        if last:
            self.end()

    def pending(self) -> int:
        """Returns how many method calls are not answered."""
        with self.changed:
            return sum(call.op == "method" for call in (*self.calls, *self.sent.values(), *self.under_way))

    def call_runs_of_process(self) -> CallRuns:
        return self.call_runs

    def _raised(self, call: Call, head: dict[str, Any], parts: list[bytearray]) -> None:
        cause = head.get("kinds", ())
        if call.retries and any(f"{kind.__module__}.{kind.__qualname__}" in cause for kind in call.repeated_for):
            with self.changed:
                if not self.dead:
                    call.retries -= call.retries > 0
                    self.calls.append(call)
                    self.changed.notify_all()
                    return
        super()._raised(call, head, parts)

    def _noticed(self, head: dict[str, Any], parts: list[bytearray]) -> None:
        if head["op"] == "exit":
            self.ends = True  # its run ends by itself
            self.end()
            self.died(head["text"])
        else:
            super()._noticed(head, parts)


@dataclass
class ActorSlot(CallsOfActor):
    """The slot of an actor in the process that made it."""

    max_restarts: int = 0  # -1: without end
    options: dict[str, Any] = field(default_factory=dict)  # fields of the message that constructs it
    shared: bool = False  # a handle was sent to another process: the worker listens
    first: Call | None = None  # constructs the object
    restarting: bool = False

    def construct(self, call: Call) -> None:
        self.first = call if self.max_restarts else None
        self.call(call)

    def share(self) -> dict[str, Any]:
        """Lets the worker listen for holders of handles, and returns what a handle in another process needs."""
        with self.changed:
            self.shared = True
        self.notify({"op": "listen"})  # if none is connected, the message that constructs the object says it
        return self.description()

    def restart(self) -> None:
        """Ends the worker as if it had crashed."""
        self.notify({"op": "crash"})

    def connected(self, channel: Channel) -> None:
        if self.max_restarts and self.constructed:
            self.lost()  # the new worker connected before the loss of the first one was noticed
        if self.restarting:
            self.restarting = False
            why = self.call_runs.why_ended(self)
            print(f"rtrain: {self.what} is constructed again: {why}", file=sys.stderr, flush=True)
            self.unavailable(f"{why}; the actor is constructed again")
        super().connected(channel)

    def lost(self) -> None:
        with self.changed:
            self.address = ""
            if not self.max_restarts or not self.constructed or self.dead or self.stopping or self.ends:
                return
            self.constructed = False
            self.restarting = True
            self.set_aside()
            over = self.ending and not self.calls  # its worker has ended as it should, or another one will
            if self.first is not None and not over:
                self.calls.appendleft(dataclasses.replace(self.first, refs=[ObjectRef(self.first.what)], lent=[]))
                self._number(self.calls[0])

    def is_gone(self) -> bool:
        if self.restarting:
            self.unavailable("its worker was ended, and the actor waits for another one")
        return super().is_gone()

    def _number(self, call: Call) -> None:
        self.numbers += 1
        call.number = self.numbers

    def _head_of(self, call: Call) -> dict[str, Any]:
        head = super()._head_of(call)
        return {**head, **self.options, "listen": self.shared} if call.op == "construct" else head

    def _noticed(self, head: dict[str, Any], parts: list[bytearray]) -> None:
        if head["op"] == "listening":
            self.address = head["address"]
        else:
            super()._noticed(head, parts)

    def _raised(self, call: Call, head: dict[str, Any], parts: list[bytearray]) -> None:
        super()._raised(call, head, parts)
        if call.op == "construct" and self.max_restarts:
            self.call_runs.let_go(self)  # an object that cannot be constructed is not constructed again
