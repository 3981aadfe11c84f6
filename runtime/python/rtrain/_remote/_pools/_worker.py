"""Runs in a worker of a pool: executes calls of one driver in their order, until the driver ends it.

python -m rtrain._remote._pools._worker         (RTRAIN_REMOTE_SLOT, RTRAIN_REMOTE_DRIVER, RTRAIN_CHANNEL)
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import threading
import time
from collections import deque
from typing import Any

from rtrain import _on_cpu
from rtrain._remote import _current as _process, _printed, _values, _worker
from rtrain._remote._channel import Channel, ChannelError, Part
from rtrain._remote._cipher import own_identity
from rtrain._remote._pools import _current

_LENT = "RTRAIN_REMOTE_LENT"


def main() -> int:
    identity = own_identity()
    if identity is None:
        return _failed("the head made no certificate for this remote call: update the head, which has an earlier rtrain")
    try:
        channel = _worker._find_driver(os.environ["RTRAIN_REMOTE_SLOT"], identity)
    except OSError as error:
        return _failed(f"the driver of this remote call is away: {error}")
    Server(channel).serve()
    return 0


def _failed(cause: str) -> int:
    if os.environ.get(_LENT):
        print(cause, file=sys.stderr, flush=True)
    else:
        _worker.tell_cause(cause)
    return 1


class Server:
    """A separate thread reads, so that orders of the driver, and its end, are noticed during a call."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._changed = threading.Condition()
        self._calls: deque[tuple[int, int, str, int, list[bytearray]]] = deque()  # that have not begun
        self._functions: dict[int, list[bytearray] | Any] = {}  # pickled, until the first call
        self._unpacked: set[int] = set()
        self._running: int | None = None
        self._interrupted: int | None = None  # the call that an interrupt is meant for
        self._is_ending = False
        self._is_done = False
        self._is_leaving = False  # the node has sent SIGTERM: the call that runs is the last one
        self._woken, self._wakes = os.pipe()
        self._printed = _printed.PrintedLines(channel) if os.environ.get(_printed.VARIABLE) else None

    def serve(self) -> None:
        """Executes calls in the main thread, which alone receives signals."""
        signal.signal(signal.SIGINT, self._on_interrupt)
        signal.signal(signal.SIGTERM, lambda *_: os.write(self._wakes, b"x"))
        threading.Thread(target=self._leave, daemon=True, name="rtrain calls leave").start()
        threading.Thread(target=self._read, daemon=True, name="rtrain calls").start()
        while (call := self._next()) is not None:
            self._answer(*call)
            with self._changed:
                self._running = None
        if self._printed is not None:
            self._printed.flush()
        self._is_done = True
        self._channel.close()

    def _next(self) -> tuple[int, int, str, int, list[bytearray]] | None:
        with self._changed:
            while not self._calls and not self._is_ending:
                self._changed.wait()
            if not self._calls:
                return None
            call = self._calls.popleft()
            self._running = call[0]
            return call

    # -- orders --------------------------------------------------------------------------------------------------------
    def _read(self) -> None:
        try:
            while True:
                parts = self._channel.receive()
                head = pickle.loads(parts[0])
                if head["op"] == "calls":
                    self._take_calls(head, parts[1:])
                elif head["op"] == "back":
                    self._give_back(head["of"])
                elif head["op"] == "cancel":
                    self._cancel(head)
                elif head["op"] == "end":
                    with self._changed:
                        self._is_ending = True
                        self._changed.notify_all()
                    return
        except ChannelError:
            if self._is_done:
                return
            _failed("its driver has gone")
            sys.stdout.flush()
            os._exit(1)

    def _take_calls(self, head: dict[str, Any], parts: list[bytearray]) -> None:
        at = 0
        with self._changed:
            for number in head["drop"]:
                self._functions.pop(number, None)
                self._unpacked.discard(number)
            for number, count in head["functions"]:
                self._functions[number] = parts[at : at + count]
                self._unpacked.discard(number)
                at += count
            for number, function, what, returns, count in head["calls"]:
                self._calls.append((number, function, what, returns, parts[at : at + count]))
                at += count
            self._changed.notify_all()
        if self._is_leaving:
            self._give_back([call[0] for call in head["calls"]])

    def _give_back(self, numbers: list[int]) -> None:
        """Returns those of the calls that have not begun."""
        with self._changed:
            wanted = set(numbers)
            back = [call[0] for call in self._calls if call[0] in wanted]
            self._calls = deque(call for call in self._calls if call[0] not in wanted)
        self._channel.send([pickle.dumps({"op": "returned", "of": back, "leaves": self._is_leaving})])

    def _leave(self) -> None:
        """Returns the calls that have not begun after SIGTERM: the run is stopped, preempted, or its node drains."""
        os.read(self._woken, 1)
        with self._changed:
            self._is_leaving = self._is_ending = True
            waiting = [call[0] for call in self._calls]
            self._changed.notify_all()
        with contextlib.suppress(ChannelError):
            self._give_back(waiting)

    def _cancel(self, head: dict[str, Any]) -> None:
        number, force = head["number"], head["force"]
        with self._changed:
            has_begun = self._running == number
            is_waiting = any(call[0] == number for call in self._calls)
            self._calls = deque(call for call in self._calls if call[0] != number)
            if has_begun and not force:
                self._interrupted = number
        if has_begun and head["recursive"]:
            _current.cancel_children(number, force=force)
        if is_waiting:
            self._channel.send([pickle.dumps({"id": number, "ok": False, "cancelled": True})])
        elif has_begun and force:
            self._channel.send([pickle.dumps({"id": number, "ok": False, "cancelled": True, "ends": True})])
            sys.stdout.flush()
            os._exit(1)
        elif has_begun:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _on_interrupt(self, number: int, frame: Any) -> None:
        """Raises KeyboardInterrupt in the function of the cancelled call, and nowhere else."""
        if self._interrupted is None:
            signal.default_int_handler(number, frame)
        if self._interrupted == self._running and _current.number:
            if _current.postpone_interrupt(self._raise):
                return
            self._raise()

    def _raise(self) -> None:
        if self._interrupted is not None and self._interrupted == self._running and _current.number:
            raise KeyboardInterrupt("the call was cancelled by rtrain.cancel")

    # -- calls ---------------------------------------------------------------------------------------------------------
    def _answer(self, number: int, function: int, what: str, returns: int, parts: list[bytearray]) -> None:
        began = time.perf_counter()
        try:
            target = self._function(function)
            arguments, named = _values.unpack(parts)
            began = time.perf_counter()
            try:
                _current.number = number
                _process.call.set(what)
                _process.call_number.set(number)
                self._raise()  # it was cancelled while its arguments were unpickled
                value = target(*arguments, **named)
            finally:
                _current.number = 0
            seconds = time.perf_counter() - began
            answers = _worker.split(value, returns)
            replies = [_values.pack(answer, f"what {what} returned", _on_cpu.dumps) for answer in answers]
        except BaseException as error:
            self._answer_failure(number, what, error, time.perf_counter() - began)
            return
        if self._printed is not None:
            self._printed.flush()
        head = {"id": number, "ok": True, "counts": [len(reply) for reply in replies], "s": seconds}
        flat: list[Part] = [part for reply in replies for part in reply]
        self._channel.send([pickle.dumps(head), *flat])

    def _function(self, number: int) -> Any:
        if number not in self._unpacked:
            self._functions[number] = _values.unpack(self._functions[number])
            self._unpacked.add(number)
        return self._functions[number]

    def _answer_failure(self, number: int, what: str, error: BaseException, seconds: float) -> None:
        is_cancelled = self._interrupted == number and isinstance(error, KeyboardInterrupt)
        if is_cancelled:
            if self._printed is not None:
                self._printed.flush()
            self._channel.send([pickle.dumps({"id": number, "ok": False, "cancelled": True})])
            return
        text = _worker.user_text(error)
        print(text, file=sys.__stderr__, flush=True)  # for `rtrain logs`; the driver receives it with the error
        if self._printed is not None:
            self._printed.flush()
        head, *parts = _worker.failure(number, what, text, error)
        self._channel.send([pickle.dumps({**pickle.loads(head), "s": seconds}), *parts])


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # so that threads of the user's code do not keep the process alive
