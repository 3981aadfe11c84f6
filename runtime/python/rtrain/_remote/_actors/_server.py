"""Runs in the worker of an actor: constructs the object and carries out the calls of all callers.

maker ────► Caller ─┐             one thread: in their order, in the main thread
holder ───► Caller ─┼─► calls ──► max_concurrency threads
holder ───► Caller ─┘             event loop, where the class has `async def` methods
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import sys
import threading
from typing import Any

from rtrain import _on_cpu
from rtrain._http import Head, HeadError, part
from rtrain._remote import _current, _printed, _values, _worker
from rtrain._remote._actors._callers import Caller, Message
from rtrain._remote._actors._exit import ActorExit
from rtrain._remote._actors._listener import HoldersListener
from rtrain._remote._channel import Channel, Part
from rtrain._remote._cipher import own_identity
from rtrain._remote._options import RESTARTS
from rtrain.train._worker import _errors_text


class ActorServer:
    """Serves one object. The worker ends with its maker."""

    def __init__(self, channel: Channel) -> None:
        self._calls: queue.SimpleQueue[tuple[Caller, Message]] = queue.SimpleQueue()
        self.maker = Caller(channel, is_maker=True)
        self._callers = [self.maker]
        self._lock = threading.Lock()
        self._instance: Any = None
        identity = own_identity()
        self._listener = HoldersListener(identity, self._connected) if identity is not None else None
        self._printed = _printed.PrintedLines(channel) if os.environ.get(_printed.VARIABLE) else None

    def first_message(self) -> Message | None:
        """Returns the message that constructs the object; None if the maker has let the object go before."""
        self._read_from(self.maker)
        early: list[tuple[Caller, Message]] = []  # calls of holders before the message that constructs the object
        while True:
            caller, message = self._calls.get()
            if caller is self.maker:
                break
            early.append((caller, message))
        for item in early:
            self._calls.put(item)
        return message if message[0]["op"] == "construct" else None

    def close(self) -> None:
        self.flush_prints()
        self.maker.channel.close()

    # -- for performers ------------------------------------------------------------------------------------------------
    def next_call(self) -> tuple[Caller, Message] | None:
        """Returns the next call; None when the maker has let the object go."""
        while True:
            caller, message = self._calls.get()
            if message[0]["op"] != "end":
                return caller, message
            if caller is self.maker:
                return None

    def call(self, message: Message) -> Any:
        """Calls what a message names. Returns the value, or the coroutine of an `async def` method."""
        head, parts = message
        target, arguments, named = _values.unpack(parts)
        _current.call.set(head["what"])
        _current.call_number.set(head["id"])
        if head["op"] == "construct":
            kind, methods, limits = target
            _current.actor = _current.Actor(None, self._description(head), methods, limits)
            self._instance = _current.actor.instance = kind(*arguments, **named)
            return None
        if target == "__ray_ready__":
            return True
        if target == "__ray_terminate__":
            raise ActorExit(0)
        if target == "__ray_call__":
            return arguments[0](self._instance, *arguments[1:], **named)
        return getattr(self._instance, target)(*arguments, **named)

    def answer(self, caller: Caller, head: dict[str, Any], value: Any) -> None:
        lent: list[Any] = head.get("lent", [])
        values = _worker.split(value, head["returns"])
        replies = [_values.pack(part_value, f"what {head['what']} returned", _on_cpu.dumps, lent) for part_value in values]
        caller.lend(lent)
        self.flush_prints()
        counts = [len(reply) for reply in replies]
        carried = [handle.actor_id for handle in lent]
        flat: list[Part] = [part for reply in replies for part in reply]
        caller.answer({"id": head["id"], "ok": True, "counts": counts, "carried": carried}, flat)

    def failed(self, caller: Caller, head: dict[str, Any], error: BaseException) -> None:
        """Answers a call that has raised. A method that calls `sys.exit` or `exit_actor` ends this process."""
        if isinstance(error, ActorExit):
            self._exit()
        self.flush_prints()
        ends_worker = not isinstance(error, Exception)
        text = _worker.user_text(error)
        if head["op"] == "construct" or ends_worker:
            # before the answer, as the maker may end after it, and this process with the maker
            _worker.tell_cause(_errors_text.describe(error), text)
        first, *rest = _worker.failure(head["id"], head["what"], text, error)
        kinds = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__]
        caller.answer({**pickle.loads(bytes(first)), "kinds": kinds}, rest)
        if ends_worker and head["op"] != "construct":
            _worker.end(_status(error))

    def flush_prints(self) -> None:
        if self._printed is not None:
            self._printed.flush()

    # -- callers -------------------------------------------------------------------------------------------------------
    def _read_from(self, caller: Caller) -> None:
        threading.Thread(target=caller.read, args=(self._received, self._gone), daemon=True, name="rtrain calls").start()

    def _connected(self, channel: Channel) -> None:
        caller = Caller(channel, is_maker=False)
        with self._lock:
            self._callers.append(caller)
        self._read_from(caller)

    def _received(self, caller: Caller, message: Message) -> None:
        op = message[0]["op"]
        if not caller.is_maker and op not in ("method", "crash", "end"):
            caller.channel.close()  # only the maker constructs the object
            return
        if op == "crash":
            self._crash()
        if op == "listen" or message[0].get("listen"):
            threading.Thread(target=self._listen, daemon=True, name="rtrain listen").start()
        if op != "listen":
            self._calls.put((caller, message))

    def _gone(self, caller: Caller) -> None:
        with self._lock:
            self._callers.remove(caller)
        if caller is self.maker and not caller.ended:
            maker_gone()

    def _listen(self) -> None:
        """Listens for holders of the handle, and writes and sends the address."""
        if self._listener is None or not self._listener.open():
            return
        self.maker.tell({"op": "listening", "address": self._listener.address})
        self._listener.publish()

    def listen(self) -> str:
        """Listens for holders of the handle, and returns the address."""
        assert self._listener is not None
        if self._listener.open():
            self.maker.tell({"op": "listening", "address": self._listener.address})
            threading.Thread(target=self._listener.publish, daemon=True, name="rtrain publish").start()
        return self._listener.address

    def _description(self, head: dict[str, Any]) -> dict[str, Any]:
        """Returns what the handle of this actor has, for `get_runtime_context().current_actor`."""
        identity = own_identity()
        assert identity is not None
        what = str(head["what"]).removesuffix("()")
        run = os.environ["RTRAIN_RUN_ID"]
        return {"id": os.environ["RTRAIN_REMOTE_SLOT"], "run": run, "what": what, "key": identity.text(), "listen": self.listen}

    def _exit(self) -> None:
        self.flush_prints()
        with self._lock:
            callers = list(self._callers)
        for caller in callers:
            caller.tell({"op": "exit", "text": "the actor has ended itself by exit_actor()"})
        _worker.end(0)

    def _crash(self) -> None:
        _worker.tell_cause("it was killed, to be constructed again (kill(no_restart=False))")
        sys.stdout.flush()
        os._exit(1)


def maker_gone() -> None:
    """Ends this process after its maker. A run whose worker the head would start again is stopped, if the maker is not there."""
    _worker.tell_cause("its driver has gone")
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    if os.environ.get(RESTARTS) and not _worker.driver_listens():
        stop_own_run()
    os._exit(1)


def stop_own_run() -> None:
    with contextlib.suppress(HeadError):
        Head.current().post(f"/v1/runs/{part(os.environ['RTRAIN_RUN_ID'])}/stop", {"now": True})


def _status(error: BaseException) -> int:
    code = error.code if isinstance(error, SystemExit) else 1
    return code if isinstance(code, int) else int(code is not None)
