"""Decides how many processes carry functions out. This module uses no clock, files or processes.

A process costs its start, and its rows are copied to it and back. So processes are started only if they are expected to do 1.3
times the work of the rank's threads. Later decisions use measurements.
"""

from __future__ import annotations

from dataclasses import dataclass

GAIN = 1.3  # the least throughput of processes, as a multiple of the rank's threads' throughput
SPENT_S = 1.0  # seconds of functions in the rank before processes start; a shorter dataset does not repay their start
SPENT_ASKED_S = 0.1  # the same limit if the user set `concurrency=`
COPY_S_PER_BYTE = 2e-9  # seconds to write, map and join a byte that a process made
MOST_COPYING = 0.25  # the largest share of copying in the time of a row's function
PROCESS_BYTES = 128 << 20  # the least memory of a process, in bytes
BUSY = 0.8  # the least share of their time in which processes work, for more of them to be tried
PART_S = 0.1  # the duration of a process's part, in seconds of the rank's thread


@dataclass(frozen=True)
class Limits:
    """The user's settings. asked: the value of `concurrency=`. processes: `DataContext.processes`; None: not set, 0: no
    processes."""

    asked: int | None = None
    processes: int | None = None
    num_cpus: float = 1.0  # CPUs of each process
    memory: int = 0  # bytes of each process


@dataclass(frozen=True)
class Machine:
    """cpus: the CPUs that the rank may use. idle: how many of them were idle. memory: free bytes."""

    cpus: float
    idle: float
    memory: int


@dataclass(frozen=True)
class Work:
    """Measurements of functions in the rank. row_s, row_cpu_s: seconds and CPU seconds of a row in one thread. speedup: the
    throughput of the current threads as a multiple of one thread's; None while it is being measured."""

    spent_s: float
    row_s: float
    row_cpu_s: float
    row_bytes: float
    speedup: float | None


def most_processes(limits: Limits, machine: Machine) -> int:
    """Returns the largest possible number of processes. A rank with one CPU has none."""
    if limits.processes == 0 or machine.cpus < 2:
        return 0
    bounds = [int(machine.cpus / limits.num_cpus) if limits.num_cpus > 0 else int(machine.cpus)]
    bounds.append(machine.memory // max(limits.memory, PROCESS_BYTES))
    if limits.asked is not None:
        bounds.append(limits.asked)
    if limits.processes is not None:
        bounds = [limits.processes, *bounds[1:]]
    return max(0, min(bounds))


def processes_for(limits: Limits, machine: Machine, work: Work) -> int:
    """Returns how many processes to start with; 0: none for now."""
    most = most_processes(limits, machine)
    if limits.processes is not None:
        return most
    if not most or work.speedup is None or not work.row_s:
        return 0
    if work.spent_s < (SPENT_S if limits.asked is None else SPENT_ASKED_S):
        return 0
    if work.row_bytes * COPY_S_PER_BYTE > MOST_COPYING * work.row_s:
        return 0
    rows_a_second = work.speedup / work.row_s
    free_cpus = machine.idle + rows_a_second * work.row_cpu_s  # The CPUs of the threads become free when processes do the work.
    most = min(most, int(free_cpus + 0.5)) if limits.asked is None else most
    busy_cpus = min(most, free_cpus) if limits.asked is None else most
    foreseen = busy_cpus / work.row_cpu_s if work.row_cpu_s > 0 else 0.0
    return most if foreseen >= GAIN * rows_a_second else 0


def pays(processes_rows_a_second: float, work: Work) -> bool:
    """Returns True if processes gain enough compared with the rank's threads."""
    return processes_rows_a_second * work.row_s >= GAIN * (work.speedup or 1.0)


def more_processes(limits: Limits, machine: Machine, processes: int, busy: float) -> int:
    """Returns how many processes to continue with. busy: the share of their time in which they worked."""
    if limits.processes is not None or limits.asked is not None or busy < BUSY:
        return processes
    return max(processes, min(most_processes(limits, machine), 2 * processes, processes + int(machine.idle)))


def more_pay(before: tuple[int, float], after: tuple[int, float]) -> bool:
    """Returns True if the added processes gained enough. Each pair is a number of processes and their rows per second."""
    return after[1] >= before[1] * (1 + (GAIN - 1) * (after[0] / before[0] - 1))


def rows_of_part(rows: int, unit: int, row_s: float, part_s: float) -> int:
    """Returns how many of `rows` rows are made at once: a multiple of `unit`, or all. unit: 0 if the rows must stay together."""
    if not unit or not row_s:
        return rows
    return min(rows, max(1, int(part_s / row_s / unit)) * unit)
