"""Rows of one head with at most two nodes: the first step, reports, idle daemons, short runs, kills, checkpoints, imports."""

import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import time

from local_cluster import ROOT, LocalCluster, wait_for

from benchmarks.first_step import first_steps
from benchmarks.measures import BUILD, JOBS, PYTHON, cpu_seconds, finished, job, pss_mib, quantile

IMPORTS = 25
STATEMENTS = {
    "bare": "pass",
    "rtrain": "import rtrain",
    "train": "from rtrain import train",
    "all of ssl": "import ssl, urllib.request",  # for comparison: the imports of any HTTPS client with the standard library
}


def first_step(work):
    """submit to the first optimizer step, 2 Python workers: <= 0.75 x torchrun"""
    cluster = LocalCluster(work / "first-step", nodes=1, resources="CPU=2")
    try:
        ours, torchrun = first_steps(cluster, work, PYTHON, workers=2, rounds=7)
    finally:
        cluster.stop()
    rtrain_s, peer = statistics.median(ours), statistics.median(torchrun)
    return f"{rtrain_s / peer:.2f} x torchrun", f"rtrain {rtrain_s:.2f} s, torchrun {peer:.2f} s, medians of 7 alternating runs"


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


def import_(work):
    """`import rtrain` beside the start of a bare interpreter: <= 100 ms more, without torch"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "runtime" / "python"), "PYTHONPYCACHEPREFIX": str(work / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    took = {name: [] for name in STATEMENTS}
    for number in range(IMPORTS + 1):
        for name, statement in STATEMENTS.items():
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", statement], env=environment, cwd=work, check=True)
            if number:  # the first round fills caches for the others
                took[name].append(1e3 * (time.perf_counter() - begin))
    middle = {name: statistics.median(times) for name, times in took.items()}
    more = {name: middle[name] - middle["bare"] for name in STATEMENTS}
    check = "import sys; from rtrain import train; sys.exit(bool({'torch', 'numpy', 'pyarrow', 'yaml', 'zstandard', 'cloudpickle'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", check], env=environment, cwd=work, check=True)
    reached = f"{more['rtrain']:.0f} ms, with `rtrain.train` {more['train']:.0f} ms"
    how = (
        f"beyond a bare interpreter's {middle['bare']:.0f} ms; medians of {IMPORTS} fresh interpreters each, alternating; "
        f"`import ssl, urllib.request` {more['all of ssl']:.0f} ms; neither torch nor numpy nor pyarrow nor another package is loaded"
    )
    return reached, how
