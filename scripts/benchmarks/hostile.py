"""`scripts/bench hostile`: measures the effect of one user's requests on other users, on a head with 2,000 simulated nodes.

The cluster is full and thousands of runs wait. Then one user sends plans and other expensive requests one after the other,
while 20 others follow logs. Then that user sends uploads to a storage that hangs for 15 s (fuse.py). Meanwhile another
user requests the status repeatedly: the duration of these requests is the measured value. Sizes can be changed as for
`scale`. Run as a program, it is the uploader: hostile.py PORT CA TOKEN; prints a JSON list of the answers' statuses.
"""

import contextlib
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import time

from benchmarks import fuse, scale
from benchmarks.load import Connection, started_aside, submit_from_aside
from benchmarks.measures import loop_seconds
from benchmarks.scale import CrowdedCluster, start_nodes

WAITING = int(os.environ.get("RTRAIN_BENCH_WAITING", "9000"))
FOLLOWERS = 20
ROUNDS = 3
FILLING = 1_550  # number of the mixed gangs of load.py that fill 2,000 nodes
HEARTBEAT_MS = 1_000
UPLOADS, UPLOAD_BYTES, STALL_SECONDS = 4, 1 << 30, 15


def job(**fields):
    return {"job": {"version": 1, "name": "hostile", "entrypoint": ["true"], **fields}}


def requests():
    ranges = ",".join(f"{4 * number}-{4 * number + 90_000}" for number in range(250))
    gang = {"workers": 64, "use_gpu": True, "resources_per_worker": {"GPU": 8}}
    last = f"mixed-{FILLING + WAITING - 1:05}"
    yield "a plan", "POST", "/v1/plan", job(scaling=gang)
    yield "60,000 nodes", "POST", "/v1/plan", job(scaling={"nodes": [f"n{number}" for number in range(60_000)]})
    yield "2,048 nodes", "POST", "/v1/plan", job(scaling={**gang, "nodes": [f"n{number}" for number in range(2_048)]})
    yield "a million workers", "POST", "/v1/plan", job(scaling={"workers": 1_000_000})
    yield "16,384 workers", "POST", "/v1/plan", job(scaling={"workers": 16_384})
    never = {"workers": 16_384, "resources_per_worker": {"CPU": 1_000}, "wait_for_nodes": False}
    yield "16,384 workers submitted", "POST", "/v1/runs", job(scaling=never)
    yield "60,000 secrets", "POST", "/v1/plan", job(secrets=[f"S{number}" for number in range(60_000)])
    yield "60,000 unknown keys", "POST", "/v1/plan", job(**{f"fieldd{number}": 1 for number in range(60_000)})
    yield "ranges of ranks", "GET", f"/v1/runs/mixed-00000/logs?rank={ranges}", None
    yield "explain", "GET", f"/v1/runs/{last}/explain", None
    yield "runs", "GET", "/v1/runs?limit=1000", None
    yield "nodes", "GET", "/v1/nodes?limit=1000", None
    yield "queue", "GET", "/v1/queue?limit=1000", None
    yield "events", "GET", "/v1/events?limit=1000", None
    yield "audit", "GET", "/v1/audit?limit=1000", None
    yield "metrics", "GET", "/metrics", None


class Hostile(Connection):
    def send_and_read(self, method, path, body):
        with contextlib.suppress(OSError, ssl.SSLError):
            self.request(method, path, body=None if body is None else json.dumps(body), headers=self.headers)
            answer = self.getresponse()
            answer.read()
            return answer.status
        self.close()
        return 0

    def upload(self, name):
        piece = bytes(1 << 20)
        headers = {**self.headers, "Content-Type": "application/octet-stream", "Content-Length": str(UPLOAD_BYTES)}
        self.request(
            "PUT", f"/v1/storage/hostile/{name}", body=(piece for _ in range(UPLOAD_BYTES // len(piece))), headers=headers
        )
        answer = self.getresponse()
        answer.read()
        return answer.status


class HostileCluster(CrowdedCluster):
    """A cluster whose storage is a mount of fuse.py. The head's database is on another file system."""

    def __init__(self, folder):
        self.mount = folder.parent / "mount"
        self.mount.mkdir()
        command = [sys.executable, fuse.__file__, str(self.mount)]
        self.storage = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
        while not os.path.ismount(self.mount):
            if self.storage.poll() is not None:
                raise SystemExit("bench: the FUSE mount failed; it needs root and /dev/fuse")
            time.sleep(0.01)
        super().__init__(folder, nodes=0)

    def start_head(self):
        self.start("head", "head", "start", "--port", self.port, "--data", self.folder / "head", "--storage-root", self.mount)

    def stop(self):
        self.storage.send_signal(signal.SIGCONT)
        super().stop()
        fuse.unmount(self.mount)
        self.storage.kill()
        self.storage.wait()


def follow(connect, number, ended):
    head = connect()
    with contextlib.suppress(OSError, ValueError):
        head.request("GET", f"/v1/runs/mixed-{number:05}/logs?follow=true", headers=head.headers)
        answer = head.getresponse()
        while not ended.is_set() and answer.read1(4096):
            pass
    head.close()


def stalls(head):
    text = head.call("GET", "/metrics").decode()
    return {clock: 1e3 * float(value) for clock, value in
            re.findall(r'^rtrain_loop_stall_seconds{clock="(\w+)"} (\S+)$', text, re.M)}  # fmt: skip


class Watch:
    """Measures, during an attack, the duration of the head's answers to another user, and the delay of nodes' heartbeats."""

    def __init__(self, connect):
        self.connect, self.millis, self.ended = connect, [], threading.Event()
        self.latest_ms = 0  # delay beyond the second between two heartbeats of a node
        self.threads = [threading.Thread(target=self.call), threading.Thread(target=self.look_at_nodes)]
        self.threads += [
            threading.Thread(target=follow, args=(connect, number, self.ended), daemon=True) for number in range(FOLLOWERS)
        ]
        for thread in self.threads:
            thread.start()

    def call(self):
        head = self.connect()
        while not self.ended.is_set():
            begin = time.perf_counter()
            head.call("GET", "/v1/status")
            self.millis.append(1e3 * (time.perf_counter() - begin))
            time.sleep(0.005)

    def look_at_nodes(self):
        head = self.connect()
        while not self.ended.wait(1):
            cursor = "0"
            while cursor:
                page = json.loads(head.call("GET", f"/v1/nodes?limit=200&cursor={cursor}"))
                silent = [node["last_heartbeat_ms"] or 0 for node in page["items"]]
                self.latest_ms, cursor = max([self.latest_ms, *silent]), page["next_cursor"]

    def end(self):
        self.ended.set()
        for thread in self.threads[:2]:
            thread.join()
        self.millis.sort()

    def late_ms(self):
        return max(0, self.latest_ms - HEARTBEAT_MS)

    def quantile(self, share):
        return self.millis[int(len(self.millis) * share)]


def send_all(connect, pid):
    """Sends each request alone. Returns its answer, its milliseconds, and the CPU milliseconds of the loop in that time."""
    hostile, answers = connect(), {}
    for name, method, path, body in requests():
        begin, (ran, _) = time.perf_counter(), loop_seconds(pid)
        status = [hostile.send_and_read(method, path, body) for _ in range(ROUNDS)][-1]
        took, ran = time.perf_counter() - begin, loop_seconds(pid)[0] - ran
        answers[name] = (status, 1e3 * took / ROUNDS, 1e3 * ran / ROUNDS)
    return answers


def upload_while_it_hangs(cluster, ca, token):
    """Returns the answers to the uploads. The storage hangs once they have begun."""
    uploads = started_aside("hostile", cluster.port, ca, token)
    time.sleep(2)
    under_way = uploads.poll() is None
    cluster.storage.send_signal(signal.SIGSTOP)
    time.sleep(STALL_SECONDS)
    cluster.storage.send_signal(signal.SIGCONT)
    answers = json.loads(uploads.communicate(timeout=300)[0])
    if not under_way:
        raise SystemExit("bench: the uploads had ended before their storage hung")
    return answers


def hostile(work):
    """2,000 simulated nodes, 9,000 waiting runs, 20 log followers; plans and requests that are made to take long, then 1 GiB uploads to a mount that hangs for 15 s: a turn of the loop <= 50 ms of CPU; another's answer p99.9 <= 50 ms; no heartbeat > 1 s late; nobody LOST"""
    scale.RUN_SECONDS = 3_600
    cluster = HostileCluster(work / "hostile")
    try:
        admin = cluster.json("token", "create", "--role", "admin", "--user", "bench")["token"]
        ca, pid = str(cluster.folder / "head" / "ca.crt"), cluster.daemons["head"].pid

        def connect():
            return Hostile(cluster.port, ca, admin)

        head = connect()
        start_nodes(cluster, head)
        submit_from_aside(cluster.port, ca, admin, FILLING + WAITING)
        time.sleep(125)  # until the head has dropped the longest turns of the filling from its figures
        before = stalls(head)
        asked = Watch(connect)
        answers = send_all(connect, pid)
        asked.end()
        turn = stalls(head)
        hung = Watch(connect)
        uploaded = upload_while_it_hangs(cluster, ca, admin)
        hung.end()
        turn_hung = stalls(head)
        status = json.loads(head.call("GET", "/v1/status"))
    finally:
        cluster.stop()
    each = "; ".join(f"{name} {code} in {took:.0f} ms, loop {ran:.0f} ms" for name, (code, took, ran) in answers.items())
    longest = {clock: max(turn[clock], turn_hung[clock]) for clock in ("cpu", "wall")}
    return (
        f"turn {longest['cpu']:.1f} ms CPU ({longest['wall']:.1f} ms wall); another's answer p99.9 {asked.quantile(0.999):.1f} ms, "
        f"while the storage hangs {hung.quantile(0.999):.1f} ms; heartbeats at most {max(asked.late_ms(), hung.late_ms())} ms late; "
        f"{status['nodes'].get('LOST', 0)} nodes LOST; load {os.getloadavg()[0]:.1f}",
        f"before: turn {before['cpu']:.1f} ms CPU, {before['wall']:.1f} ms wall; {status['runs'].get('QUEUED', 0)} runs wait; "
        f"requests: turn {turn['cpu']:.1f} ms CPU, {turn['wall']:.1f} ms wall, {len(asked.millis)} answers, p50 {asked.quantile(0.5):.1f} ms, "
        f"heartbeats {asked.late_ms()} ms late; uploads answered {uploaded}: {len(hung.millis)} answers, p50 {hung.quantile(0.5):.1f} ms, "
        f"heartbeats {hung.late_ms()} ms late; {each} (the loop's time with what else it did meanwhile)",
    )


def uploader(port, ca, token):
    answers = [0] * UPLOADS

    def upload(number):
        answers[number] = Hostile(port, ca, token).upload(f"f{number}")

    threads = [threading.Thread(target=upload, args=(number,)) for number in range(UPLOADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(answers))


if __name__ == "__main__":
    uploader(int(sys.argv[1]), *sys.argv[2:4])
