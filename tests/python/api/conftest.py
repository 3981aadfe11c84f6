"""One cluster of two nodes for all tests of this folder, and its drivers."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "runtime" / "python"
sys.path[:0] = [str(PACKAGE), str(ROOT / "scripts")]

from local_cluster import LocalCluster  # noqa: E402


class Labelled(LocalCluster):
    """Nodes with a label."""

    warm_flags = (*LocalCluster.warm_flags, "--label", "nvlink=left")


class Cluster:
    """The daemons, and a fresh name for each run."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.daemons = Labelled(folder / "cluster", nodes=2, resources="CPU=8", pass_env="PYTHONPATH")
        self._names = 0

    def name(self, what: str = "run") -> str:
        self._names += 1
        return f"{what}-{self._names}"

    def json(self, *arguments: object) -> dict:
        return self.daemons.json(*arguments)

    @property
    def environment(self) -> dict[str, str]:
        return {**self.daemons.env, "PYTHONPATH": str(PACKAGE)}


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    before = dict(os.environ)
    os.environ["PYTHONPATH"] = str(PACKAGE)  # the workers get it through their agents
    made = Cluster(tmp_path_factory.mktemp("api"))
    for name in ("RTRAIN_ADDRESS", "RTRAIN_TOKEN", "RTRAIN_CONTEXT", "RTRAIN_CA"):
        os.environ.pop(name, None)
    os.environ["RTRAIN_CONFIG"] = made.daemons.env["RTRAIN_CONFIG"]
    try:
        yield made
    finally:
        made.daemons.stop()
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture
def driver(cluster: Cluster, tmp_path: pathlib.Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a driver script in a separate folder and process."""
    started: list[subprocess.Popen[str]] = []

    def start(script: str, into: pathlib.Path | None = None, **files: str) -> subprocess.Popen[str]:
        folder = into or tmp_path / f"project-{len(started)}"
        folder.mkdir(exist_ok=into is not None)
        for name, text in files.items():
            (folder / f"{name}.py").write_text(textwrap.dedent(text))
        (folder / "driver.py").write_text(textwrap.dedent(script))
        process = subprocess.Popen(
            [sys.executable, "driver.py"],
            cwd=folder,
            env=cluster.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
