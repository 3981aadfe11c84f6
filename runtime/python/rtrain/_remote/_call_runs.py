"""The driver's side: one `Slot` for each run that does a remote call or holds an object, and the `CallRuns` that they meet at.

    .remote() ── submits a run with one worker ──► queued, placed, started like any other
        │                                              │ dials this process (or reports where it listens, and is dialled)
        └── call ──────── channel, TLS ───────────────►│ performs
            ref  ◄──────────────── result ─────────────┘ the run ends: SUCCEEDED, or FAILED with the traceback as its cause

While a slot has no worker, `CallRuns` requests the state of its run from the head. A run that ended without an answer settles
its refs.

A run may get a second worker: its node was drained or lost, or it gave way to a more urgent one. A function's call is sent to it
again; an object that was constructed is gone, so its actor dies and its run is stopped.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import secrets
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rtrain import _closing, _runtime_env, _where
from rtrain._http import SESSION, Head, HeadError, NotFound, Unreachable, part
from rtrain._remote import _current, _printed, _values
from rtrain._remote._attached import Attached
from rtrain._remote._calls import Call, settle, unpacked_error
from rtrain._remote._channel import SLOT_CHARACTERS, Channel, ChannelError, accept_all, dial
from rtrain._remote._cipher import Identity
from rtrain._remote._code import WorkingDir
from rtrain._remote._ends import ASKER, address_towards, cause, name_of_asker, not_stopped
from rtrain._remote._errors import ActorDiedError, TaskCancelledError, WorkerCrashedError, task_error
from rtrain._remote._refs import settled
from rtrain._waiting import why_waits, without_times

ENDED = ("SUCCEEDED", "FAILED", "STOPPED")
PLACED_ANEW = ("QUEUED", "RECOVERING", "STARTING")  # states in which a run that had a worker waits for another one
_EXPLAIN_AFTER_S = 3.0
_PATIENCE_S = 5.0  # patience with an unreachable head; a request that is repeated in this time may be executed twice
_REFUSED_S = 30.0  # duration of error answers about a run after which the driver stops it
_GONE_WITHIN_S = 60.0
_SENT_WITHIN_S = 1.0
_SUBMITTED_WITHIN_S = 5.0
_KEY_OF_EARLIER_WORKERS = "RTRAIN_REMOTE_KEY"


answer_names: Callable[[Channel], None] | None = None  # for workers that dial `name_of_asker`


@dataclass
class Slot:
    """One run with one worker, as the driver sees it."""

    what: str
    actor: bool
    job: dict[str, Any]
    call_runs: CallRuns
    name: str = field(default_factory=lambda: secrets.token_hex(SLOT_CHARACTERS // 2))
    identity: Identity | None = None  # the run's certificate, from the head's answer to the submission
    submitting: threading.Event = field(default_factory=threading.Event)  # set once that answer has arrived
    run_id: str = ""
    calls: deque[Call] = field(default_factory=deque)  # not sent yet
    sent: dict[int, Call] = field(default_factory=dict)  # not answered yet
    notices: deque[dict[str, Any]] = field(default_factory=deque)  # messages without an answer, not sent yet
    channel: Channel | None = None
    ending: bool = False  # no more calls follow: the worker may end after its last answer
    end_sent: bool = False  # the worker has received that
    dead: str = ""  # why no worker will answer; empty while one may
    numbers: int = 0
    submitted: float = 0.0
    explained: str = ""
    dialled: str = ""
    constructed: bool = False  # an actor's worker holds its object
    stopping: bool = False  # a stop of the run is in progress; its caller settles the refs
    ends: bool = False  # the run has ended, or the head has been asked to end it
    refused: float = 0.0  # time since which the head has answered with errors about the run
    lent: list[Any] = field(default_factory=list)  # handles that the worker still has: their actors live as long
    changed: threading.Condition = field(default_factory=threading.Condition)

    # -- from .remote() -------------------------------------------------------------------------------------------------
    def call(self, call: Call) -> None:
        with self.changed:
            self.numbers += 1
            call.number = self.numbers
            if not self.dead:
                self.calls.append(call)
                self.changed.notify_all()
                return
        self._fail(call)

    def end(self) -> None:
        """Lets the worker end after it has answered all calls so far."""
        with self.changed:
            self.ending = True
            self.changed.notify_all()

    # -- with a worker ------------------------------------------------------------------------------------------------
    def connected(self, channel: Channel) -> None:
        """Uses a new worker's channel: that of the first worker, or of a replacement."""
        if self.constructed:
            channel.close()
            self.call_runs.object_gone(self)
            return
        with self.changed:
            if self.dead or self.stopping:
                channel.close()
                return
            before, self.channel = self.channel, channel
            self.end_sent = False
            again = list(self.sent.values())
            self.sent.clear()
            self.notices.clear()
            self.calls.extendleft(reversed(again))
            self.changed.notify_all()
        if before is not None:
            before.close()  # a connection to a node that no longer answers
        threading.Thread(target=self._send_all, args=(channel,), daemon=True, name=f"rtrain {self.what} send").start()
        threading.Thread(target=self._receive_all, args=(channel,), daemon=True, name=f"rtrain {self.what} receive").start()
        if again:
            print(f"rtrain: {again[0].what} starts anew: {self.call_runs.why_ended(self)}", file=sys.stderr, flush=True)

    def _send_all(self, channel: Channel) -> None:
        while True:
            with self.changed:
                while not (self.calls or self.notices or (self.ending and not self.end_sent)) and self.channel is channel:
                    self.changed.wait(1.0)
                if self.channel is not channel:
                    return
                notice = self.notices.popleft() if self.notices else None
                call = self.calls.popleft() if self.calls and notice is None else None
                if call is not None:
                    self.sent[call.number] = call
            try:
                if notice is not None:
                    channel.send([pickle.dumps(notice)])
                elif call is not None:
                    self._send(channel, call)
                else:
                    channel.send([pickle.dumps({"op": "end"})])
                    with self.changed:
                        self.end_sent = True
                        self.changed.notify_all()
            except ChannelError:
                return  # the receiving thread gets the same error and handles it

    def _send(self, channel: Channel, call: Call) -> None:
        try:
            call.lent = []
            parts = _values.pack(call.resolved(), f"an argument of {call.what}", lent=call.lent)
        except Exception as error:  # the task of an argument raised, or the argument cannot be pickled
            with self.changed:
                self.sent.pop(call.number, None)
            for ref in call.refs:
                settled(ref, error=error)
            return
        channel.send([pickle.dumps(self._head_of(call)), *parts])

    def _head_of(self, call: Call) -> dict[str, Any]:
        head: dict[str, Any] = {"op": call.op, "id": call.number, "what": call.what, "returns": len(call.refs)}
        return head if call.stream is None else {**head, **call.stream.head(call.number, self)}

    def notify(self, message: dict[str, Any]) -> None:
        """Sends a message without an answer, if a worker is connected."""
        channel = self.channel
        if channel is not None:
            with contextlib.suppress(ChannelError):  # the receiving thread gets the same error and handles it
                channel.send([pickle.dumps(message)])

    def notify_later(self, message: dict[str, Any]) -> None:
        """Sends a message like `notify`, without waiting, as for destructors. A call whose arguments are not there delays it."""
        with self.changed:
            if self.channel is not None:
                self.notices.append(message)
                self.changed.notify_all()

    def _receive_all(self, channel: Channel) -> None:
        try:
            while True:
                parts = channel.receive()
                head = pickle.loads(parts[0])
                if "op" in head:
                    self._noticed(head, parts[1:])
                    continue
                with self.changed:
                    call = self.sent.pop(head["id"], None) if self.channel is channel else None
                    if call is not None and call.op == "construct" and head["ok"]:
                        self.constructed = True
                if call is None:
                    continue
                self._answered(call, head, parts[1:])
        except ChannelError:
            with self.changed:
                lost = self.channel is channel
                if lost:
                    self.channel = None
                self.changed.notify_all()
            if lost:
                self.lost()
            self.call_runs.wake()

    def _noticed(self, head: dict[str, Any], parts: list[bytearray]) -> None:
        """Handles a message that is no answer: a printed line, or an item of a generator."""
        if head["op"] == "said":
            _printed.show(self.what, head)
        elif head["op"] == "item":
            with self.changed:
                call = self.sent.get(head["id"])
            if call is not None and call.stream is not None:
                call.stream.arrived(head["index"], list(parts))

    def _answered(self, call: Call, head: dict[str, Any], parts: list[bytearray]) -> None:
        with self.changed:
            handles = {handle.actor_id: handle for handle in (*self.lent, *call.lent)}
            self.lent = [handles[name] for name in head.get("held", ()) if name in handles]
        if head["ok"]:
            carried = [handles[name] for name in head.get("carried", ()) if name in handles]
            settle(call, head["counts"], parts, carried)
        else:
            self._raised(call, head, parts)

    def lost(self) -> None:
        """Called when the connection to the worker has ended. A function's call waits for the next worker."""

    def is_gone(self) -> bool:
        """Returns true if another worker of the run cannot take the lost one's place, since it has no object."""
        return self.constructed

    def _raised(self, call: Call, head: dict[str, Any], parts: list[bytearray]) -> None:
        text, cause = unpacked_error(head, parts)
        error: BaseException = task_error(text, cause)
        if call.op == "construct":
            error = ActorDiedError(f"{self.what} could not be constructed: {text}")
            self.ends = True  # the run fails by itself
            self.end()
            self.died(str(error))
        for ref in call.refs:
            settled(ref, error=error)

    # -- without one -----------------------------------------------------------------------------------------------------
    def died(self, why: str, error: type[Exception] | None = None) -> None:
        with self.changed:
            self.dead = self.dead or why
            waiting = [*self.sent.values(), *self.calls]
            self.sent.clear()
            self.calls.clear()
            self.lent = []
            self.changed.notify_all()
        for call in waiting:
            self._fail(call, error)

    def _fail(self, call: Call, error: type[Exception] | None = None) -> None:
        kind = error or (ActorDiedError if self.actor else WorkerCrashedError)
        for ref in call.refs:
            settled(ref, error=kind(f"{call.what}: {self.dead}"))

    # -- for slots of pools ------------------------------------------------------------------------------------------------
    def submission_fields(self) -> dict[str, Any]:
        """Returns further fields of the run's submission."""
        return {}

    def seen(self, run: dict[str, Any]) -> None:
        """Receives the head's newest record of the run: the answer to its submission, and later ones while it has no worker."""

    def explains(self) -> bool:
        """Returns true if the caller is shown why the run waits."""
        return True

    def needs_stop(self) -> bool:
        """Returns true if the run must be stopped. A run ends by itself once all its calls are answered and no more follow."""
        with self.changed:
            answered = self.ending and not (self.dead or self.sent or self.calls)
            return bool(self.run_id) and not self.ends and not answered

    def knows_its_end(self) -> bool:
        return self.end_sent or self.channel is None


class CallRuns:
    """Accepts workers' connections, and asks the head about runs without a worker."""

    def __init__(self, head: Head) -> None:
        self.head = head
        self._code = WorkingDir(head)
        self._slots: dict[str, Slot] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closing = self._closed = False
        self.attached: list[Attached] = []
        here = address_towards(head.place.host_port)
        self._listener = socket.create_server((here, 0), family=socket.AF_INET6 if ":" in here else socket.AF_INET, backlog=64)
        self.address = f"{here}:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True, name="rtrain remote accept").start()
        threading.Thread(target=self._watch, daemon=True, name="rtrain remote watch").start()

    def submit(self, slot: Slot) -> None:
        """Submits the slot's run. Raises HeadError if the head refuses it."""
        environment = {"RTRAIN_REMOTE_SLOT": slot.name, "RTRAIN_REMOTE_DRIVER": self.address, _current.JOB: _current.job_id()}
        if _where.shows_prints():
            environment[_printed.VARIABLE] = "1"
        inherited = _runtime_env.inherited_secrets(slot.job)
        # A worker of version 0.1.0 does not start without a key. With this one it fails to connect, and the error says so.
        secret_values = {_KEY_OF_EARLIER_WORKERS: secrets.token_hex(32), **{name: os.environ[name] for name in inherited}}
        job = {**slot.job, "env": {**slot.job.get("env", {}), **environment}, "secrets": list(secret_values)}
        with self._lock:
            self._slots[slot.name] = slot
        try:
            body = {"job": job, "key": slot.name, "new": True, "secrets": secret_values, "code_sha256": self._code.digest()}
            body |= {"session": SESSION, "channel": True, **slot.submission_fields()}
            submitted = self.head.post("/v1/runs", body)
            slot.seen(submitted)
            slot.run_id = submitted["run_id"]
            slot.identity = self._identity(slot, submitted)
        except BaseException:
            with self._lock:
                del self._slots[slot.name]
            raise
        finally:
            slot.submitting.set()
        slot.submitted = time.monotonic()
        self._wake.set()

    def _identity(self, slot: Slot, submitted: dict[str, Any]) -> Identity:
        """Returns the identity of the run's channel. Stops the run and raises HeadError if an earlier head sent none."""
        if not (channel := submitted.get("channel")):
            self.let_go(slot)
            raise HeadError(
                "internal", "the head makes no certificates for remote calls", "update the head: it has an earlier rtrain"
            )
        return Identity(channel)

    def wake(self) -> None:
        self._wake.set()

    def add(self, slot: Slot) -> None:
        """Accepts a worker for a slot without a run of its own."""
        with self._lock:
            self._slots[slot.name] = slot

    def stop_run(self, slot: Slot) -> None:
        """Stops the run by force. Raises HeadError if the head is unreachable or refuses."""
        slot.stopping = True
        with contextlib.suppress(NotFound):  # a removed run has ended
            self.head.post(f"/v1/runs/{part(slot.run_id)}/stop")
        slot.ends = True

    def let_go(self, slot: Slot) -> None:
        """Stops the run like `stop_run`, and prints the error instead of raising it."""
        try:
            self.stop_run(slot)
        except HeadError as error:
            not_stopped([slot], error)

    def until_gone(self, slot: Slot) -> None:
        """Waits until the process of the stopped run has ended and its resources are free. Raises TimeoutError or HeadError."""
        deadline = time.monotonic() + _GONE_WITHIN_S
        with contextlib.suppress(NotFound):
            while (state := self.head.get(f"/v1/runs/{part(slot.run_id)}")["state"]) not in ENDED:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{slot.what} (run {slot.run_id}) is still {state} after {_GONE_WITHIN_S:.0f} s")
                time.sleep(0.05)

    def object_gone(self, slot: Slot) -> None:
        """Ends an actor whose worker was replaced, since the new worker does not have the object. Stops the run before the
        refs are settled, as the caller may end this process right after that.
        """
        with slot.changed:
            if slot.stopping or slot.dead:
                return
            slot.stopping = True
        why = "its worker was ended"
        try:
            why = self.why_ended(slot)
            self.let_go(slot)
        finally:
            slot.died(f"{why}; its state is gone with that worker, and its run is stopped: make a new actor")

    def why_ended(self, slot: Slot) -> str:
        """Returns why the previous worker of the run ended. The newest attempt may have ended as well."""
        cause = ""
        with contextlib.suppress(HeadError):
            attempts = self.head.items(f"/v1/runs/{part(slot.run_id)}/attempts")
            cut_short = (*(state for state in ENDED if state != "SUCCEEDED"), "LOST")
            cause = next((str(attempt.get("cause") or "") for attempt in reversed(attempts) if attempt["state"] in cut_short), "")
        return "its worker was ended" + (f": {cause}" if cause else f" (rtrain describe {slot.run_id})")

    def close(self) -> None:
        """Ends all runs of this process. The runs are stopped before the refs are settled, as the caller may end this
        process right after that. Waits only for the head's answers and until workers that end by themselves have received
        the end message.
        """
        self._closing = True
        self._wake.set()
        self._listener.close()
        with self._lock:
            slots = list(self._slots.values())
        by_force = [slot for slot in slots if slot.needs_stop()]
        self._stop_all(by_force)
        self._closed = True
        for slot in slots:
            slot.end()
            slot.died("the connection to the cluster was ended", TaskCancelledError)
            channel = slot.channel
            if channel is not None and slot in by_force:
                channel.close()
        for attached in self.attached:
            attached.close()
        self._until_end_received([slot for slot in slots if slot not in by_force])

    def leave(self) -> None:
        """Closes this process's copies in a forked child: the calls stay with the parent. Locks that missing threads may hold are
        replaced. Connections are closed on this side only, so that workers notice the parent's end even if the child lives
        on.
        """
        self._closing = self._closed = True
        self._lock = threading.Lock()
        self._listener.close()
        for attached in self.attached:
            attached.leave()
        for slot in list(self._slots.values()):
            slot.changed = threading.Condition()
            channel, slot.channel = slot.channel, None
            if channel is not None:
                channel.leave()
            slot.died(f"it belongs to process {os.getppid()}, which this one was forked from", TaskCancelledError)

    def _until_end_received(self, slots: list[Slot]) -> None:
        deadline = time.monotonic() + _SENT_WITHIN_S
        for slot in slots:
            with slot.changed:
                slot.changed.wait_for(slot.knows_its_end, deadline - time.monotonic())

    def _stop_all(self, slots: list[Slot]) -> None:
        for number, slot in enumerate(slots):
            try:
                self.stop_run(slot)
            except Unreachable as error:
                not_stopped(slots[number:], error)
                return
            except HeadError as error:
                not_stopped([slot], error)

    # -- threads -----------------------------------------------------------------------------------------------------------
    def _accept(self) -> None:
        accept_all(self._listener, self._identity_of, self._answered)

    def _identity_of(self, name: str) -> Identity | None:
        """Returns the identity of a slot. A worker may dial before the head's answer to its submission has arrived."""
        with self._lock:
            asker = next((slot for slot in self._slots.values() if name_of_asker(slot.name) == name), None)
            slot = self._slots.get(name) or asker
        if slot is None:
            return None
        slot.submitting.wait(_SUBMITTED_WITHIN_S)
        return slot.identity

    def _answered(self, name: str, channel: Channel) -> None:
        if name.startswith(ASKER) and not self._closing:
            (answer_names or Channel.close)(channel)
            return
        with self._lock:
            slot = self._slots.get(name)
        if slot is None or self._closing:
            channel.close()  # the run has ended
            return
        slot.connected(channel)

    def _watch(self) -> None:
        while not self._closing:
            self._wake.wait(0.5)
            self._wake.clear()
            with self._lock:
                slots = list(self._slots.values())
            for slot in slots:
                if slot.channel is None and not self._closing:
                    self._look(slot)

    def _look(self, slot: Slot) -> None:
        if slot.dead and slot.ends:
            with self._lock:
                self._slots.pop(slot.name, None)
        if slot.dead or slot.stopping or not slot.run_id:
            return
        try:
            self._look_at(slot)
            slot.refused = 0.0
        except Unreachable:
            return
        except NotFound as error:
            slot.ends = True
            slot.died(str(error))
        except HeadError as error:
            self._refused(slot, error)

    def _look_at(self, slot: Slot) -> None:
        run = self.head.get(f"/v1/runs/{part(slot.run_id)}")
        slot.seen(run)
        if run["state"] in ENDED:
            slot.ends = True
            slot.died(cause(self.head, run))
        elif run["state"] in PLACED_ANEW and slot.is_gone():
            self.object_gone(slot)
        elif run["state"] == "QUEUED":
            for attached in self.attached:
                attached.make_room(slot)
            self._explain(slot)
        else:
            self._dial(slot, run)

    def _refused(self, slot: Slot, error: HeadError) -> None:
        """Tolerates an error of the head for `_REFUSED_S`, as a later answer may succeed."""
        slot.refused = slot.refused or time.monotonic()
        if time.monotonic() - slot.refused > _REFUSED_S:
            self.let_go(slot)
            slot.died(f"for {_REFUSED_S:.0f} s the head did not say how its run is, so it is stopped: {error}")

    def _explain(self, slot: Slot) -> None:
        if time.monotonic() - slot.submitted < _EXPLAIN_AFTER_S or not slot.explains():
            return
        try:
            explanation = self.head.get(f"/v1/runs/{part(slot.run_id)}/explain")
        except HeadError:
            return
        text = why_waits(explanation)
        if without_times(text) != without_times(slot.explained):
            slot.explained = text
            print(f"rtrain: {slot.what} waits: {text} (rtrain explain {slot.run_id})", file=sys.stderr, flush=True)

    def _dial(self, slot: Slot, run: dict[str, Any]) -> None:
        """Dials the worker if it could not reach this process and has reported its own address."""
        assert slot.identity is not None
        address = ((run.get("last_report") or {}).get("metrics") or {}).get("rtrain_remote_address")
        if not address or address == slot.dialled:
            return
        slot.dialled = address
        host, _, port = str(address).rpartition(":")
        try:
            slot.connected(dial((host, int(port)), slot.name, slot.identity, 5.0))
        except OSError as error:
            text = (
                f"{slot.what} runs on {address} and neither side reaches the other: {error}; run the driver with `rtrain submit`"
            )
            self.let_go(slot)  # before the refs are settled, as the caller may end this process right after that
            slot.died(text)


_call_runs: CallRuns | None = None
_making = threading.Lock()


def call_runs() -> CallRuns:
    """Returns this process's `CallRuns`; connects to the cluster if needed."""
    global _call_runs
    _where.ensure()
    with _making:
        if _call_runs is None:
            _call_runs = CallRuns(Head(Head.current().place, patience_s=_PATIENCE_S))
            _closing.before_shutdown(close)
        return _call_runs


def close() -> None:
    global _call_runs
    with _making:
        ended, _call_runs = _call_runs, None
    if ended is not None:
        ended.close()


atexit.register(close)


def _in_a_child() -> None:
    global _call_runs, _making
    _making = threading.Lock()
    left, _call_runs = _call_runs, None
    if left is not None:
        left.leave()


os.register_at_fork(after_in_child=_in_a_child)


def checker(slot: Slot) -> Callable[[], None]:
    """Returns a function that fails the slot's calls if `CallRuns` was closed while a caller waits for a ref."""

    def check() -> None:
        if slot.call_runs._closed and not slot.dead:
            slot.died("the connection to the cluster was ended", TaskCancelledError)

    return check
