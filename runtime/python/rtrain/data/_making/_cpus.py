"""Measures the CPUs that a rank may use, and how busy they are."""

from __future__ import annotations

import contextlib
import os
import pathlib
import time
from dataclasses import dataclass

_LEAST = 2
_GREATEST = 64
_FULL = 1 << 62


def most_threads() -> int:
    """Returns how many threads of this process may make pieces: its share of the CPUs, at least two."""
    return max(_LEAST, min(int(cpus_of_rank()), _GREATEST))


def cpus_of_rank() -> float:
    """Returns how many CPUs this process may use. If it has no CPUs of its own, that is its share of the node's CPUs."""
    allowed = len(_allowed())
    ranks = max(1, int(os.environ.get("LOCAL_WORLD_SIZE") or 1))
    if allowed == (os.cpu_count() or 1):  # otherwise the rank has its own CPUs
        allowed //= ranks
    return min(float(allowed), _quota())


def free_memory() -> int:
    """Returns the free bytes of memory: the least of the node's and of the process's control groups."""
    free = _FULL
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = pathlib.Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    for group in _groups():
        with contextlib.suppress(OSError, ValueError):  # "max" is no number
            limit = int((group / "memory.max").read_text(encoding="ascii"))
            free = min(free, limit - int((group / "memory.current").read_text(encoding="ascii")))
    return max(0, free)


def _allowed() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def _quota() -> float:
    """Returns the CPUs that the control groups of the process allow."""
    allowed = float(_GREATEST)
    for group in _groups():
        with contextlib.suppress(OSError, ValueError):  # "max" is no number
            quota, period = (group / "cpu.max").read_text(encoding="ascii").split()[:2]
            allowed = min(allowed, float(quota) / float(period))
    return allowed


def _groups() -> list[pathlib.Path]:
    """Returns the folders of the process's control group (version 2) and of its ancestors."""
    top = pathlib.Path("/sys/fs/cgroup")
    try:
        own = pathlib.Path("/proc/self/cgroup").read_text(encoding="utf-8").partition("0::/")[2].partition("\n")[0]
    except OSError:
        return [top]
    folder = top / own
    return [folder, *folder.parents[: len(folder.parts) - len(top.parts)]]


@dataclass(frozen=True)
class Idle:
    """The total idle time of the CPUs that this process may use, at one time."""

    at: float
    seconds: float | None  # None: the system does not report it

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
        """Returns the average number of idle CPUs since an earlier measurement; all CPUs if the system does not report it."""
        if self.seconds is None or before.seconds is None or self.at <= before.at:
            return float(_GREATEST)
        return max(0.0, (self.seconds - before.seconds) / (self.at - before.at))
