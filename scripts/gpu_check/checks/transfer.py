"""Batches on their way to the device: through `prepare_data_loader` on a side stream, and through `iter_torch_batches`."""

import importlib.util
import pathlib

from gpu_check.cluster import GpuCluster
from gpu_check.rows import Skip, Wrong

OVERLAP = 0.85  # relative to the time without a side stream; computing takes as long as copying, so 0.5 would be perfect


def check(rows, options):
    cluster = GpuCluster(pathlib.Path(options.work) / "cluster")
    result = None
    try:
        with rows.row("values through the side stream", "every batch as it was made, with a busy device") as seen:
            cluster.submit("stream", "side_stream.py")
            result = cluster.results("stream")[0]
            values(result, options, seen)
        with rows.row("copy and computing overlap", f"at most {OVERLAP:g} x the time without a side stream") as seen:
            overlap(result, options, seen)
        with rows.row("iter_torch_batches, page-locked", "every row as it was made") as seen:
            iterated(cluster, options, seen)
    finally:
        cluster.stop()


def values(result, options, seen):
    seen.append(f"{result['wrong']} of {result['batches']} wrong, on {result['device']}")
    if result["wrong"] or result["device"] != options.device:
        raise Wrong("a batch held something else, or lay elsewhere")


def overlap(result, options, seen):
    if result is None:
        raise Skip("needs the row before")
    if options.on_cpu:
        raise Skip("needs a GPU: the CPU has no streams")
    share = result["ahead"] / result["plain"]
    rate = result["bytes"] / 1e9 / result["copy"]
    seen.append(
        f"{share:.2f} x ({result['ahead'] * 1e3:.0f} ms and {result['plain'] * 1e3:.0f} ms an epoch), copy {rate:.1f} GB/s"
    )
    if share > OVERLAP:
        raise Wrong("the copy does not overlap")


def iterated(cluster, options, seen):
    missing = [name for name in ("numpy", "pyarrow") if importlib.util.find_spec(name) is None]
    if missing:
        raise Skip(f"needs the Python packages {', '.join(missing)}")
    cluster.submit("iterated", "dataset_batches.py")
    result = cluster.results("iterated")[0]
    seen.append(f"{result['rows']} rows in {result['batches']} batches on {result['device']}, {result['wrong']} wrong")
    if result["wrong"] or result["rows"] != result["wanted"] or result["device"] != options.device:
        raise Wrong("these are not the rows that were made")
