"""Measures the figures of docs/benchmarks.md on this machine and prints them as a table of targets and results.

Every timing of rtrain is shown beside a peer measured in the same run (torchrun, a plain copy) or is a count per second. The
machine's load average is printed too.
"""

import os
import pathlib
import shutil
import sys
import tempfile

from local_cluster import ROOT

from benchmarks.api import api
from benchmarks.away import away
from benchmarks.beside import beside
from benchmarks.gone import gone
from benchmarks.history import history
from benchmarks.hostile import hostile
from benchmarks.hostile_bytes import hostile_bytes
from benchmarks.one_machine import checkpoint, first_step, idle, import_, kill, many_runs, report
from benchmarks.one_user import hostile_arrays, hostile_causes, hostile_reports
from benchmarks.planning import placement, plan_cases
from benchmarks.recovery import recovery
from benchmarks.reports import million_reports
from benchmarks.scale import scale
from benchmarks.storm import storm
from benchmarks.tasks import tasks
from benchmarks.warm import trials, warm
from benchmarks.watch import watch

FUNCTIONS = (
    first_step, report, idle, many_runs, kill, plan_cases, placement, checkpoint, api, import_, scale, hostile, hostile_reports,
    hostile_causes, hostile_arrays, hostile_bytes, million_reports, history, recovery, gone, warm, trials, storm, away, beside,
    watch, tasks,
)  # fmt: skip
ROWS = {function.__name__.strip("_").replace("_", "-"): function for function in FUNCTIONS}


def main():
    os.chdir(ROOT)
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
