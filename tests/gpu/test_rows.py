"""Tests every group of scripts/gpu-check except `cpp` on the CPU with two GPUs of the stand-in: each row is ok, or requires
a real GPU.
"""

from collections import Counter

from gpu_check.groups import GROUPS
from gpu_check_run import NEEDS_GPU, checked

ROWS = {
    "nvml": 3,
    "nccl": 4,
    "fsdp": 8,
    "devices": 6,
    "actors": 4,
    "memory": 2,
    "checkpoint": 3,
    "transfer": 3,
    "speed": 2,
    "warm": 5,
}


def test_no_group_is_left_out():
    assert [*ROWS, "cpp"] == sorted(GROUPS, key=[*ROWS, "cpp"].index)
    assert {group for group, _ in NEEDS_GPU} <= set(ROWS)


def test_every_row_is_ok_or_needs_a_gpu(tmp_path):
    rows = checked(ROWS, tmp_path)
    assert Counter(group for group, _ in rows) == ROWS
    assert rows["nvml", "UUIDs"]["seen"].startswith("GPU-57a4d140-0000-0000-0000-000000000000, ")
    assert rows["checkpoint", "bytes after a kill"]["seen"].startswith("20,000,000 of 20,000,000 equal")
