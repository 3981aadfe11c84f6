"""The CPUs that a rank may use, and how busy they are."""

from __future__ import annotations

import os
import pathlib
import time
from dataclasses import dataclass

_LEAST = 2
_GREATEST = 64


def most_threads() -> int:
    """Returns how many threads of this process may make pieces: its part of the CPUs, and two at least."""
    allowed = len(_allowed())
    ranks = max(1, int(os.environ.get("LOCAL_WORLD_SIZE") or 1))
    if allowed == (os.cpu_count() or 1):  # else the rank has CPUs of its own
        allowed //= ranks
    return max(_LEAST, min(allowed, int(_quota()), _GREATEST))


def _allowed() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def _quota() -> float:
    """Returns the CPUs that the control group of the process allows."""
    try:
        quota, period = pathlib.Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()[:2]
        return float(quota) / float(period) if quota != "max" else float(_GREATEST)
    except (OSError, ValueError):
        return float(_GREATEST)


@dataclass(frozen=True)
class Idle:
    """How long the CPUs that this process may use were idle, all together, up to a time."""

    at: float
    seconds: float | None  # None: this system does not say

    @classmethod
    def now(cls) -> Idle:
        at, allowed = time.monotonic(), _allowed()
        try:
            lines = pathlib.Path("/proc/stat").read_text(encoding="ascii").splitlines()
        except OSError:
            return cls(at, None)
        idle = 0
        for line in lines:
            name, *counts = line.split()
            if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in allowed:
                idle += int(counts[3]) + int(counts[4])
        return cls(at, idle / os.sysconf("SC_CLK_TCK"))

    def cpus_since(self, before: Idle) -> float:
        """Returns how many CPUs were idle on average since another look; all of them where the system does not say."""
        if self.seconds is None or before.seconds is None or self.at <= before.at:
            return float(_GREATEST)
        return max(0.0, (self.seconds - before.seconds) / (self.at - before.at))
