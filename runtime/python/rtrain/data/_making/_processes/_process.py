"""The rank's end of the connection to one process."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
import weakref

from rtrain.data._making._processes import _wire
from rtrain.data._making._processes._wire import Kind

START_S = 60.0  # seconds until a process has imported its modules
# The end of a process closes its socket, unless another process holds the socket open. So the process is also checked at this
# interval.
_LOOK_MS = 500
_END_S = 5.0
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
_live: weakref.WeakSet[Process] = weakref.WeakSet()


class Died(RuntimeError):
    """The process has ended. The text says how."""


class Process:
    """A process that one thread starts and uses. The kernel kills the process when this thread ends. OSError if it cannot be
    started."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.loaded: set[int] = set()  # the works that were sent to it
        self.answered = 0  # the number of jobs
        self.rank_s = 0.0  # seconds that the thread spent to prepare the jobs without an answer
        with theirs:
            if not sys.executable:
                raise OSError("the path of the Python interpreter is not known (sys.executable)")
            code = (
                f"import sys; sys.path[:] = {sys.path!r}; from rtrain.data._making._processes._main import main; "
                f"main({theirs.fileno()}, {os.getpid()})"
            )
            # The user's GPUs belong to the rank. A function that needs one fails in the process, and then stays in the rank.
            environment = {**dict.fromkeys(_ONE_THREAD, "1"), **os.environ, "CUDA_VISIBLE_DEVICES": ""}
            self._popen = subprocess.Popen(
                [sys.executable, "-c", code], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=environment
            )
        _live.add(self)
        self.pid = self._popen.pid

    def wait_until_ready(self) -> None:
        """Waits for the process's first message. Died if the process ends, or is not ready within START_S."""
        kind, _, _ = self.receive(START_S)
        if kind != Kind.READY:
            raise Died(f"process {self.pid} began with {kind.name}")
        _wire.check_peer(self._socket)

    def send(self, kind: Kind, number: int, memory: int) -> None:
        """Sends a message. Died if the process has ended."""
        try:
            _wire.send(self._socket, kind, number, memory)
        except OSError as error:
            raise Died(self._how(str(error))) from error

    def receive(self, within_s: float | None = None) -> tuple[Kind, int, int | None]:
        """Returns the next message. Died if the process ends, or sends none within `within_s` seconds."""
        until = None if within_s is None else time.monotonic() + within_s
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        while not poll.poll(_LOOK_MS):
            if self._popen.poll() is not None and not poll.poll(0):
                raise Died(self._how("it has ended"))
            if until is not None and time.monotonic() > until:
                raise Died(f"process {self.pid} sent nothing within {within_s:g} s")
        message = _wire.receive(self._socket)
        if message is None:
            raise Died(self._how("it closed its socket"))
        return message

    def _how(self, otherwise: str) -> str:
        try:
            status = self._popen.wait(_END_S)
        except subprocess.TimeoutExpired:
            return f"process {self.pid}: {otherwise}"
        if status < 0:
            name = signal.Signals(-status).name if -status in signal.Signals._value2member_map_ else f"signal {-status}"
            return f"process {self.pid} was ended by {name}"
        return f"process {self.pid} ended with status {status}"

    def kill(self) -> None:
        """Kills the process. Its thread then waits for it."""
        self._popen.kill()

    def end(self, *, is_idle: bool = False) -> None:
        """Ends the process and waits for it. is_idle: it has no job, so it ends by itself."""
        self._socket.close()
        if is_idle:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(_END_S)
        self._popen.kill()
        self._popen.wait()

    def forget(self) -> None:
        """Closes the socket in a fork of the rank, because the connection belongs to the rank."""
        self._socket.close()
        self._popen.returncode = 0  # The process is no child of this fork.


def _in_a_fork() -> None:
    for process in list(_live):
        process.forget()


os.register_at_fork(after_in_child=_in_a_fork)
