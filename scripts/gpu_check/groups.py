"""The groups of checks. Run as a program it runs one group, in a process that can be killed. usage: python -m
gpu_check.groups GROUP OPTIONS
"""

import dataclasses
import importlib
import json
import os
import pathlib
import signal
import sys

from gpu_check import bounded
from gpu_check.rows import Rows

GROUPS = {  # in the order of the table
    "nvml": "what the agent says of the GPUs, beside nvidia-smi",
    "nccl": "ranks meet by NCCL: one worker, all GPUs of a node, two nodes, fit()",
    "cpp": "the same by a C++ worker that is compiled here",
    "fsdp": "DDP, FSDP, FSDP2 beside one process that shards nothing",
    "devices": "CUDA_VISIBLE_DEVICES, fractions of a GPU, MIG",
    "actors": "GPU actors and remote functions",
    "memory": "a killed worker's GPU memory is free before the next attempt",
    "checkpoint": "a large checkpoint: blocked time, throughput, restored bytes",
    "transfer": "batches copied to the device on a side stream",
    "speed": "first step and recovery, beside torchrun",
    "warm": "workers with GPUs that are forked (--warm): their GPU, torch.compile, first step and recovery beside torchrun",
}


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of a group."""

    work: str  # the group's folder
    rows: str  # the file for its rows
    cpu: int  # GPUs of the stand-in; 0: real ones
    checkpoint_gb: float

    @property
    def on_cpu(self):
        return self.cpu > 0

    @property
    def backend(self):
        """Returns the backend of the process group that is expected."""
        return "gloo" if self.on_cpu else "nccl"

    @property
    def device(self):
        return "cpu" if self.on_cpu else "cuda"


def command(group, options):
    """Returns the command that runs the group in a process of its own."""
    return [sys.executable, "-m", "gpu_check.groups", group, json.dumps(dataclasses.asdict(options))]


def _ended(_signal, _frame):
    raise SystemExit(1)  # runs the `finally` blocks that stop the daemons


def main():
    group, options = sys.argv[1], Options(**json.loads(sys.argv[2]))
    signal.signal(signal.SIGTERM, _ended)
    bounded.end_with_parent()
    for name in [name for name in os.environ if name.startswith("RTRAIN_") and name != "RTRAIN_BINARY"]:
        del os.environ[name]
    pathlib.Path(options.work).mkdir(parents=True)
    importlib.import_module(f"gpu_check.checks.{group}").check(Rows(group, options.rows), options)


if __name__ == "__main__":
    main()
