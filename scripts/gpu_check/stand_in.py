"""`--cpu`: replaces the driver by a library with NVML's functions (tests/gpu/stand_in/nvml.c) and an `nvidia-smi` that uses
it, so that agents offer GPUs and every check runs on the CPU. Run as a program it is that `nvidia-smi`.
"""

import os
import pathlib
import shutil
import subprocess
import sys

from gpu_check import nvml

FOLDER_VARIABLE = "GPU_CHECK_STAND_IN"
_SMI = """#!/bin/sh
exec "{python}" -m gpu_check.stand_in "$@"
"""


class CannotStandIn(Exception):
    """The stand-in cannot be made. The text says what it needs."""


def make(folder, count, root):
    """Makes a driver with `count` GPUs below `folder`. Returns the environment in which processes find it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise CannotStandIn("--cpu needs a C compiler (cc) for its stand-in of NVML")
    folder.mkdir(parents=True)
    source = root / "tests" / "gpu" / "stand_in" / "nvml.c"
    command = [compiler, "-std=gnu11", "-O1", "-shared", "-fPIC", "-o", folder / nvml.LIBRARY, source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise CannotStandIn(f"the stand-in of NVML does not compile: {done.stderr}")
    (folder / "count").write_text(str(count))
    smi = folder / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(_SMI.format(python=sys.executable))
    smi.chmod(0o755)
    before = os.environ.get("LD_LIBRARY_PATH", "")
    return {
        FOLDER_VARIABLE: str(folder),
        "LD_LIBRARY_PATH": f"{folder}:{before}" if before else str(folder),
        "PATH": f"{smi.parent}:{os.environ['PATH']}",
    }


def take(uuid, count):
    """Imitates an allocation of `count` bytes on the GPU `uuid`: it lasts as long as this process."""
    held = pathlib.Path(os.environ[FOLDER_VARIABLE]) / uuid / str(os.getpid())
    held.parent.mkdir(exist_ok=True)
    held.write_text(str(count))


def _smi(arguments):
    fields = next(argument for argument in arguments if argument.startswith("--query-gpu=")).partition("=")[2].split(",")
    mib = 1 << 20
    for gpu in nvml.gpus():
        known = {
            "uuid": gpu.uuid,
            "name": gpu.name,
            "driver_version": nvml.driver_version(),
            "pci.bus_id": f"00000000:{gpu.index + 1:02X}:00.0",
            "memory.total": gpu.memory_total // mib,
            "memory.free": (gpu.memory_total - gpu.memory_used) // mib,
            "temperature.gpu": 40,
            "mig.mode.current": "Disabled",
        }
        print(", ".join(str(known[field]) for field in fields))


if __name__ == "__main__":
    _smi(sys.argv[1:])
