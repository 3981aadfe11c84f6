"""A fake agent for each test, and worker scripts that run as real processes with it."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator

import pytest
from fake_agent import FakeAgent
from left_behind import own_temporary_folder  # noqa: F401  # holds for every test below this folder

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "runtime" / "python"
sys.path.insert(0, str(PACKAGE))  # before any test imports rtrain, since an installed copy may be another version


def library() -> str:
    """Returns the library under test, which ctest names."""
    given = os.environ.get("RTRAIN_TEST_WORKER_LIB")
    return given or str(PACKAGE / "rtrain" / "_lib" / "librtrain_worker.so")


def clean_environment() -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("RTRAIN_")}
    return {**kept, "PYTHONPATH": str(PACKAGE), "RTRAIN_WORKER_LIB": library()}


class Worker:
    """A script in a separate process. `finish` waits for its end and returns its output."""

    def __init__(self, script: str | pathlib.Path, environment: dict[str, str]) -> None:
        program = [str(script)] if isinstance(script, pathlib.Path) else ["-c", textwrap.dedent(script)]
        self.process = subprocess.Popen(
            [sys.executable, *program],
            env={**clean_environment(), **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, expect: int = 0) -> str:
        out, err = self.process.communicate(timeout=120)
        assert self.process.returncode == expect, f"exit {self.process.returncode}\n{out}\n{err}"
        return out if expect == 0 else out + err

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()


@pytest.fixture
def agent(tmp_path: pathlib.Path) -> Iterator[FakeAgent]:
    fake = FakeAgent(tmp_path)
    yield fake
    fake.stop()


@pytest.fixture
def start(agent: FakeAgent) -> Iterator[Callable[..., Worker]]:
    started: list[Worker] = []

    def starter(script: str | pathlib.Path, rank: int = 0, **environment: str) -> Worker:
        started.append(Worker(script, {**agent.environment(rank), **environment}))
        return started[-1]

    yield starter
    for worker in started:
        if worker.process.poll() is None:
            worker.process.kill()
        worker.process.wait()
