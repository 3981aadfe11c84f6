"""Code that several rows use: paths, job specs, and readings of processes and of metrics."""

import json
import os
import pathlib
import re

from local_cluster import ROOT

JOBS = ROOT / "tests" / "bench" / "jobs"
BUILD = ROOT / "build" / "release"
PYTHON = ROOT / ".venv" / "bin" / "python"


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def job(folder, name, entrypoint, workers, **extra):
    """Writes a job spec (as JSON, which is YAML) and returns its path."""
    spec = {"version": 1, "name": name, "entrypoint": entrypoint, "scaling": {"workers": workers}, **extra}
    path = pathlib.Path(folder) / f"{name}.yaml"
    path.write_text(json.dumps(spec))
    return path


def finished(cluster, name, seconds=300):
    cluster.wait_state(name, "SUCCEEDED", "FAILED", "STOPPED", seconds=seconds)
    lines = cluster.rtrain("logs", name, "--rank", "all")
    facts = cluster.json("describe", name)
    if facts["state"] != "SUCCEEDED":
        raise SystemExit(f"bench: {name} is {facts['state']}: {facts['reason']}\n{lines}")
    return lines


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def loop_seconds(pid):
    """Returns the loop thread's seconds on a core, and its seconds of waiting for one."""
    with open(f"/proc/{pid}/task/{pid}/schedstat") as schedstat:
        ran, waited, _ = schedstat.read().split()
    return int(ran) / 1e9, int(waited) / 1e9


def memory_mib(pid, field):
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(rf"^{field}:\s+(\d+)", status.read(), re.M).group(1)) / 1024


def pss_mib(pid):
    return int(re.search(r"^Pss:\s+(\d+)", pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)[1]) / 1024


def buckets(text, name):
    """Returns the cumulative counts of a histogram without labels, by upper bound."""
    rows = re.findall(rf'^rtrain_{name}_bucket{{le="([^"]+)"}} (\d+)$', text, re.M)
    return [(float(bound), int(count)) for bound, count in rows]


def histogram_quantile(before, after, share):
    """Returns a quantile between two scrapes in milliseconds, with linear interpolation within a bucket, as in Prometheus."""
    counts = [(bound, late - early) for (bound, late), (_, early) in zip(after, before, strict=True)]
    wanted, lower, below = share * counts[-1][1], 0.0, 0
    for bound, count in counts:
        if count >= wanted:
            inside = (wanted - below) / max(1, count - below)
            return 1e3 * (lower if bound == float("inf") else lower + (bound - lower) * inside)
        lower, below = bound, count
    return 1e3 * lower
