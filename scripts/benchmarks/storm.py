"""Compares a run under many faults with the same run undisturbed: the share of time in training, and whether its weights are
the same. `rtrain up --warm` starts head and agent; its supervisors restart killed daemons. The parent of a forked worker is
a keeper, which is killed where a plain start has a shim.
"""

import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import time

from local_cluster import ROOT, RTRAIN, environment, wait_for

from benchmarks.measures import JOBS, PYTHON

SCRIPT = JOBS / "storm.py"
SECONDS = int(os.environ.get("RTRAIN_BENCH_STORM_SECONDS", "600"))
SEED = int(os.environ.get("RTRAIN_BENCH_STORM_SEED", "1"))
WORKERS, PAUSE = 2, 0.02
OF_EACH = int(os.environ.get("RTRAIN_BENCH_STORM_EACH", "4"))  # 20 faults in 600 s
KINDS = ("worker", "shim", "agent", "head", "stopped")
STOPPED_FOR = 5
ENDS_BEFORE = 20  # no fault happens in the last seconds before the undisturbed run's end


def storm(work):
    """10 minutes of training, 20 faults, a checkpoint each 2 s: effective training time >= 97 %, weights bitwise equal"""
    steps = calibrated(work)
    calm = Storm(work / "calm")
    try:
        calm_wall, calm_weights = calm.train(steps)
    finally:
        calm.down()
    rough = Storm(work / "rough")
    try:
        rough_wall, rough_weights = rough.train(steps, faults(calm_wall))
        attempts = len(rough.value("describe", "storm")["attempt_list"])
    finally:
        rough.down()
    if calm_weights != rough_weights:
        raise SystemExit("bench storm: the weights differ from those of the undisturbed run")
    return (
        f"{100 * calm_wall / rough_wall:.1f} %, weights bitwise equal",
        f"{calm_wall:.0f} s undisturbed, {rough_wall:.0f} s with {len(rough.done)} faults in {attempts} attempts, seed {SEED}",
    )


def calibrated(work):
    """Returns the number of steps that take SECONDS here."""
    trial, start_up = 500, 3
    first = Storm(work / "trial")
    try:
        wall, _ = first.train(trial)
    finally:
        first.down()
    return int(trial * SECONDS / max(wall - start_up, 1))


def faults(seconds):
    """Returns (seconds after the start, kind) of each fault, spread evenly with random shifts from the seed."""
    dice = random.Random(SEED)
    kinds = list(KINDS) * OF_EACH
    dice.shuffle(kinds)
    room = max(seconds - ENDS_BEFORE, len(kinds))
    gap = room / len(kinds)
    return [(gap * number + dice.uniform(0.3, 0.7) * gap, kind) for number, kind in enumerate(kinds)]


def parent(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


class Storm:
    def __init__(self, folder):
        folder.mkdir()
        self.folder, self.base, self.done = folder, folder / "up", []
        self.env = environment(folder / "config.yaml")
        self.rtrain("up", "--data", self.base, "--port", 0, "--resources", "CPU=2", "--warm")

    def rtrain(self, *arguments):
        command = [RTRAIN, *map(str, arguments)]
        done = subprocess.run(command, env=self.env, cwd=ROOT, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, arguments))}: {done.stdout}{done.stderr}")
        return done.stdout

    def value(self, *arguments):
        return json.loads(self.rtrain(*arguments, "-o", "json"))

    def train(self, steps, plan=()):
        spec = {
            "version": 1,
            "name": "storm",
            "entrypoint": [str(PYTHON), str(SCRIPT), str(self.folder), str(steps), str(PAUSE)],
            "scaling": {"workers": WORKERS},
            "failure": {"max_failures": -1},
            "checkpoint": {"num_to_keep": 2},
        }
        file = self.folder / "storm.yaml"
        file.write_text(json.dumps(spec))
        begin = time.monotonic()
        self.rtrain("submit", file)
        for at, kind in plan:
            time.sleep(max(0, begin + at - time.monotonic()))
            if (self.folder / "weights").exists():
                break
            self.strike(kind)
        wait_for("the weights", (self.folder / "weights").exists, 3 * SECONDS + 120)
        return time.monotonic() - begin, (self.folder / "weights").read_text()

    def strike(self, kind):
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            pid = wait_for(f"a {kind}", lambda: self.victim(kind), 60, 0.05)
            os.kill(pid, signal.SIGSTOP if kind == "stopped" else signal.SIGKILL)
            self.done.append(kind)
            if kind == "stopped":
                time.sleep(STOPPED_FOR)
                os.kill(pid, signal.SIGCONT)

    def victim(self, kind):
        if kind == "stopped":
            kind = ("worker", "agent", "head")[len(self.done) % 3]
        if kind == "head":
            return self.pid_in("head/head.pid")
        if kind == "agent":
            return self.pid_in("node-1/agent.pid")
        try:
            attempts = self.value("describe", "storm")["attempt_list"]
        except RuntimeError:
            return None  # the head is restarting
        workers = [worker["pid"] for worker in attempts[-1]["workers"] if worker["state"] == "RUNNING"] if attempts else []
        if len(workers) < WORKERS:
            return None
        return workers[-1] if kind == "worker" else parent(workers[0])

    def pid_in(self, path):
        file = self.base / path
        words = file.read_text().split() if file.exists() else []
        return int(words[0]) if words and pathlib.Path(f"/proc/{words[0]}").exists() else None

    def down(self):
        subprocess.run([RTRAIN, "down", "--data", str(self.base), "--yes"], env=self.env, capture_output=True, timeout=120)
