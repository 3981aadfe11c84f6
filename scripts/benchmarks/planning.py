"""Rows of decisions without daemons: `rtrain plan --cases` and the scheduler's placement."""

import json
import os
import random
import statistics
import subprocess
import time

from benchmarks.measures import BUILD


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
