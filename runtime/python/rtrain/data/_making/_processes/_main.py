"""The main program of a process that carries functions out. It imports the modules of the functions, never the user's script.

The process ends when the rank's end of the socket closes. If the rank ends during a job, the kernel kills the process.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import socket
import sys
import time
import traceback
from typing import Any

from rtrain import _chance
from rtrain.data._making._processes import _blocks, _memory, _wire
from rtrain.data._making._processes._wire import Kind

_PR_SET_PDEATHSIG = 1


def main(descriptor: int, rank_pid: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != rank_pid:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The terminal sends SIGINT to the rank too, which ends its processes.
    with socket.socket(fileno=descriptor) as sock:
        _wire.check_peer(sock)
        try:
            _wire.send(sock, Kind.READY, os.getpid())
            _serve(sock)
        except (BrokenPipeError, ConnectionError):
            pass  # The rank has ended, or does not need this process any more.


def _serve(sock: socket.socket) -> None:
    works: dict[int, Any] = {}
    while (message := _wire.receive(sock)) is not None:
        kind, number, memory = message
        if memory is None:
            raise _wire.Stranger(f"a message {kind.name} came without memory")
        try:
            if kind == Kind.LOAD:
                works[number] = _loaded(memory)
                continue
            kind_of_reply, answer = _carried_out(works, memory)
        finally:
            os.close(memory)
        try:
            _wire.send(sock, kind_of_reply, number, answer)
        finally:
            os.close(answer)


def _loaded(memory: int) -> Any:
    """Returns functions, or a text with the traceback of an error."""
    try:
        return pickle.loads(_memory.opened(memory)[0])
    except BaseException:
        return traceback.format_exc()


def _carried_out(works: dict[int, Any], memory: int) -> tuple[Kind, int]:
    """Returns the kind of the reply, and its memory."""
    begun = time.monotonic()
    try:
        block, (key, place, first) = _blocks.opened(memory)
        work = works[key]
        if isinstance(work, str):
            return Kind.FAILED, _memory.sealed(work.encode(errors="replace"), [])
        with _chance.at(*place, first):
            _chance.seed_global_generators()
        new_rows = work.apply(block, place, first)
        return Kind.MADE, _blocks.sealed(new_rows, time.monotonic() - begun)
    except BaseException:  # Includes sys.exit(), because the rank carries the functions out again.
        return Kind.FAILED, _memory.sealed(traceback.format_exc().encode(errors="replace"), [])
    finally:
        sys.stdout.flush()
