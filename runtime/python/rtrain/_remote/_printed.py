"""Sends the output of a remote function or actor to the driver, line by line, in addition to the run's own logs. Only Python's
stdout and stderr: `rtrain logs` has the output of C code and of child processes."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import sys
import threading
from typing import Any

from rtrain._remote._channel import Channel, ChannelError

VARIABLE = "RTRAIN_REMOTE_PRINTS"  # set by a driver that shows the lines
_WAITING_MOST = 10_000  # maximum number of queued lines; further ones are only counted
_LINE_MOST = 16 << 10
_BATCH = 500
_SENT_WITHIN_S = 5.0


class PrintedLines:
    """Replaces sys.stdout and sys.stderr and copies each line to the driver. A write only adds lines to a queue, which a
    destructor or a signal handler may use during another write. A thread sends the lines.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lines: queue.SimpleQueue[tuple[str, str] | threading.Event] = queue.SimpleQueue()
        self._begun: dict[tuple[int, str], str] = {}  # incomplete lines, by thread and stream
        self._left_out = 0
        self._is_flushed = True
        sys.stdout = _Copied(sys.stdout, "out", self)
        sys.stderr = _Copied(sys.stderr, "err", self)
        threading.Thread(target=self._send_all, daemon=True, name="rtrain prints").start()

    def add(self, stream: str, text: str) -> None:
        self._is_flushed = False
        place = threading.get_ident(), stream
        *whole, rest = (self._begun.pop(place, "") + text).split("\n")
        if len(rest) > _LINE_MOST:
            whole, rest = [*whole, rest], ""
        if rest:
            self._begun[place] = rest
        self._put(stream, whole)

    def _put(self, stream: str, whole: list[str]) -> None:
        for line in whole:
            if self._lines.qsize() < _WAITING_MOST:
                self._lines.put((stream, line[:_LINE_MOST]))
            else:
                self._left_out += 1

    def flush(self) -> None:
        """Waits until all lines are sent or cannot be sent. An answer is sent after this, so it arrives behind the printed
        lines.
        """
        if self._is_flushed:
            return
        self._is_flushed = True
        for place in list(self._begun):
            self._put(place[1], [self._begun.pop(place, "")])
        sent = threading.Event()
        self._lines.put(sent)
        sent.wait(_SENT_WITHIN_S)

    def _send_all(self) -> None:
        while True:
            batch = [self._lines.get()]
            while len(batch) < _BATCH and not self._lines.empty():
                batch.append(self._lines.get())
            lines = [line for line in batch if not isinstance(line, threading.Event)]
            if self._left_out and self._lines.empty():
                lines.append(("err", f"... {self._left_out} more lines are in rtrain logs {os.environ.get('RTRAIN_RUN_ID', '')}"))
                self._left_out = 0
            if lines:
                with contextlib.suppress(ChannelError):  # without a driver, only the logs contain the lines
                    self._channel.send([pickle.dumps({"op": "said", "node": os.environ.get("RTRAIN_NODE", ""), "lines": lines})])
            for sent in batch:
                if isinstance(sent, threading.Event):
                    sent.set()


class _Copied:
    def __init__(self, stream: Any, name: str, printed: PrintedLines) -> None:
        self._stream, self._name, self._printed = stream, name, printed

    def write(self, text: str) -> int:
        count: int = self._stream.write(text)
        self._printed.add(self._name, text)
        return count

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def show(what: str, message: dict[str, Any]) -> None:
    """Shows lines on the driver's terminal."""
    where = f"{what}, {message['node']}" if message["node"] else what
    for stream, line in message["lines"]:
        out = sys.stderr if stream == "err" else sys.stdout
        # In one write, since `print` writes the newline separately and other workers' lines could come between.
        out.write(f"({where}) {line}\n")
        out.flush()
