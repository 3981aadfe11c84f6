"""Runs driver scripts as real processes, each with its own home directory. The clusters that they start are real."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "runtime" / "python"
BINARY = os.environ.get("RTRAIN_BINARY", str(ROOT / "build" / "release" / "rtrain"))


def wait_for(what: str, condition: Callable[[], Any], seconds: float = 180) -> Any:
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        pause.wait(0.05)
    raise AssertionError(f"waited {seconds} s for {what}")


def processes_below(folder: pathlib.Path) -> list[int]:
    """Pids whose command line or environment names something below `folder`: daemons, shims and workers."""
    processes = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            text = (entry / "cmdline").read_bytes() + b"\0" + (entry / "environ").read_bytes()
        except OSError:
            continue
        if os.fsencode(f"{folder}/") in text:
            processes.append(int(entry.name))
    return processes


class Home:
    """A user's machine: HOME, TMPDIR and the rtrain program, without settings of another cluster."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        (folder / "tmp").mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RTRAIN_")}
        self.environment = {
            **kept,
            "HOME": str(folder),
            "XDG_DATA_HOME": str(folder / "data"),
            "TMPDIR": str(folder / "tmp"),
            "RTRAIN_BINARY": BINARY,
            "PYTHONPATH": str(PACKAGE),
            "PYTHONUNBUFFERED": "1",
            "NO_COLOR": "1",
        }
        self.environment.pop("XDG_CONFIG_HOME", None)
        self.started: list[subprocess.Popen[str]] = []

    def start(self, script: str, *arguments: str, name: str = "driver.py", **environment: str) -> subprocess.Popen[str]:
        file = self.folder / name
        file.write_text(textwrap.dedent(script))
        return self.run([sys.executable, str(file), *arguments], **environment)

    def run(self, command: list[str], **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command,
            env={**self.environment, **environment},
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def script(self, script: str, *arguments: str, expect: int = 0, **environment: str) -> str:
        """Returns the script's output; with a non-zero `expect` also its stderr."""
        return finish(self.start(script, *arguments, **environment), expect)

    def rtrain(self, *arguments: str, expect: int = 0, **environment: str) -> str:
        return finish(self.run([BINARY, *arguments], **environment), expect)

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        for pid in processes_below(self.folder):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def finish(process: subprocess.Popen[str], expect: int = 0, seconds: float = 240) -> str:
    out, err = process.communicate(timeout=seconds)
    assert process.returncode == expect, f"exit {process.returncode}, not {expect}\n{out}\n{err}"
    return out if expect == 0 else out + err
