"""Checks a large checkpoint of tensors on the device: how long it blocks the loop, how fast it is committed compared with a
plain copy of the file, and whether the next attempt reads the same bytes after a kill.
"""

import pathlib
import shutil

from gpu_check.cluster import GpuCluster
from gpu_check.rows import Skip, Wrong

_GB = 1e9
ROOM = 3.5  # times the size of the checkpoint: the checkpoint, the copy beside it, and the overhead of the file system
JUDGED_GB = 1.0  # times of smaller checkpoints are not judged
BLOCKED_SHARE, COMMIT_SHARE = 0.1, 1.5  # relative to the time of a plain copy with fsync


def check(rows, options):
    work = pathlib.Path(options.work)
    size = options.checkpoint_gb
    cluster = GpuCluster(work / "cluster")
    saved = None
    try:
        with rows.row(f"{size:g} GB committed", f"in at most {COMMIT_SHARE:g} x the time of a plain copy") as seen:
            saved = save(cluster, size, options)
            committed(saved, size, seen)
        with rows.row("the loop is blocked", f"for at most {BLOCKED_SHARE:g} x a plain copy") as seen:
            blocked(need(saved), size, seen)
        with rows.row("bytes after a kill", "all as they were saved") as seen:
            restored(cluster, need(saved), seen)
    finally:
        cluster.stop()


def need(saved):
    if saved is None:
        raise Skip("needs the row before")
    return saved


def save(cluster, size, options):
    free = shutil.disk_usage(options.work).free / _GB
    if free < ROOM * size:
        raise Skip(f"needs {ROOM * size:.0f} GB of disk in {options.work} and there are {free:.0f}: --dir names another place")
    runs = cluster.facts / "runs"
    runs.mkdir()
    spec = {"storage_path": str(runs), "failure": {"max_failures": 1, "backoff": "1ms"}}
    cluster.submit("big", "big_checkpoint.py", int(size * _GB), **spec)
    saved = cluster.fact("big", "saved", within=400)
    if saved["device"] != options.device:
        raise Wrong(f"its tensors were on {saved['device']}")
    return saved


def committed(saved, size, seen):
    took = saved["blocked"] + saved["commit"]
    rate = saved["bytes"] / _GB / took
    seen.append(f"{took:.2f} s ({rate:.2f} GB/s), plain copy {saved['copy']:.2f} s, torch.save {saved['save']:.2f} s")
    judge(took / saved["copy"], COMMIT_SHARE, size, seen)


def blocked(saved, size, seen):
    seen.append(f"{saved['blocked'] * 1e3:.1f} ms, plain copy {saved['copy'] * 1e3:.0f} ms")
    judge(saved["blocked"] / saved["copy"], BLOCKED_SHARE, size, seen)


def judge(share, most, size, seen):
    seen.append(f"{share:.3f} x")
    if size < JUDGED_GB:
        seen.append(f"not judged below {JUDGED_GB:g} GB")
    elif share > most:
        raise Wrong(f"it took {share:.2f} x a plain copy")


def restored(cluster, saved, seen):
    result = cluster.fact("big", "result", attempt=2, within=400)
    cluster.finished("big")
    seen.append(f"{result['equal']:,} of {saved['bytes']:,} equal, read in {result['seconds']:.2f} s")
    if result["equal"] != saved["bytes"] or result["metrics"]["piece"] != result["pieces"]:
        raise Wrong("the next attempt got something else")
