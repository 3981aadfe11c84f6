"""A process that executes calls of a blocked worker, on the CPUs of that worker's run, which it lends."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from rtrain import _where
from rtrain._remote import _printed
from rtrain._remote._call_runs import CallRuns
from rtrain._remote._cipher import own_identity
from rtrain._remote._pools._slot import Owner, PoolSlot

WORKER = "rtrain._remote._pools._worker"
# The worker protocol has one process for each rank: reports of this one would count as reports of the blocked worker.
_OF_THE_WORKER = ("RTRAIN_WORKER_SOCKET", "RTRAIN_WORKER_KEY")


class LentSlot(PoolSlot):
    """The slot of such a process. It has no run of its own."""

    def __init__(self, owner: Owner, job: dict[str, Any], call_runs: CallRuns) -> None:
        super().__init__(owner, "call", job, call_runs)
        self._process: subprocess.Popen[bytes] | None = None
        self._pid = os.getpid()
        self.ends = True  # there is no run that the head could stop
        self.identity = own_identity()
        self.submitting.set()

    def start(self) -> None:
        self.call_runs.add(self)
        environment = {name: value for name, value in os.environ.items() if name not in _OF_THE_WORKER}
        environment |= self.job.get("env", {})
        environment |= {
            "RTRAIN_REMOTE_SLOT": self.name,
            "RTRAIN_REMOTE_DRIVER": self.call_runs.address,
            "RTRAIN_REMOTE_LENT": "1",
        }
        if _where.shows_prints():
            environment[_printed.VARIABLE] = "1"
        try:
            self._process = subprocess.Popen([sys.executable, "-m", WORKER], env=environment, stdin=subprocess.DEVNULL)
        except OSError as error:
            self.died(f"its process could not be started: {error}")
            return
        if self.dead:
            self.stop()

    def check(self) -> None:
        """Reports the end of a process that was never connected."""
        if self._process is not None and self._process.poll() is not None and self.channel is None:
            self.died(f"its process ended with {self._process.returncode}")

    def lost_channel(self) -> None:
        self.died("its worker, a process of the worker that called it, has ended")

    def stop(self) -> None:
        if os.getpid() == self._pid and self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def died(self, why: str, error: type[Exception] | None = None) -> None:
        super().died(why, error)
        self.stop()
