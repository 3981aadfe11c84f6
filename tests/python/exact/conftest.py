"""Groups of ranks started by the test: torchrun's environment, one process for each rank, a free port."""

import os
import pathlib
import socket
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "runtime" / "python"))


@pytest.fixture
def probe():
    """Returns the C++ rank that ctest names."""
    return os.environ["RTRAIN_TORCH_PROBE"]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture
def run_ranks():
    """Runs one command per rank together. All must succeed."""
    started = []

    def run(*commands):
        port = free_port()
        for rank, command in enumerate(commands):
            environment = {
                **os.environ,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(len(commands)),
                "LOCAL_WORLD_SIZE": str(len(commands)),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "TORCHELASTIC_USE_AGENT_STORE": "False",
                "OMP_NUM_THREADS": "1",
                "GLOO_SOCKET_IFNAME": "lo",
                "PYTHONPATH": str(ROOT / "runtime" / "python"),
            }
            words = [str(word) for word in command]
            started.append(subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        for process in started[-len(commands) :]:
            output, _ = process.communicate(timeout=300)
            assert process.returncode == 0, output.decode()

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()
