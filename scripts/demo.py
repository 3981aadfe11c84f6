"""The program of scripts/demo: two real jobs on a head and two agents, on loopback, with TLS and tokens.

1. A Python DDP job loses a worker to SIGKILL and recovers from its last checkpoint. 2. A C++ LibTorch job is stopped
half-way, and the whole cluster ends. A new head finishes the job from its storage path.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from local_cluster import RTRAIN, Failed, LocalCluster, wait_for

START = time.monotonic()
ENDS = ("SUCCEEDED", "FAILED", "STOPPED")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FOLLOWERS = []  # processes of `rtrain logs -f`, which are ended if a step fails


def say(text):
    print(f"\n[{time.monotonic() - START:5.1f} s] {text}", flush=True)


def show(cluster, *arguments):
    """Runs a command and prints both, as a person would see them."""
    print(f"$ rtrain {' '.join(map(str, arguments))}", flush=True)
    print(cluster.rtrain(*arguments), end="", flush=True)


def follow(cluster, name):
    """Starts `rtrain logs -f`, which prints the lines immediately and ends with the run."""
    print(f"$ rtrain logs {name} -f --rank 0", flush=True)
    FOLLOWERS.append(subprocess.Popen([RTRAIN, "logs", name, "-f", "--rank", "0"], env=cluster.env))
    return FOLLOWERS[-1]


def end_of(follower):
    """Waits for a follower whose run is over."""
    try:
        follower.wait(20)
    except subprocess.TimeoutExpired:
        raise Failed("`rtrain logs -f` goes on 20 s after the end of its run") from None


def interrupt(signal_number, _):
    """Turns a signal into an error, so that every daemon is stopped. Further signals do not interrupt that."""
    for caught in SIGNALS:
        signal.signal(caught, signal.SIG_IGN)
    raise Failed(f"interrupted by {signal.Signals(signal_number).name}")


def committed(cluster, name):
    return cluster.json("checkpoints", "list", name)["items"]


def reports(cluster, name):
    report = cluster.json("describe", name)["last_report"]
    return report["index"] if report else 0


def finished(cluster, name, follower):
    """Waits for success and gives back (facts, final accuracy)."""
    cluster.wait_state(name, *ENDS)
    end_of(follower)
    facts = cluster.json("describe", name)
    show(cluster, "describe", name)
    if facts["state"] != "SUCCEEDED":
        show(cluster, "logs", name, "--rank", "all", "--attempt", "all")
        raise Failed(f"{name} ended as {facts['state']}: {facts['reason']}")
    if not facts["attempt_list"][-1]["from"]:
        raise Failed(f"the last attempt of {name} did not start from a checkpoint")
    printed = re.findall(r"final accuracy:? ([0-9.]+)", cluster.rtrain("logs", name, "--rank", "0", "--attempt", "all"))
    if not printed:
        raise Failed(f"{name} printed no final accuracy")
    return facts, float(printed[-1])


def kill_and_recover(cluster):
    say("A Python DDP job, 2 workers. Rank 1 gets SIGKILL in mid-run.")
    follower = follow(cluster, "digits")
    wait_for("three checkpoints of digits", lambda: len(committed(cluster, "digits")) >= 3)
    worker = next(w for w in cluster.json("describe", "digits")["attempt_list"][-1]["workers"] if w["rank"] == 1)
    print(f"\n--- kill -9 {worker['pid']}   (rank 1 on {worker['node']})\n", flush=True)
    os.kill(worker["pid"], signal.SIGKILL)
    facts, accuracy = finished(cluster, "digits", follower)
    if len(facts["attempt_list"]) < 2:
        raise Failed("digits ended before the kill: nothing was recovered")
    return accuracy


def stop_half_way(cluster):
    say("A C++ LibTorch ResNet-18, 2 workers, stopped half-way.")
    follower = follow(cluster, "digits-cpp")
    wait_for("report 4 of 9 of digits-cpp", lambda: reports(cluster, "digits-cpp") >= 4, 120)
    show(cluster, "stop", "digits-cpp")
    cluster.wait_state("digits-cpp", "STOPPED")
    end_of(follower)


def restore_elsewhere(work):
    say("The whole cluster is down. A brand-new head with an empty data directory starts.")
    fresh = LocalCluster(work / "second")
    try:
        show(fresh, "runs", "--all")
        show(fresh, "restore", work / "runs" / "digits-cpp")
        return finished(fresh, "digits-cpp", follow(fresh, "digits-cpp"))[1]
    finally:
        fresh.stop()


def story(work):
    say("A head and two agents of one CPU each on loopback; TLS and tokens are on.")
    cluster = LocalCluster(work / "first")
    try:
        show(cluster, "nodes")
        for name in ("digits", "digits-cpp"):
            show(cluster, "submit", f"examples/{name}/job.yaml", "--set", f"name={name}", "--set", f"storage_path={work}/runs")
        show(cluster, "explain", "digits-cpp")
        python = kill_and_recover(cluster)
        stop_half_way(cluster)
    finally:
        cluster.stop()
    return python, restore_elsewhere(work)


def main():
    work = pathlib.Path(tempfile.mkdtemp(prefix="rtrain-demo-"))
    (work / "runs").mkdir()
    for caught in SIGNALS:
        signal.signal(caught, interrupt)
    try:
        python, cpp = story(work)
    except (Failed, OSError, ValueError, LookupError) as reason:
        text = reason if isinstance(reason, Failed) else f"{type(reason).__name__}: {reason}"
        print(f"demo: {text}\ndemo: every daemon is stopped; their logs and data lie in {work}", file=sys.stderr)
        return 1
    finally:
        for follower in FOLLOWERS:
            follower.kill()
            follower.wait()
    say("Done; everything is stopped.")
    print(f"digits      Python DDP, killed and recovered         final accuracy {python:.4f}")
    print(f"digits-cpp  C++ LibTorch, restored on a new cluster  final accuracy {cpp:.4f}")
    if python <= 0.95 or cpp <= 0.9:
        print("demo: an accuracy is below its mark (0.95 Python, 0.9 C++)", file=sys.stderr)
        return 1
    shutil.rmtree(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
