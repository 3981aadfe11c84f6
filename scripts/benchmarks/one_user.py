"""`scripts/bench hostile-reports`, `hostile-causes`, `hostile-arrays`: measure the effect of one user's stored data on other
users.

On a cluster with one node an ordinary user makes the head store much data: reports of a megabyte, causes of failure of 256
KiB, thousands of waiting runs. Then the user requests all of it repeatedly. Meanwhile another user requests the status.
Sizes can be
changed: RTRAIN_BENCH_MEGABYTES (reports), RTRAIN_BENCH_SECONDS (of attack), RTRAIN_BENCH_ARRAYS.
"""

import contextlib
import json
import os
import re
import threading
import time

from local_cluster import LocalCluster

from benchmarks.hostile import Hostile, stalls
from benchmarks.measures import JOBS

MEGABYTES = int(os.environ.get("RTRAIN_BENCH_MEGABYTES", "300"))
SECONDS = int(os.environ.get("RTRAIN_BENCH_SECONDS", "20"))
ARRAYS = int(os.environ.get("RTRAIN_BENCH_ARRAYS", "20"))
ATTACKERS = 4


def resident_mib(pid):
    status = open(f"/proc/{pid}/status").read()  # noqa: SIM115
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) / 1024


class Watch:
    """Measures another user's answers and the head's memory, while several connections repeat `attack` for some seconds."""

    def __init__(self, cluster, connect, token, attack, seconds=SECONDS):
        self.millis, self.most_mib, self.statuses, self.ended = [], 0.0, {}, threading.Event()
        pid = cluster.daemons["head"].pid
        attackers = [threading.Thread(target=self.attack, args=(connect, token, attack, number)) for number in range(ATTACKERS)]
        for thread in attackers:
            thread.start()
        head, until = connect(), time.monotonic() + seconds
        while time.monotonic() < until:
            begin = time.perf_counter()
            head.call("GET", "/v1/status")
            self.millis.append(1e3 * (time.perf_counter() - begin))
            self.most_mib = max(self.most_mib, resident_mib(pid))
            time.sleep(0.005)
        self.ended.set()
        for thread in attackers:
            thread.join()
        self.millis.sort()
        self.turn = stalls(head)
        self.lost = json.loads(head.call("GET", "/v1/status"))["nodes"].get("LOST", 0)

    def attack(self, connect, token, attack, number):
        user = connect(token)
        count = 0
        while not self.ended.is_set():
            for method, path, body in attack(number, count):
                status = user.send_and_read(method, path, body)
                self.statuses[status] = self.statuses.get(status, 0) + 1
            count += 1
        user.close()

    def summary(self):
        p99 = self.millis[int(len(self.millis) * 0.99)]
        return (
            f"turn {self.turn['cpu']:.1f} ms CPU ({self.turn['wall']:.1f} ms wall); another's answer p99 {p99:.1f} ms; head at most "
            f"{self.most_mib:.0f} MiB; {self.lost} nodes LOST; load {os.getloadavg()[0]:.1f}"
        )


@contextlib.contextmanager
def cluster_with_user(folder):
    cluster = LocalCluster(folder, nodes=1, resources="CPU=4")
    try:
        admin, user = (
            cluster.json("token", "create", "--role", role, "--user", name)["token"]
            for role, name in (("admin", "bench"), ("user", "eve"))
        )
        ca = str(cluster.folder / "head" / "ca.crt")
        yield cluster, lambda token=admin: Hostile(cluster.port, ca, token), user
    finally:
        cluster.stop()


def submitted(connect, token, name, entrypoint, **fields):
    user = connect(token)
    job = {"version": 1, "name": name, "entrypoint": entrypoint, **fields}
    answer = json.loads(user.call("POST", "/v1/runs", {"job": job}))
    user.close()
    return answer


def hostile_reports(work):
    """300 reports of 1 MB, asked for as pages of 1,000 by 4 connections: a turn of the loop <= 50 ms of CPU; another's answer p99 <= 100 ms; head <= 300 MiB; nobody LOST"""
    with cluster_with_user(work / "hostile-reports") as (cluster, connect, user):
        submitted(connect, user, "large", ["python", str(JOBS / "large_reports.py"), str(MEGABYTES)])
        cluster.wait_state("large", "SUCCEEDED", seconds=600)
        cursors = {}

        def pages(number, count):
            path = f"/v1/runs/large/metrics?limit=1000&after={cursors.get(number, 0)}"
            cursors[number] = (cursors.get(number, 0) + 4) % MEGABYTES
            yield "GET", path, None
            yield "GET", "/v1/runs?limit=1000&all", None

        watch = Watch(cluster, connect, user, pages)
    return (
        watch.summary(),
        f"{MEGABYTES} reports; answers by status: {watch.statuses}; {len(watch.millis)} answers to the other user",
    )


def hostile_causes(work):
    """runs that fail at once with 256 KiB of cause and 1,000,000 allowed failures, their attempts asked for: a turn of the loop <= 50 ms of CPU; another's answer p99 <= 100 ms; head <= 300 MiB; nobody LOST"""
    with cluster_with_user(work / "hostile-causes") as (cluster, connect, user):
        for number in range(4):
            failure = {"max_failures": 1_000_000, "backoff": "1ms", "avoid_bad_nodes": False}
            submitted(connect, user, f"fails-{number}", ["python", str(JOBS / "fails_with_much.py")], failure=failure)

        def attempts(number, count):
            yield "GET", f"/v1/runs/fails-{number % 4}/attempts?limit=1000", None
            yield "GET", "/v1/events?last=1000", None

        watch = Watch(cluster, connect, user, attempts)
        head = connect()
        failures = sum(json.loads(head.call("GET", f"/v1/runs/fails-{number}"))["failures"] for number in range(4))
        database = sum(path.stat().st_size for path in (cluster.folder / "head").glob("state.db*"))
    return (
        watch.summary(),
        f"{failures} failures in {SECONDS} s; database {database / 2**20:.0f} MiB; answers by status: {watch.statuses}",
    )


def hostile_arrays(work):
    """20 job arrays of 10,000 runs by one user, then single runs with fresh names, and /metrics: a turn of the loop <= 50 ms of CPU; another's answer p99 <= 100 ms; head <= 300 MiB; nobody LOST"""
    with cluster_with_user(work / "hostile-arrays") as (cluster, connect, user):
        never = {"resources_per_worker": {"CPU": 1_000_000}}

        def arrays(number, count):
            job = {"version": 1, "name": f"a{number}-{count}", "entrypoint": ["true"], "scaling": never}
            if count * ATTACKERS + number < ARRAYS:
                yield "POST", "/v1/runs", {"job": job, "array": "0-9999"}
            else:
                yield "POST", "/v1/runs", {"job": {**job, "name": "fresh"}, "new": True}
                yield "GET", "/metrics", None

        watch = Watch(cluster, connect, user, arrays)
        head = connect()
        page = len(head.call("GET", "/metrics"))
        waiting = json.loads(head.call("GET", "/v1/status"))["runs"].get("QUEUED", 0)
    return watch.summary(), f"{waiting} runs wait; /metrics {page / 1e6:.1f} MB; answers by status: {watch.statuses}"
