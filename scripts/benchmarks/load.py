"""The submitter of `scripts/bench scale`: submits mixed gangs over several kept-alive connections as fast as the head
accepts them.

It is a separate program so that it can have a lower priority than the head, like a submitter on another machine.
usage: load.py PORT CA TOKEN COUNT; prints a sorted JSON list of the milliseconds of each request.
"""

import contextlib
import http.client
import json
import pathlib
import random
import socket
import ssl
import subprocess
import sys
import threading
import time

from local_cluster import ROOT

SUBMITTERS = 4
NICE = 10
# (share, workers, GPUs of each): most gangs are small, most GPUs belong to large ones.
GANGS = [(60, 1, 1), (15, 2, 1), (10, 4, 1), (9, 8, 1), (5, 8, 8), (1, 64, 8)]


class Connection(http.client.HTTPSConnection):
    """A kept-alive connection. It checks the head's certificate against the cluster's CA and the fixed name."""

    def __init__(self, port, ca, token):
        self.tls = ssl.create_default_context(cafile=ca)
        super().__init__("127.0.0.1", port, context=self.tls, timeout=120)
        self.headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def connect(self):
        plain = socket.create_connection((self.host, self.port), self.timeout)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = self.tls.wrap_socket(plain, server_hostname="rtrain-head")

    def call(self, method, path, body=None):
        try:
            return self.call_once(method, path, body)
        except (http.client.RemoteDisconnected, ConnectionError):  # the head closes connections that were idle for long
            self.close()
            return self.call_once(method, path, body)

    def call_once(self, method, path, body):
        self.request(method, path, body=None if body is None else json.dumps(body), headers=self.headers)
        answer = self.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise SystemExit(f"bench: {method} {path}: {answer.status} {text[:500]!r}")
        return text


def group_gives_way(pid):
    """Lowers the priority of the session group that `pid` leads. With sched_autogroup, nice alone counts within one session
    only.
    """
    with contextlib.suppress(OSError):
        pathlib.Path(f"/proc/{pid}/autogroup").write_text(str(NICE))


def mixed_jobs(count):
    dice = random.Random(7)
    shapes = dice.choices(GANGS, weights=[share for share, _, _ in GANGS], k=count)
    for number, (_, workers, gpus) in enumerate(shapes):
        scaling = {"workers": workers, "use_gpu": True, "resources_per_worker": {"CPU": 1, "GPU": gpus}}
        yield {"version": 1, "name": f"mixed-{number:05}", "entrypoint": ["true"], "scaling": scaling}


def submit_all(connect, jobs):
    """Submits from several threads; returns the milliseconds of each request."""
    waiting, guard, millis = iter(jobs), threading.Lock(), []

    def submit_some():
        head, own_millis = connect(), []
        while True:
            with guard:
                job = next(waiting, None)
            if job is None:
                break
            begin = time.perf_counter()
            head.call("POST", "/v1/runs", {"job": job, "key": job["name"]})
            own_millis.append(1e3 * (time.perf_counter() - begin))
        with guard:
            millis.extend(own_millis)

    threads = [threading.Thread(target=submit_some) for _ in range(SUBMITTERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(millis)


def started_aside(module, *arguments):
    """Starts a module of this folder as a process group with lower priority. Its output is read from `stdout`."""
    command = ["nice", "-n", str(NICE), sys.executable, "-m", f"benchmarks.{module}", *map(str, arguments)]
    process = subprocess.Popen(command, cwd=ROOT / "scripts", stdout=subprocess.PIPE, text=True, start_new_session=True)
    group_gives_way(process.pid)
    return process


def submit_from_aside(port, ca, token, count):
    """Runs submit_all in a process with lower priority."""
    with started_aside("load", port, ca, token, count) as submitter:
        try:
            text = submitter.stdout.read()
        except BaseException:
            submitter.kill()
            raise
    millis = json.loads(text) if submitter.returncode == 0 else []
    if len(millis) != count:
        raise SystemExit(f"bench: {len(millis)} of {count} runs were submitted")
    return millis


if __name__ == "__main__":
    port, ca, token, count = sys.argv[1:]
    print(json.dumps(submit_all(lambda: Connection(int(port), ca, token), mixed_jobs(int(count)))))
