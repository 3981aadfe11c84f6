"""Reads the driver's values about its GPUs, by NVML through ctypes and by `nvidia-smi`. Both the checks and workers use it.
It imports only the standard library, so that a worker can call it before it uses CUDA.
"""

import ctypes
import dataclasses
import shutil
import subprocess

LIBRARY = "libnvidia-ml.so.1"
_TEXT = 96
_SMI_FIELDS = "uuid,name,driver_version,pci.bus_id,memory.total,memory.free,temperature.gpu,mig.mode.current"


class NoNvml(Exception):
    """NVML is not usable. The text says why."""


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


@dataclasses.dataclass(frozen=True)
class Gpu:
    index: int
    uuid: str
    name: str
    memory_total: int  # bytes
    memory_used: int  # bytes, including the driver's own memory
    mig: bool


def _library():
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise NoNvml(f"{LIBRARY} cannot be loaded: {error}") from None
    code = library.nvmlInit_v2()
    if code != 0:
        raise NoNvml(f"NVML does not start: its error {code}")
    return library


def _text(call, *before):
    into = ctypes.create_string_buffer(_TEXT)
    return into.value.decode() if call(*before, into, _TEXT) == 0 else ""


def gpus():
    """Returns every GPU in NVML's order. Raises NoNvml if there is no driver."""
    library = _library()
    count = ctypes.c_uint(0)
    if library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
        raise NoNvml("NVML does not say how many GPUs there are")
    return [_gpu(library, index) for index in range(count.value)]


def _gpu(library, index):
    device, memory = ctypes.c_void_p(), _Memory()
    now, later = ctypes.c_uint(0), ctypes.c_uint(0)
    if library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(device)) != 0:
        raise NoNvml(f"GPU {index} does not answer")
    if library.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)) != 0:
        raise NoNvml(f"GPU {index} does not say how much of its memory is used")
    divided = library.nvmlDeviceGetMigMode(device, ctypes.byref(now), ctypes.byref(later)) == 0 and now.value == 1
    name, uuid = _text(library.nvmlDeviceGetName, device), _text(library.nvmlDeviceGetUUID, device)
    return Gpu(index, uuid, name, memory.total, memory.total - memory.free, divided)


def driver_version():
    return _text(_library().nvmlSystemGetDriverVersion)


def memory_used(uuid):
    """Bytes in use on the GPU `uuid`, by whichever process. NoNvml when no GPU has that name."""
    for gpu in gpus():
        if gpu.uuid == uuid:
            return gpu.memory_used
    raise NoNvml(f"no GPU is called {uuid}")


def smi():
    """Returns the same facts from `nvidia-smi`, a dict for each GPU (memory in MiB). Raises NoNvml if it is missing or
    fails.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        raise NoNvml("nvidia-smi is not on PATH")
    command = [program, f"--query-gpu={_SMI_FIELDS}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoNvml(f"nvidia-smi: {error}") from None
    if done.returncode != 0:
        raise NoNvml(f"nvidia-smi ended with {done.returncode}: {(done.stdout + done.stderr).strip()}")
    names = [name.replace(".", "_") for name in _SMI_FIELDS.split(",")]
    lines = [line.split(", ") for line in done.stdout.splitlines() if line.strip()]
    if any(len(line) != len(names) for line in lines):
        raise NoNvml(f"nvidia-smi answered otherwise than it was asked: {done.stdout[:200]!r}")
    return [dict(zip(names, line, strict=True)) for line in lines]
