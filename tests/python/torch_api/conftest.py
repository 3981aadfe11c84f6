"""Two ranks as plain processes, started once for all tests that need them, since importing torch takes most of the
time.
"""

from __future__ import annotations

import json
import os
import pathlib
import socket
import subprocess
import sys
from typing import Any

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]


def rank_environment(rank: int, world: int, port: int) -> dict[str, str]:
    """Returns the variables that torchrun or an agent sets."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("RTRAIN_")}
    ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "MASTER_PORT": port}
    own = {"MASTER_ADDR": "127.0.0.1", "PYTHONPATH": str(ROOT / "runtime" / "python"), "OMP_NUM_THREADS": "1"}
    return {**kept, **own, **{name: str(value) for name, value in ranks.items()}}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def pair() -> list[dict[str, Any]]:
    """Returns the results of `two_ranks.py` on rank 0 and rank 1, by the name of its function."""
    port = free_port()
    ranks = [
        subprocess.Popen(
            [sys.executable, str(HERE / "two_ranks.py")],
            env=rank_environment(rank, 2, port),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    results = []
    try:
        for rank in ranks:
            out, err = rank.communicate(timeout=180)
            assert rank.returncode == 0, f"{out}\n{err}"
            results.append(json.loads(out.splitlines()[-1]))
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.kill()
                rank.wait()
    return results
