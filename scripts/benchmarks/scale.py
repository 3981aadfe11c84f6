"""`scripts/bench scale`: 2,000 simulated nodes on a real head, then 10,000 runs of mixed gangs over its HTTP API.

Everything is on loopback and real except the workers, which are timers of `rtrain node simulate`. That process and the
submitter replace 2,000 other machines but share this one's cores with the head, so they have a lower priority (nice 10;
load.py). Sizes can be reduced: RTRAIN_BENCH_NODES, RTRAIN_BENCH_RUNS.
"""

import json
import os
import subprocess
import time

from local_cluster import LocalCluster, wait_for

from benchmarks.load import NICE, SUBMITTERS, Connection, group_gives_way, submit_from_aside
from benchmarks.measures import BUILD, buckets, cpu_seconds, histogram_quantile, loop_seconds, memory_mib

NODES = int(os.environ.get("RTRAIN_BENCH_NODES", "2000"))
RUNS = int(os.environ.get("RTRAIN_BENCH_RUNS", "10000"))
RUN_SECONDS = 5


class CrowdedCluster(LocalCluster):
    """A cluster whose simulated nodes have a lower priority than the head."""

    def command(self, name, *arguments):
        return [*(["nice", "-n", str(NICE)] if name == "nodes" else []), *super().command(name, *arguments)]


def start_nodes(cluster, head):
    """Returns the seconds from the start of the simulator until all nodes are READY, and the simulator's output."""
    token = cluster.json("token", "create", "--role", "node", "--uses", NODES)["token"]
    begin = time.monotonic()
    cluster.start("nodes", "node", "simulate", cluster.head_address(), "--token", token, "--count", NODES,
                  "--cpus", 8, "--fake-gpus", "8xA100", "--run-seconds", RUN_SECONDS, "-o", "jsonl")  # fmt: skip
    group_gives_way(cluster.daemons["nodes"].pid)

    def all_ready():
        if cluster.daemons["nodes"].poll() is not None:
            raise SystemExit(f"bench: the simulator ended:\n{(cluster.folder / 'nodes.log').read_text()}")
        return json.loads(head.call("GET", "/v1/status"))["nodes"].get("READY", 0) == NODES

    wait_for("the nodes", all_ready, 300, 0.1)
    return time.monotonic() - begin


def heartbeat_share(pid, seconds=20):
    """Returns the used share of one core while only heartbeats arrive."""
    begin, used = time.monotonic(), cpu_seconds(pid)
    time.sleep(seconds)
    return (cpu_seconds(pid) - used) / (time.monotonic() - begin)


def gangs_per_second(folder):
    folder.mkdir()
    command = [BUILD / "tests" / "bench_gangs", folder]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def scale(work):
    """2,000 simulated nodes, 10,000 runs of mixed gangs: nodes registered <= 20 s; decision p99 <= 20 ms; head <= 300 MB, heartbeats <= 30 % of one core; 1-bundle gangs made, committed, removed >= 2,000/s"""
    cluster = CrowdedCluster(work / "scale", nodes=0)
    try:
        admin = cluster.json("token", "create", "--role", "admin", "--user", "bench")["token"]

        ca, pid = str(cluster.folder / "head" / "ca.crt"), cluster.daemons["head"].pid
        head = Connection(cluster.port, ca, admin)
        registered = start_nodes(cluster, head)
        beats = heartbeat_share(pid)
        idle_mib = memory_mib(pid, "VmRSS")
        before, used, begin = head.call("GET", "/metrics").decode(), cpu_seconds(pid), time.monotonic()
        ran_before, waited_before = loop_seconds(pid)
        millis = submit_from_aside(cluster.port, ca, admin, RUNS)
        submitted = time.monotonic() - begin

        def all_ended():
            return json.loads(head.call("GET", "/v1/status"))["runs"].get("SUCCEEDED", 0) == RUNS

        wait_for("the runs", all_ended, 900, 0.5)
        took, used = time.monotonic() - begin, cpu_seconds(pid) - used
        ran, waited = loop_seconds(pid)
        loop = f"the head's loop ran {100 * (ran - ran_before) / took:.0f} % and waited for a core {100 * (waited - waited_before) / took:.0f} % of the time"
        peak_mib = memory_mib(pid, "VmHWM")
        scrape = time.monotonic()
        after = head.call("GET", "/metrics").decode()
        scrape = time.monotonic() - scrape
    finally:
        cluster.stop()
    gangs = gangs_per_second(work / "gangs")
    times = {name: [histogram_quantile(buckets(before, name), buckets(after, name), share) for share in (0.5, 0.99)]
             for name in ("decision_latency_seconds", "scheduling_duration_seconds", "log_commit_duration_seconds")}  # fmt: skip
    shown = {name: f"p50 {low:.2f}, p99 {high:.2f} ms" for name, (low, high) in times.items()}
    return (
        f"registered in {registered:.1f} s; decision {shown['decision_latency_seconds']}; {RUNS / took:.0f} runs/s; "
        f"head {peak_mib:.0f} MiB; heartbeats {100 * beats:.1f} % of one core; {gangs['gangs_per_second']:.0f} gangs/s",
        f"{NODES} nodes, {RUNS} runs; simulated nodes and submitter, which stand in for other machines, at nice {NICE}; {loop}; "
        f"a turn of the core {shown['scheduling_duration_seconds']}; commit "
        f"{shown['log_commit_duration_seconds']}; submitted {RUNS / submitted:.0f}/s over {SUBMITTERS} connections, answered p50 "
        f"{millis[len(millis) // 2]:.1f}, p99 {millis[len(millis) * 99 // 100]:.1f} ms; head {idle_mib:.0f} MiB before the runs, "
        f"{1e3 * used / RUNS:.1f} ms of processor for each; /metrics then {len(after) / 1e6:.1f} MB in {1e3 * scrape:.0f} ms; gangs: "
        f"batches of {gangs['batch']}, commit p99 {gangs['commit_ms_p99']:.1f} ms, processor {gangs['processor_us_decide']} us to decide "
        f"and {gangs['processor_us_commit']} us to write each",
    )
