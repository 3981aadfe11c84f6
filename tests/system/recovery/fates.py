"""Schedules of faults and resizes of a run on real daemons: kills of ranks and of loader processes, and resizes.

A schedule is drawn from a seed. The job fires each event itself, once, at the event's step: kills by SIGKILL, and for a
resize the ranks wait until `play` has asked the head for it. Each rank writes the rows of its steps to a file, one line a
step.
"""

import json
import os
import random
import subprocess
import sys

from jobs_on_disk import JOBS
from local_cluster import Failed, wait_for

SIZES = (1, 2, 3, 4, 6, 8)  # each divides the global batch
TOGETHER = 24  # rows of a global batch
STEPS = 40  # every event comes before this step


def draw(seed, kinds):
    """Returns the first size and the events of a schedule."""
    numbers = random.Random(f"fates {seed}")
    size = first = numbers.choice(SIZES)
    events = []
    for step in sorted(numbers.sample(range(2, STEPS), numbers.randint(2, 4))):
        kind = numbers.choice(kinds)
        if kind == "resize":
            size = numbers.choice([one for one in SIZES if one != size])
        events.append({"kind": kind, "step": step, "rank": numbers.randrange(8), "size": size})
    return {"seed": seed, "first": first, "saves": numbers.randint(2, 5), "events": events}


def count():
    """Returns how many schedules a test plays: RTRAIN_FATES, else 2."""
    return int(os.environ.get("RTRAIN_FATES") or 2)


def play(cluster, job, folder, name, schedule):
    """Runs a schedule to its end. Returns the rows of each step, as in `delivered`."""
    folder.mkdir()
    (folder / "schedule.json").write_text(json.dumps({**schedule, "together": TOGETHER}))
    log = folder / "driver.log"
    with log.open("w") as output:
        driver = subprocess.Popen(
            [sys.executable, str(JOBS / job), str(folder), name], env=cluster.env, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        for number, event in enumerate(schedule["events"]):
            if event["kind"] == "resize":
                wait_for(
                    f"event {number} of {schedule}",
                    lambda wanted=folder / f"wants-{number}": wanted.exists() or driver.poll() is not None,
                    240,
                )
                cluster.rtrain("resize", name, event["size"])
                (folder / f"asked-{number}").touch()
        driver.wait(300)
    except (Failed, subprocess.TimeoutExpired) as late:
        raise Failed(f"{schedule}: {late}\n{log.read_text()[-4000:]}") from None
    finally:
        if driver.poll() is None:
            driver.kill()
            driver.wait()
    assert driver.returncode == 0, f"{schedule}\n{log.read_text()[-4000:]}"
    assert all((folder / f"fired-{number}").exists() for number in range(len(schedule["events"]))), schedule
    return delivered(folder)


def delivered(folder):
    """Returns the rows of each step, those of rank 0 first. If attempts repeat a step, the last attempt counts."""
    attempts = {}
    for path in folder.glob("*.jsonl"):
        attempt, rank = map(int, path.stem.split("-"))
        for line in path.read_text().splitlines():
            try:
                step = json.loads(line)
            except ValueError:
                continue  # the rank was killed while it wrote the line
            attempts.setdefault(attempt, {}).setdefault((step["epoch"], step["step"]), {})[rank] = step["rows"]
    steps = {}
    for _, taken in sorted(attempts.items()):
        begun = min(taken)
        steps = {key: rows for key, rows in steps.items() if key < begun} | taken
    return [(key[0], [row for _, rows in sorted(by_rank.items()) for row in rows]) for key, by_rank in sorted(steps.items())]
