"""Finds the equipment of this machine: GPUs by the driver's list, a PyTorch with CUDA, the program; and reports what is
missing."""

import json
import os
import pathlib
import platform
import subprocess
import sys

from local_cluster import RTRAIN

from gpu_check import nvml

_TORCH = """
import json, torch
cuda = torch.cuda.is_available()
nccl = ".".join(map(str, torch.cuda.nccl.version())) if cuda and torch.distributed.is_nccl_available() else None
print(json.dumps({"version": torch.__version__, "cuda": torch.version.cuda, "gpus": torch.cuda.device_count() if cuda else 0, "nccl": nccl}))
"""


class Missing(Exception):
    """A requirement of all checks is missing. The text says which, and what to do."""


def gpus_or_reason():
    """Returns (the GPUs, ""), or ([], the reason why there is none) from NVML and nvidia-smi."""
    reasons = []
    try:
        gpus = nvml.gpus()
        if gpus:
            return gpus, ""
        reasons.append("NVML says that there are 0")
    except nvml.NoNvml as error:
        reasons.append(f"NVML says: {error}")
    try:
        reasons.append(f"nvidia-smi lists {len(nvml.smi())}")
    except nvml.NoNvml as error:
        reasons.append(str(error))
    return [], "; ".join(reasons)


def torch_facts():
    """Returns version, CUDA and NCCL of this interpreter's PyTorch, from a new process. Raises Missing if there is no
    PyTorch.
    """
    done = subprocess.run([sys.executable, "-c", _TORCH], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise Missing(f"{sys.executable} cannot use PyTorch: {last}; start this with the interpreter that has it")
    return json.loads(done.stdout.splitlines()[-1])


def require_program():
    """Returns the version of the program. Raises Missing if it, or the workers' library beside it, is missing or does not
    start here.
    """
    library = pathlib.Path(RTRAIN).resolve().parent / "librtrain_worker.so"
    for file in (pathlib.Path(RTRAIN), library):
        if not file.exists():
            raise Missing(f"{file} is not there: scripts/build makes it, RTRAIN_BINARY names another program")
    done = subprocess.run([RTRAIN, "version"], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise Missing(f"{RTRAIN} does not start here: {done.stderr.strip()}")
    return done.stdout.strip().splitlines()[0]


def require_cuda(facts):
    """Raises Missing if PyTorch has no CUDA or sees no GPU, or if this process is restricted to some GPUs."""
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        raise Missing("CUDA_VISIBLE_DEVICES is set here, and rows compare with all GPUs that nvidia-smi lists: unset it")
    if facts["cuda"] is None:
        raise Missing(f"there are GPUs, but PyTorch {facts['version']} of {sys.executable} has no CUDA; use one that has")
    if facts["gpus"] == 0:
        raise Missing(f"there are GPUs, but PyTorch {facts['version']} (CUDA {facts['cuda']}) finds none; is the driver older?")


def line(gpus, facts, program):
    """Returns the line above the table."""
    names = sorted({gpu.name for gpu in gpus})
    devices = f"{len(gpus)} x {', '.join(names)}, driver {nvml.driver_version()}; " if gpus else ""
    nccl = f", NCCL {facts['nccl']}" if facts["nccl"] else ""
    cpus = len(os.sched_getaffinity(0))
    return f"{devices}PyTorch {facts['version']}{nccl}; Python {platform.python_version()}; {cpus} CPUs; {program}"
