"""Each module of the package can be the first import of a process: outside of a run, in a worker, in a warm worker."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest
from public_modules import PACKAGE, public_modules

# A separate child process imports each module. It has loaded only the modules that a worker loads before its loop.
CHILDREN = """
import importlib, os, sys, traceback
if sys.argv[1] == "warm":
    import torch
for name in sys.argv[2:]:
    child = os.fork()
    if child == 0:
        outcome = "fails"
        try:
            if sys.argv[1] != "outside":
                from rtrain.train import _worker_main
                from rtrain.train._archive._package import Payload
                _worker_main._TorchGroup(Payload({"torch": True}, {})).watch()
            importlib.import_module(name)
            torch = sys.modules.get("torch")
            joined = torch is not None and torch.distributed.is_initialized()
            outcome = "has joined a group" if joined else "has torch and no group" if torch else "is imported"
        except ModuleNotFoundError as error:
            if error.name and not error.name.startswith("rtrain"):
                outcome = "needs " + error.name
            else:
                traceback.print_exc()
        except BaseException:
            traceback.print_exc()
        print(name, outcome, flush=True)
        sys.stderr.flush()
        os._exit(0)
    os.waitpid(child, 0)
"""
WITH_TORCH = ["rtrain._to_device", "rtrain.data._torch", "rtrain.train.tensors", "rtrain.train.torch"]


def private_modules_with_torch() -> list[str]:
    """Returns the private modules that import torch. Some public function imports each of them first."""
    names = []
    for file in sorted((PACKAGE / "rtrain").rglob("*.py")):
        name = ".".join(file.relative_to(PACKAGE).with_suffix("").parts)
        if "._" in name and not name.endswith("__") and "\nimport torch" in file.read_text():
            names.append(name)
    return names


def outcomes(place: str) -> dict[str, str]:
    """Returns the result of the import of each module."""
    names = [*public_modules(), *private_modules_with_torch()]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    ranks = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RTRAIN_BACKEND": "gloo"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RTRAIN_")}
    done = subprocess.run(
        [sys.executable, "-c", CHILDREN, place, *names],
        env={**kept, "PYTHONPATH": str(PACKAGE), **(ranks if place != "outside" else {})},
        capture_output=True,
        text=True,
        timeout=600,
    )
    outcome_of = dict(line.split(" ", maxsplit=1) for line in done.stdout.splitlines())
    assert list(outcome_of) == names, done.stderr
    assert [name for name in names if outcome_of[name] == "fails"] == [], done.stderr
    return outcome_of


@pytest.mark.parametrize("place", ["outside", "worker", "warm"])
def test_each_module_is_imported_first_and_alone(place: str) -> None:
    pytest.importorskip("torch")
    outcome_of = outcomes(place)
    expected = {
        "outside": {"is imported", "has torch and no group"},
        "worker": {"is imported", "has joined a group"},
        "warm": {"has joined a group"},
    }
    others = {name: outcome for name, outcome in outcome_of.items() if not outcome.startswith("needs ")}
    assert set(others.values()) == expected[place] and set(WITH_TORCH) <= set(others)


def test_importing_the_package_loads_nothing_heavy() -> None:
    """Checks that neither the libraries of datasets and models nor the client of the head with its TLS are loaded."""
    heavy = {"torch", "numpy", "pyarrow", "ssl", "http.client", "asyncio", "cloudpickle"}
    check = f"import sys; from rtrain import train, tune; sys.exit(', '.join({heavy} & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", check], env={"PYTHONPATH": str(PACKAGE)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
