"""Runs a command with a deadline and leaves no process behind. Orphaned processes become children of this process, so all
descendants of the command are found below it and ended by pid.
"""

import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import time

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_GRACE_S = 25  # time for an ended group to stop its daemons


def adopt_orphans():
    """Makes orphans below this process its children from now on."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def end_with_parent():
    """Makes the kernel send SIGTERM to this process when its parent ends."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")


def run(command, env, log, seconds):
    """Runs `command` with its output in `log`. Returns its exit code; None if it took longer than `seconds`. No process of
    it is left afterwards, even if this process is interrupted.
    """
    child = None
    try:
        with open(log, "ab") as into:
            child = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=into, stderr=into, start_new_session=True)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(seconds)
        return None
    finally:
        if child is not None and child.poll() is None:
            child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_GRACE_S)
        end_descendants()


def end_descendants(within=20.0):
    """Sends SIGKILL to every process below this one until there is none. Raises RuntimeError with the names of processes
    that do not end.
    """
    deadline = time.monotonic() + within
    while pids := descendants(os.getpid()):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise RuntimeError(f"these processes do not end: {pids}")
        _reap()
        time.sleep(0.02)
    _reap()


def _reap():
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def descendants(root):
    """Pids of the living processes below `root`, the nearest first."""
    children = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if state not in "ZX":
                    children.setdefault(int(parent), []).append(int(entry.name))
    pids, front = [], [root]
    while front:
        front = [child for pid in front for child in children.get(pid, [])]
        pids += front
    return pids
