"""Measures charts of a run with a million reports: the time of a chart at several zooms, compared with reading a page of the
reports, and the disk space of the levels.
"""

import json
import os
import statistics
import time

from local_cluster import LocalCluster

from benchmarks.load import Connection
from benchmarks.measures import JOBS, cpu_seconds

COUNT = int(os.environ.get("RTRAIN_BENCH_REPORTS", 1_000_000))
JOB = JOBS / "curves.py"
KEYS = ("loss", "tokens")
ZOOMS = (1, 3, 10, 100, 1_000, 10_000)  # number of parts into which the run is divided
POINTS = 1_000


def history(work):
    """charts of 1,000,000 reports: < 100 ms at any zoom, levels add < 20 % of the reports' disk"""
    cluster = LocalCluster(work / "charts", nodes=1, resources="CPU=1")
    try:
        seconds = run_reports(cluster, work)
        admin = cluster.json("token", "create", "--role", "admin", "--user", "bench")["token"]
        head = Connection(cluster.port, str(cluster.folder / "head" / "ca.crt"), admin)
        behind, _ = milliseconds(head, "/v1/runs/charts/metrics/history")
        settled(head, "/v1/runs/charts/metrics/history", COUNT)
        used = cpu_seconds(cluster.daemons["head"].pid)
        times = {zoom: looks(head, zoom) for zoom in ZOOMS}
        used = (cpu_seconds(cluster.daemons["head"].pid) - used) / sum(map(len, times.values()))
        page = milliseconds(head, f"/v1/runs/charts/metrics?key=loss&limit=1000&after={COUNT // 2}")[0]
        peer = whole_run_by_pages(head)
        head.close()
        cluster.daemons["head"].terminate()
        cluster.daemons.pop("head").wait(60)
        reports, levels = (size_of(cluster.folder / "head", name) for name in ("state.db", "history.db"))
    finally:
        cluster.stop()
    worst = max(max(values) for values in times.values())
    reached = f"{worst:.0f} ms at most; {100 * levels / reports:.1f} % of the reports' disk"
    zooms = ", ".join(f"{COUNT // zoom:,} reports {statistics.median(values):.1f} ms" for zoom, values in times.items())
    how = (
        f"{COUNT:,} reports of 5 numbers, {1e6 * seconds / COUNT:.0f} us each; {POINTS} points asked for; medians: {zooms}; {1e3 * used:.1f} ms of the head's CPU each; first question after the run {behind:.0f} ms; "
        f"state.db {reports / 1e6:.1f} MB, history.db {levels / 1e6:.1f} MB; peer: a page of 1,000 reports {page:.0f} ms, all pages {peer:.0f} s"
    )
    return reached, how


def run_reports(cluster, work):
    spec = work / "charts.yaml"
    spec.write_text(
        f"version: 1\nname: charts\nentrypoint: [python, {JOB}, '{COUNT}']\nstorage_path: {work / 'chart-runs'}\nscaling: {{workers: 1}}\n"
    )
    begin = time.monotonic()
    cluster.rtrain("submit", spec)
    cluster.wait_state("charts", "SUCCEEDED", seconds=3600)
    return time.monotonic() - begin


def settled(head, path, last):
    """Checks that every report is in the levels. The first request returns when the thread has processed all of them."""
    answer = json.loads(head.call("GET", path))
    if answer["last"] != last or answer["keys"] != sorted(("loss", "learning_rate", "grad_norm", "step_seconds", "tokens")):
        raise SystemExit(f"bench: the history has {answer}")


def looks(head, zoom):
    """Returns the milliseconds of the charts of a part, at several places of the run. Checks the order of each chart's
    numbers.
    """
    width, out = COUNT // zoom, []
    for part in range(min(zoom, 12)):
        begin = 1 + (zoom - 1) * width * part // max(1, min(zoom, 12) - 1)
        for key in KEYS:
            took, answer = milliseconds(
                head, f"/v1/runs/charts/metrics/history?key={key}&from={begin}&to={begin + width - 1}&points={POINTS}"
            )
            points = answer["points"]
            least = min(width, POINTS) // 17  # a level is at most sixteen times coarser than the next
            if not least <= len(points["min"]) <= POINTS or any(
                low > high for low, high in zip(points["min"], points["max"], strict=True)
            ):
                raise SystemExit(f"bench: {width} reports from {begin}: {len(points['min'])} points")
            out.append(took)
    return out


def milliseconds(head, path):
    begin = time.perf_counter()
    answer = json.loads(head.call("GET", path))
    return 1e3 * (time.perf_counter() - begin), answer


def whole_run_by_pages(head):
    """Returns the seconds of reading all pages, which a chart without levels would need, estimated from a twentieth of them."""
    begin = time.perf_counter()
    after = 0
    for _ in range(COUNT // 20_000):
        after = json.loads(head.call("GET", f"/v1/runs/charts/metrics?key=loss&limit=1000&after={after}"))["items"][-1][
            "position"
        ]
    return 20 * (time.perf_counter() - begin)


def size_of(folder, name):
    return sum(file.stat().st_blocks * 512 for file in folder.glob(name + "*"))
