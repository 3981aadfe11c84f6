"""Measures the figures of docs/benchmarks.md on this machine and prints them as a table of targets and results.

Every timing of rtrain is shown beside a peer measured in the same run (torchrun, a plain copy) or is a count per second. The
machine's load average is printed too.
"""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from bench_api import api
from bench_away import away
from bench_beside import beside
from bench_first_step import first_steps
from bench_gone import gone
from bench_history import history
from bench_hostile import hostile
from bench_hostile_bytes import hostile_bytes
from bench_import import import_
from bench_one_user import hostile_arrays, hostile_causes, hostile_reports
from bench_recovery import recovery
from bench_reports import million_reports, pss_mib
from bench_scale import scale
from bench_storm import storm
from bench_trials import trials
from bench_warm import warm
from bench_watch import watch
from local_cluster import ROOT, LocalCluster, wait_for

JOBS = ROOT / "tests" / "bench" / "jobs"
BUILD = ROOT / "build" / "release"
ROWS = {}


def row(function):
    ROWS[function.__name__.strip("_").replace("_", "-")] = function
    return function


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


@row
def first_step(work):
    """submit to the first optimizer step, 2 Python workers: <= 0.75 x torchrun"""
    cluster = LocalCluster(work / "first-step", nodes=1, resources="CPU=2")
    try:
        ours, torchrun = first_steps(cluster, work, ROOT / ".venv/bin/python", workers=2, rounds=7)
    finally:
        cluster.stop()
    rtrain_s, peer = statistics.median(ours), statistics.median(torchrun)
    return f"{rtrain_s / peer:.2f} x torchrun", f"rtrain {rtrain_s:.2f} s, torchrun {peer:.2f} s, medians of 7 alternating runs"


@row
def report(work):
    """report() without a checkpoint, 2 and 8 local workers: p50 <= 200 us"""
    cluster = LocalCluster(work / "report", nodes=1, resources="CPU=8")
    try:
        measured = []
        for workers in (2, 8):
            spec = job(work, f"report-{workers}", ["python", str(JOBS / "report.py"), "3000"], workers)
            cluster.rtrain("submit", spec)
            middle, tail = re.search(r"report_us p50 ([0-9.]+) p99 ([0-9.]+)", finished(cluster, f"report-{workers}")).groups()
            measured.append((workers, middle, tail))
    finally:
        cluster.stop()
    text = ", ".join(f"{middle} us ({workers} workers)" for workers, middle, _ in measured)
    return text, "3,000 reports; p99 " + ", ".join(f"{tail} us" for _, _, tail in measured)


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@row
def idle(work):
    """idle head <= 30 MB PSS, idle agent <= 15 MB, together < 1 % CPU"""
    cluster = LocalCluster(work / "idle", nodes=1, resources="CPU=2")
    try:
        pids = [daemon.pid for daemon in cluster.daemons.values()]
        before = [cpu_seconds(pid) for pid in pids]
        begin = time.monotonic()
        time.sleep(20)
        used = sum(cpu_seconds(pid) - b for pid, b in zip(pids, before, strict=True)) / (time.monotonic() - begin)
        head, agent = (pss_mib(pid) for pid in pids)
    finally:
        cluster.stop()
    return f"head {head:.1f} MiB, agent {agent:.1f} MiB, {100 * used:.2f} % CPU", "PSS after start; CPU over 20 s"


@row
def many_runs(work):
    """1,000 runs of /bin/true with 1 worker through one agent: >= 50 runs/s"""
    cluster = LocalCluster(work / "many", nodes=1, resources="CPU=8")
    count = 1000
    try:
        spec = job(work, "true", ["/bin/true"], 1)
        script = f'for i in $(seq {count}); do "$0" submit "$1" --set name=r$i >/dev/null 2>&1 || exit 1; done'
        begin = time.monotonic()
        submitter = subprocess.Popen(["bash", "-c", script, str(BUILD / "rtrain"), str(spec)], env=cluster.env)

        def all_ended():  # sends the head no requests while runs are being submitted
            return submitter.poll() is not None and cluster.json("status")["runs"].get("SUCCEEDED", 0) >= count

        wait_for("all runs", all_ended, 300)
        took = time.monotonic() - begin
    finally:
        cluster.stop()
    return f"{count / took:.0f} runs/s", "one `rtrain submit` process per run, from the first submit to the last end"


@row
def kill(work):
    """SIGKILL of a worker to its peers stopped: p99 <= 300 ms"""
    cluster = LocalCluster(work / "kill", nodes=2, resources="CPU=2")
    millis = []
    try:
        for number in range(30):
            name = f"kill-{number}"
            cluster.rtrain("submit", job(work, name, ["sleep", "1000"], 4))
            cluster.wait_state(name, "RUNNING", "FAILED")
            workers = cluster.json("describe", name)["attempt_list"][-1]["workers"]
            pids = [w["pid"] for w in workers]
            begin = time.monotonic()
            os.kill(pids[0], signal.SIGKILL)
            wait_for("peers to stop", lambda p=pids[1:]: not any(pathlib.Path(f"/proc/{x}").exists() for x in p), 20, 0.001)
            millis.append((time.monotonic() - begin) * 1e3)
            cluster.wait_state(name, "FAILED")
            # Three such deaths would otherwise put the node in quarantine.
            cluster.rtrain("node", "undrain", workers[0]["node"])
    finally:
        cluster.stop()
    return f"p99 {quantile(millis, 0.99):.0f} ms", f"30 kills, 4 workers on 2 nodes; median {statistics.median(millis):.0f} ms"


def small_cases(count, seed=1):
    """Questions as a user's planner asks them: 2 to 8 nodes, 1 to 8 bundles, half of the devices taken, now and then a label or a rack."""
    dice = random.Random(seed)
    for case in range(count):
        nodes, taken = [], []
        for number in range(dice.randint(2, 8)):
            gpus = dice.choice([0, 2, 4, 8])
            nodes.append({"id": f"n{number}", "resources": {"CPU": 16, "GPU": gpus}, "labels": {"rack": f"r{number % 2}"}})
            if dice.random() < 0.5:
                held = {str(device): 1.0 for device in range(gpus // 2)}
                taken.append({"node": f"n{number}", "resources": {"CPU": dice.randint(1, 8)}, "gpu": held})
        bundle = {"CPU": dice.choice([1, 2, 4])}
        if dice.random() < 0.7:
            bundle["GPU"] = dice.choice([0.5, 1, 1, 2])
        bundles = [dict(bundle) for _ in range(dice.randint(1, 8))]
        if dice.random() < 0.25:
            bundles[-1] = {"CPU": 3}
        request = {"strategy": dice.choice(["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"]), "bundles": bundles}
        if dice.random() < 0.2:
            request["topology"] = {"label": "rack"}
        yield {"id": f"x{case}", "nodes": nodes, "allocations": taken, "request": request}


@row
def plan_cases(work):
    """rtrain plan --cases, one process from start to end: >= 10,000 small cases/s"""
    count = 30_000
    file = work / "cases.jsonl"
    file.write_text("".join(json.dumps(case) + "\n" for case in small_cases(count)))
    command = [BUILD / "rtrain", "plan", "--cases", file, "-o", "jsonl"]
    runs = []
    for _ in range(3):
        before, begin = os.times(), time.monotonic()
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        wall, after = time.monotonic() - begin, os.times()
        runs.append((wall, after.children_user + after.children_system - before.children_user - before.children_system))
    if len(lines) != count:
        raise SystemExit(f"bench: {count} cases, {len(lines)} answers")
    verdicts = statistics.multimode(json.loads(line)["verdict"] for line in lines)
    wall, cpu = min(runs)
    how = f"{count:,} cases in {wall:.2f} s ({cpu:.2f} s CPU), best of 3; 2-8 nodes, 1-8 bundles, all strategies; most are {verdicts[0]}"
    return f"{count / wall:,.0f} cases/s ({count / cpu:,.0f} per CPU second)", how


@row
def placement(work):
    """10,000 nodes x 8 GPUs: PACK of 8, 64, 512, 4096 p99 <= 5, 20, 150, 1000 us; SPREAD, STRICT_SPREAD of 4096 <= 3 ms; a refusal <= 1 us; 100,000 waiting gangs <= 1 ms; 1,000 waiting runs that are all unlike, a submission beside them <= 5 ms"""
    rows = json.loads(subprocess.run([BUILD / "tests" / "bench_placement"], capture_output=True, text=True, check=True).stdout)
    p99 = {name: row["p99_us"] for name, row in rows.items()}
    packs = ", ".join(f"{p99[f'PACK {size}']:.1f}" for size in (8, 64, 512, 4096))
    spreads = ", ".join(f"{p99[f'{strategy} 4096'] / 1e3:.2f}" for strategy in ("SPREAD", "STRICT_SPREAD"))
    waiting = p99["100000 waiting gangs after a node change"] / 1e3
    unlike = [row["p99_us"] / 1e3 for name, row in rows.items() if "1000 runs wait" in name]
    scan = rows["PACK 512 without the index"]["p50_us"] / rows["PACK 512"]["p50_us"]
    return (
        f"PACK {packs} us; {spreads} ms; refusal {p99['a refusal']:.2f} us; waiting {waiting:.2f} ms; unlike {', '.join(f'{millis:.2f}' for millis in unlike)} ms",
        f"p99 of processor time; 60-85 % full; a look at every node takes {scan:.0f} x as long for 512",
    )


@row
def checkpoint(work):
    """a 1 GB checkpoint blocks report() <= 1.1 x one copy (foreign directory), <= 10 ms (SDK-owned)"""
    cluster = LocalCluster(work / "checkpoint", nodes=1, resources="CPU=2")
    runs = work / "checkpoint-runs"
    runs.mkdir()
    try:
        entry = ["python", str(JOBS / "checkpoint.py"), "1024"]
        extra = {"env": {"RTRAIN_BENCH_FOLDER": str(runs)}, "storage_path": str(runs), "checkpoint": {"num_to_keep": 1}}
        cluster.rtrain("submit", job(work, "big", entry, 1, **extra))
        line = re.search(r"checkpoint_ms copy ([0-9.]+) foreign ([0-9.]+) owned ([0-9.]+)", finished(cluster, "big", 600))
        copy, foreign, owned = map(float, line.groups())
    finally:
        cluster.stop()
    return f"{foreign / copy:.2f} x copy, {owned:.1f} ms", f"copy {copy:.0f} ms, foreign {foreign:.0f} ms; medians of 3"


row(api)
row(import_)
row(scale)
row(hostile)
row(hostile_reports)
row(hostile_causes)
row(hostile_arrays)
row(hostile_bytes)
row(million_reports)
row(history)
row(recovery)
row(gone)
row(warm)
row(trials)
row(storm)
row(away)
row(beside)
row(watch)


def main():
    wanted = sys.argv[1:] or list(ROWS)
    if "--list" in wanted or set(wanted) - set(ROWS):
        print("\n".join(f"{name:14} {function.__doc__}" for name, function in ROWS.items()))
        return 0 if "--list" in wanted else 2
    work = pathlib.Path(tempfile.mkdtemp(prefix="rtrain-bench-", dir=os.environ.get("RTRAIN_BENCH_DIR")))
    print("| row | asked for | reached | how | load |\n|---|---|---|---|---|", flush=True)
    for name in wanted:
        asked = ROWS[name].__doc__.split(": ", 1)[-1] if ": " in ROWS[name].__doc__ else ROWS[name].__doc__
        reached, how = ROWS[name](work)
        print(f"| {name} | {asked} | {reached} | {how} | {os.getloadavg()[0]:.1f} |", flush=True)
    shutil.rmtree(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
