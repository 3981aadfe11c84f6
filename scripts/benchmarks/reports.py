"""Measures a report for each batch of a long training: disk space and daemons' memory for a million reports, and that none
is missing.
"""

import os
import pathlib
import sys
import time

from local_cluster import ROOT, LocalCluster

from benchmarks.measures import JOBS, pss_mib

COUNT = int(os.environ.get("RTRAIN_BENCH_REPORTS", 1_000_000))
JOB = JOBS / "report.py"


def million_reports(work):
    """1,000,000 reports of 2 workers: <= 150 MB on disk, the head's memory does not grow with them, all rows come back"""
    runs = work / "million-runs"
    runs.mkdir()
    cluster = LocalCluster(work / "million", nodes=1, resources="CPU=2")
    try:
        memory = {name: pss_mib(daemon.pid) for name, daemon in cluster.daemons.items()}
        files = size_of(cluster.folder)
        seconds, halfway = run_reports(cluster, work, runs)
        grown = {name: pss_mib(daemon.pid) - memory[name] for name, daemon in cluster.daemons.items()}
        head, journal = size_of(cluster.folder) - files, size_of(runs)
        begin = time.monotonic()
        rows = rows_of(runs / "million")
        read = time.monotonic() - begin
    finally:
        cluster.stop()
    reached = f"{(head + journal) / 1e6:.0f} MB, head +{grown['head']:.1f} MiB, {rows:,} rows"
    how = f"journal {journal / 1e6:.0f} MB, daemons' data {head / 1e6:.0f} MB; {1e6 * seconds / COUNT:.0f} us a report; agent +{grown['node-1']:.1f} MiB; head +{halfway - memory['head']:.1f} MiB at half of them; all read back in {read:.0f} s"
    return reached, how


def run_reports(cluster, work, runs):
    """Returns the seconds, and the head's memory after half of the reports."""
    spec = work / "million.yaml"
    spec.write_text(
        f"version: 1\nname: million\nentrypoint: [python, {JOB}, '{COUNT}']\nstorage_path: {runs}\nscaling: {{workers: 2}}\n"
    )
    begin, halfway = time.monotonic(), 0.0
    cluster.rtrain("submit", spec)
    while True:
        facts = cluster.json("describe", "million")
        if facts["state"] not in ("QUEUED", "STARTING", "RUNNING"):
            break
        if not halfway and (facts.get("last_report") or {}).get("index", 0) >= COUNT // 2:
            halfway = pss_mib(cluster.daemons["head"].pid)
        if time.monotonic() - begin > 1800:
            raise SystemExit("bench: a million reports took more than half an hour")
        time.sleep(1)
    if facts["state"] != "SUCCEEDED":
        raise SystemExit(f"bench: million is {facts['state']}: {facts['reason']}")
    return time.monotonic() - begin, halfway


def rows_of(directory):
    sys.path.insert(0, str(ROOT / "runtime" / "python"))
    from rtrain.train import Result

    rows = Result.from_path(directory).all_metrics
    if any(row["number"] != place for place, row in enumerate(rows)):
        raise SystemExit("bench: rows are missing or out of order")
    return len(rows)


def size_of(folder):
    """Bytes on disk, without the daemons' own logs."""
    return sum(
        file.stat().st_blocks * 512 for file in pathlib.Path(folder).rglob("*") if file.is_file() and file.suffix != ".log"
    )
