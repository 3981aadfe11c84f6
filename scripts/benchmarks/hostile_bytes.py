"""`scripts/bench hostile-bytes`: one user stores values and reports at the head as fast as possible.

The head's data are on a separate disk (a tmpfs, as root), so that the user reaches the limit and the reserve. Meanwhile
another user requests the status and stores small values repeatedly: these requests are measured as those of "others". Run as
a program, it is the user who stores values: hostile_bytes.py PORT CA TOKEN SECONDS; prints {status: count}.
"""

import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

from local_cluster import LocalCluster, wait_for

from benchmarks.hostile import Hostile, stalls
from benchmarks.load import NICE, started_aside

DISK = os.environ.get("RTRAIN_BENCH_DISK", "2g")
SECONDS, PUTTERS, VALUE_BYTES, REPORT_BYTES = 30, 4, 4 << 20, 500_000
FLOOD = f"""
import os, time
from rtrain import train
noise, until, step = os.urandom({REPORT_BYTES // 2}).hex(), time.monotonic() + {SECONDS}, 0
while time.monotonic() < until:
    step += 1
    train.report({{"step": step, "noise": noise}})
print("reports", step)
"""


def peak_mib(pid):
    return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) / 1024


class Other:
    """Another user's requests: the milliseconds of each, and statuses that are not 2xx."""

    def __init__(self, connect):
        self.head, self.millis, self.refused, self.ended = connect(), [], collections.Counter(), threading.Event()
        self.thread = threading.Thread(target=self.request_status)
        self.thread.start()

    def request_status(self):
        number = 0
        while not self.ended.wait(0.01):
            number += 1
            for method, path, body in (("GET", "/v1/status", None), ("PUT", f"/v1/runs/others/values/v{number % 100}", number)):
                begin = time.perf_counter()
                status = self.head.send_and_read(method, path, body)
                self.millis.append(1e3 * (time.perf_counter() - begin))
                if status >= 300 or status == 0:
                    self.refused[status] += 1

    def end(self):
        self.ended.set()
        self.thread.join()
        self.millis.sort()

    def quantile(self, share):
        return self.millis[int(len(self.millis) * share)]


def submit(connect, name, entrypoint, folder):
    head = connect()
    spec = {"version": 1, "name": name, "entrypoint": entrypoint, "storage_path": str(folder)}
    head.call("POST", "/v1/runs", {"job": spec})


def hostile_bytes(work):
    """one user's values (4 connections, 4 MiB each) and reports (500 KB each) at full speed for 30 s beside another user: a turn of the loop <= 50 ms; another's answer p99 <= 100 ms; memory <= 300 MiB; the reserve is kept; nobody LOST"""
    disk = work / "hostile-bytes"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "hostile", str(disk)], check=True)
    cluster = None
    try:
        cluster = LocalCluster(disk / "cluster", nodes=0)
        place, cluster.folder = cluster.folder, work / "hostile-bytes-nodes"
        cluster.folder.mkdir()
        for name in ("node-1", "node-2"):
            cluster.join(name, "CPU=2")
        cluster.folder = place
        wait_for("2 nodes", lambda: cluster.ready_nodes() == 2)
        return measured(cluster, disk, work)
    finally:
        if cluster:
            cluster.stop()
        subprocess.run(["umount", "-l", str(disk)], check=True)


def measured(cluster, disk, work):
    ca, pid = str(cluster.folder / "head" / "ca.crt"), cluster.daemons["head"].pid
    tokens = {user: cluster.json("token", "create", "--role", "user", "--user", user)["token"] for user in ("ann", "bob")}
    ann, bob = ((lambda token=tokens[user]: Hostile(cluster.port, ca, token)) for user in ("ann", "bob"))
    script = work / "floods.py"
    script.write_text(FLOOD)
    submit(bob, "others", ["sleep", "600"], work)
    cluster.wait_state("others", "RUNNING")
    time.sleep(5)
    before = stalls(bob())
    submit(ann, "floods", ["nice", "-n", str(NICE), "python", str(script)], work)  # as on another machine
    other = Other(bob)
    values = started_aside("hostile_bytes", cluster.port, ca, tokens["ann"], SECONDS)
    answers = json.loads(values.communicate(timeout=600)[0])
    cluster.wait_state("floods", "SUCCEEDED", "FAILED", seconds=300)
    other.end()
    turn, memory = stalls(bob()), peak_mib(pid)
    facts = os.statvfs(disk)
    free = facts.f_bavail * facts.f_frsize >> 20
    state = cluster.json("describe", "floods")["state"]
    limits = ("not all reports", "stay on their nodes")
    events = cluster.json("events", "--run", "floods")["items"]
    notes = [event["text"] for event in events if any(limit in event["text"] for limit in limits)]
    reports = cluster.rtrain("logs", "floods", "--tail", "1").strip()
    lost = sum(node["state"] == "LOST" for node in cluster.json("nodes")["items"])
    cluster.rtrain("stop", "others")
    return (
        f"turn {turn['cpu']:.1f} ms CPU ({turn['wall']:.1f} ms wall); another's answer p99 {other.quantile(0.99):.1f} ms; "
        f"memory {memory:.0f} MiB; {free} MiB of {DISK} free; {lost} nodes LOST; load {os.getloadavg()[0]:.1f}",
        f"before: turn {before['cpu']:.1f} ms CPU, {before['wall']:.1f} ms wall; {len(other.millis)} answers, p50 "
        f"{other.quantile(0.5):.1f} ms, not 2xx: {dict(other.refused)}; values answered {answers}; the flooding run ended "
        f"{state}, {reports!r}; notes: {notes}",
    )


def put_values(port, ca, token, seconds):
    counts, until = collections.Counter(), time.monotonic() + seconds

    def put(number):
        head, body, at = Hostile(port, ca, token), bytes(VALUE_BYTES), 0
        while time.monotonic() < until:
            at += 1
            try:
                head.request("PUT", f"/v1/runs/floods/values/v{number}-{at % 200}", body=body, headers=head.headers)
                answer = head.getresponse()
                answer.read()
                counts[answer.status] += 1
            except OSError:
                counts["cut"] += 1
                head.close()

    threads = [threading.Thread(target=put, args=(number,)) for number in range(PUTTERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(counts))


if __name__ == "__main__":
    put_values(int(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4]))
