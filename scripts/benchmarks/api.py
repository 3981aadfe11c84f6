"""The Python API's figures: `TorchTrainer.fit()` beside torchrun, what report() costs, how long a checkpoint blocks; and Ray Train
2.60 doing the same where build/ray-venv (or the Python that RTRAIN_BENCH_RAY names) has it. That environment is made by hand, and takes torch
from .venv:

    .venv/bin/python -m venv build/ray-venv
    ls -d $PWD/.venv/lib/python3*/site-packages > $(ls -d build/ray-venv/lib/python3*/site-packages)/torch.pth
    build/ray-venv/bin/pip install 'ray[train]==2.60.*'        (the extra `bench` of runtime/python)
"""

import json
import os
import pathlib
import re
import statistics
import subprocess
import time

from local_cluster import ROOT, LocalCluster, free_port

from benchmarks.measures import JOBS, PYTHON

RAY = pathlib.Path(os.environ.get("RTRAIN_BENCH_RAY", ROOT / "build" / "ray-venv" / "bin" / "python"))
REPORTS = 2000
ROUNDS = 5
COPIES = 10  # number of rounds with the copy first, and with the report first


def api(work):
    """2 workers: fit() to the first report <= 0.75 x torchrun; report() <= 200 us; a 100 MB checkpoint blocks <= 1.2 x one copy"""
    cluster = LocalCluster(work / "api", nodes=1, resources="CPU=2")
    folder = work / "api-files"
    folder.mkdir()
    try:
        ours, torchrun = [], []
        for _ in range(ROUNDS):
            torchrun.append(torchrun_seconds(cluster.env))
            ours.append(measured(PYTHON, "rtrain", "first", folder, cluster.env)["seconds"])
        cost = measured(PYTHON, "rtrain", "report", folder, cluster.env, REPORTS)
        kept = measured(PYTHON, "rtrain", "checkpoint", folder, cluster.env, COPIES)
    finally:
        cluster.stop()
    rtrain_s, peer = statistics.median(ours), statistics.median(torchrun)
    reached = f"{rtrain_s / peer:.2f} x torchrun, {cost['p50_us']:.0f} us, {kept['blocked_ms'] / kept['copy_ms']:.2f} x copy"
    how = f"fit {rtrain_s:.2f} s, torchrun {peer:.2f} s; {REPORTS:,} reports, p50 (mean {cost['mean_us']:.0f} us); blocked {kept['blocked_ms']:.0f} ms, copy {kept['copy_ms']:.0f} ms, best of {COPIES} each (medians {kept['blocked_median_ms']:.0f} and {kept['copy_median_ms']:.0f} ms)"
    return reached, f"{how}; {ray(folder, cluster.env)}"


def ray(folder, environment):
    """Measures the same three figures of Ray Train, each in a new driver, which starts its cluster before the measurement."""
    has = RAY.exists() and subprocess.run([RAY, "-c", "import ray.train, torch"], capture_output=True).returncode == 0
    if not has:
        return f"Ray: not installed for {RAY}, skipped"
    first = measured(RAY, "ray", "first", folder, environment)["seconds"]
    cost = measured(RAY, "ray", "report", folder, environment, 20)["p50_us"]
    kept = measured(RAY, "ray", "checkpoint", folder, environment, COPIES)
    ratio = kept["blocked_ms"] / kept["copy_ms"]
    return f"Ray 2.60: {first:.1f} s, {cost / 1e3:,.0f} ms a report (of 20), {ratio:.2f} x copy ({kept['blocked_ms']:.0f} ms)"


def measured(python, library, what, folder, environment, count=0):
    command = [python, JOBS / "api_driver.py", library, what, folder, str(count)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    match = re.search(r"^measured (.*)$", done.stdout, re.MULTILINE)
    if done.returncode != 0 or match is None:
        raise SystemExit(f"bench: {library} {what} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return json.loads(match[1])


def torchrun_seconds(environment):
    begin = time.time()
    command = [
        PYTHON,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--master-port",
        str(free_port()),
        JOBS / "api_torchrun.py",
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True, timeout=120)
    return float(re.search(r"first_report ([0-9.]+)", done.stdout)[1]) - begin
