"""Runs in the worker of a function call (`_actors` has that of an object). The worker dials its driver. If the driver is
unreachable (NAT), the worker listens on its node and reports the address, and the driver dials.

    python -m rtrain._remote._worker         (RTRAIN_REMOTE_SLOT, RTRAIN_REMOTE_DRIVER, RTRAIN_CHANNEL)
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import socket
import sys
import threading
import time
from typing import Any

from rtrain import _closing, _exception_pickle, _on_cpu
from rtrain._by_value import by_value
from rtrain._remote import _current, _printed, _values
from rtrain._remote._channel import Channel, ChannelError, Part, answer, dial
from rtrain._remote._cipher import Identity, own_identity
from rtrain._remote._feeds import Feed
from rtrain._remote._own_modules import own_modules
from rtrain.train._worker import _errors_text

_DIAL_S = 3.0
_FOLDER = f"{os.path.dirname(__file__)}/"  # noqa: PTH120
_BE_DIALLED_S = 60.0
_BE_DIALLED_REFUSED_S = 5.0


def main() -> int:
    channel = connect()
    return 1 if channel is None else _Server(channel).serve()


def connect() -> Channel | None:
    """Returns the channel to the driver. Without one, sends the agent the cause and returns None."""
    identity = own_identity()
    if identity is None:
        tell_cause("the head made no certificate for this remote call: update the head, which has an earlier rtrain")
        return None
    try:
        return _find_driver(os.environ["RTRAIN_REMOTE_SLOT"], identity)
    except OSError as error:
        tell_cause(f"the driver of this remote call is away: {error}")
        return None


def _find_driver(slot: str, identity: Identity) -> Channel:
    tried = []
    is_refused = True  # the driver's machine answers, and the driver does not listen: it has most likely ended
    for text in os.environ.get("RTRAIN_REMOTE_DRIVER", "").split(","):
        host, _, port = text.rpartition(":")
        try:
            return dial((host, int(port)), slot, identity, _DIAL_S)
        except (OSError, ValueError) as error:
            tried.append(f"{text}: {error}")
            is_refused = is_refused and isinstance(error, ConnectionRefusedError)
    within_s = _BE_DIALLED_REFUSED_S if is_refused else _BE_DIALLED_S
    here = os.environ.get("MASTER_ADDR") or "127.0.0.1"
    with socket.create_server((here, 0), family=socket.AF_INET6 if ":" in here else socket.AF_INET) as listener:
        listener.settimeout(within_s)
        address = f"{here}:{listener.getsockname()[1]}"
        import rtrain.train

        rtrain.train.report({"rtrain_remote_address": address})
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            try:
                return answer(listener.accept()[0], {slot: identity}.get)[1]
            except TimeoutError:
                break
            except ChannelError as error:
                tried.append(str(error))
    raise ConnectionError(
        f"neither reaches the other: {'; '.join(tried)}; and nobody dialled {address} within {within_s:.0f} s. Start the "
        "driver where nodes can be reached, or as a job of its own (`entrypoint: python driver.py`)"
    )


def driver_listens() -> bool:
    """Returns whether the driver's process, which this worker has dialled, still accepts connections."""
    for text in os.environ.get("RTRAIN_REMOTE_DRIVER", "").split(","):
        host, _, port = text.rpartition(":")
        with contextlib.suppress(OSError, ValueError):
            socket.create_connection((host, int(port)), timeout=_DIAL_S).close()
            return True
    return False


class _Server:
    """Executes the call. A separate thread reads, so that the driver's end is noticed during a call."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._calls: queue.SimpleQueue[list[bytearray] | None] = queue.SimpleQueue()
        self._failed = False
        self._ended = False  # no call follows
        self._feeds: dict[int, Feed] = {}
        self._printed = _printed.PrintedLines(channel) if os.environ.get(_printed.VARIABLE) else None

    def serve(self) -> int:
        threading.Thread(target=self._read, daemon=True).start()
        while (parts := self._calls.get()) is not None:
            head: dict[str, Any] = pickle.loads(parts[0])
            if head["op"] == "end":
                break
            self._answer(head, parts[1:])
        self._tell_prints()
        self._channel.close()
        return 1 if self._failed else 0

    def _read(self) -> None:
        try:
            while True:
                parts = self._channel.receive()
                message = pickle.loads(parts[0])
                if message["op"] in ("taken", "close"):
                    if (feed := self._feeds.get(message["id"])) is not None:
                        feed.notice(message)
                    continue
                if "ahead" in message:
                    self._feeds[message["id"]] = Feed(message, self._channel.send)
                self._ended = self._ended or message["op"] == "end"
                self._calls.put(parts)
        except ChannelError:
            if self._ended and not self._feeds:
                return  # the driver has ended behind its call
            tell_cause("its driver has gone")
            sys.stdout.flush()
            os._exit(1)

    def _answer(self, head: dict[str, Any], parts: list[bytearray]) -> None:
        number, name = head["id"], head["what"]
        try:
            value = self._perform(head, parts)
            answers = split(value, head["returns"])
            replies = [_values.pack(answer_value, f"what {name} returned", _on_cpu.dumps) for answer_value in answers]
            self._feeds.pop(number, None)
        except BaseException as error:
            self._feeds.pop(number, None)
            self._tell_prints()
            self._failed = True
            text = user_text(error)
            # before the answer, as the driver may end after it, and this process with the driver
            tell_cause(_errors_text.describe(error), text)
            self._channel.send(failure(number, name, text, error))
            return
        self._tell_prints()
        counts = [len(reply) for reply in replies]
        flat: list[Part] = [part for reply in replies for part in reply]
        self._channel.send([pickle.dumps({"id": number, "ok": True, "counts": counts}), *flat])

    def _tell_prints(self) -> None:
        if self._printed is not None:
            self._printed.flush()

    def _perform(self, head: dict[str, Any], parts: list[bytearray]) -> Any:
        target, arguments, named = _values.unpack(parts)
        _current.call.set(head["what"])
        _current.call_number.set(head["id"])
        value = target(*arguments, **named)
        feed = self._feeds.get(head["id"])
        return value if feed is None else feed.send_items(value)


def split(value: Any, returns: int) -> list[Any]:
    """Returns the values of the refs of one call."""
    if returns == 1:
        return [value]
    answers = list(value)
    if len(answers) != returns:
        raise ValueError(f"num_returns={returns}, and the function returned {len(answers)} values")
    return answers


def user_text(error: BaseException) -> str:
    """Returns the exception with its traceback, without frames of the code that called the user's."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_FOLDER):
        trace = trace.tb_next
    return _errors_text.whole(error, trace)


def failure(number: int, name: str, text: str, error: BaseException) -> list[Part]:
    """Returns the answer of a failed call. The answer's head contains the text for a driver that cannot unpickle the
    exception.
    """
    where = f"{os.environ.get('RTRAIN_NODE', 'a node')}, pid {os.getpid()}"
    text = f"{name} raised on {where}: {_errors_text.first_line(error)}\n{text}"
    carried = None
    try:
        carried = _Carried(_exception_pickle.dumped(error, _dumped_by_value))
    except _exception_pickle.NotCarried as why:
        text += f"\n({type(error).__name__} itself is not sent: {why})"
    return [pickle.dumps({"id": number, "ok": False, "text": text}), pickle.dumps((text, carried), protocol=5)]


def _dumped_by_value(value: Any) -> bytes:
    with by_value(own_modules()):
        return _on_cpu.dumps(value)


class _Carried:
    """Holds the tested pickle of an exception. Unpickling this object gives the exception."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __reduce__(self) -> Any:
        return pickle.loads, (self._content,)


def tell_cause(cause: str, shown: str | None = None) -> None:
    """Sends the agent the cause that `rtrain describe` shows, and prints it, or `shown` in its place, in the logs."""
    from rtrain.train import _worker
    from rtrain.train._worker import _library

    print(shown or cause, file=sys.__stderr__, flush=True)  # the driver receives the text with the error
    try:
        _library.check(_library.library().rtw_fail(_worker.handle("remote"), cause.encode("utf-8", "replace")), "remote")
    except (Exception, SystemExit) as fault:
        print(f"rtrain: the agent could not be told the cause: {fault}", file=sys.stderr)


def end(status: int) -> None:
    """Ends this process. Stops the runs that its remote calls have made, which would otherwise fail for want of their driver."""
    with contextlib.suppress(Exception):
        _closing.run()
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)  # so that threads of the user's code do not keep the process alive


if __name__ == "__main__":
    end(main())
