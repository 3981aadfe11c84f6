"""Compares forked runs of the examples with plain ones, field by field, and watches the processes of the agent meanwhile.

A field is a value of a run's record: a state, a cause, a rank's exit code, a report, a line of a log, a checkpoint's file. A
field that is equal in all plain runs of a program must be equal in each of its forked runs. When one differs, the program runs
plainly again: a field that plain runs change by themselves decides nothing. `probe` is a program that prints what a worker
finds: environment, limits, signals, threads, descriptors.

usage: tests/system/warm/equal_runs.py [--runs N] [--seconds S] [--at-most S] [--plain N] [--at-once N] [--out FILE] [PROGRAM ...]
"""

import argparse
import concurrent.futures
import contextlib
import json
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests" / "system"), str(ROOT / "tests" / "system" / "warm")]
from local_cluster import Failed, LocalCluster, WarmCluster, wait_for  # noqa: E402
from test_as_plain import SHOW  # noqa: E402

PATIENCE_S = 3600  # for one program: on a busy machine with a low priority it takes long
ENDED = ("SUCCEEDED", "FAILED", "STOPPED")
FORKED = "forked from a warm template"
ENV = {"EPOCHS": "1", "ROUNDS": "3", "OMP_NUM_THREADS": "1"}  # one environment, so one template, for the jobs
# Each program with its arguments, and how many of its runs follow each other: short ones repeat. FOLDER is a new folder.
DRIVERS = {
    "quickstart": (8, "quickstart/train.py"),
    "anywhere": (8, "anywhere/train.py --workers 2 --epochs 2 --storage FOLDER"),
    "images": (1, "tutorial/part1_images.py --width 4 --epochs 1 --storage FOLDER"),
    "parquet": (1, "tutorial/part2_parquet.py --width 4 --epochs 1 --storage FOLDER --data FOLDER/digits"),
    "recovery": (1, "tutorial/part3_recovery.py --width 4 --epochs 2 --storage FOLDER"),
    "elastic": (1, "elastic/train.py --epochs 1 --storage FOLDER"),
    "tune": (1, "tune/tune_digits.py --samples 2 --epochs 2 --storage FOLDER"),
    "llm": (1, "llm/train.py --steps 6 --save-every 3 --name NAME --storage FOLDER --data FOLDER/bytes"),
    "transformers": (1, "transformers/train.py --epochs 1 --storage FOLDER"),
}
JOBS = {"digits": 8, "lightning": 1, "xgboost": 4, "probe": 24}
PROGRAMS = {**{name: times for name, (times, _) in DRIVERS.items()}, **JOBS}
NAMED = {"anywhere": "anywhere", "transformers": "transformers"}  # their runs have fixed names


class Runs:
    """One cluster and the runs of the programs on it."""

    def __init__(self, kind, folder):
        self.folder = folder / kind
        self.cluster = (WarmCluster if kind == "forked" else LocalCluster)(self.folder / "cluster", nodes=1, resources="CPU=8")
        self.number, self.lock = 0, threading.Lock()
        self.busy = {name: threading.Lock() for name in PROGRAMS}

    def records(self, program):
        """Runs the program once. Returns the records of its run and of the runs that it has started."""
        with self.busy[program]:
            with self.lock:
                self.number += 1
                name = f"{program}-{self.number}"
            files = self.folder / name
            files.mkdir()
            try:
                return self.records_of(name, self.submit(program, name, files), files)
            finally:
                shutil.rmtree(files, ignore_errors=True)

    def submit(self, program, name, files):
        if program in DRIVERS:
            words = DRIVERS[program][1].replace("FOLDER", str(files)).replace("NAME", name).split()
            return self.cluster.json("submit", ROOT / "examples" / words[0], *words[1:])["run_id"]
        source = ROOT / "examples" / program
        if program == "probe":
            source = files / "source"
            source.mkdir()
            (source / "train.py").write_text(probe_text())
        spec = {
            "version": 1, "name": name, "entrypoint": "python train.py", "working_dir": str(source), "env": ENV,
            "storage_path": str(files / "storage"), "scaling": {"workers": 1 if program == "probe" else 2},
            "backend": {"name": "xgboost" if program == "xgboost" else "auto"},
        }  # fmt: skip
        spec["scaling"]["resources_per_worker"] = {"CPU": 1}
        (files / "job.yaml").write_text(json.dumps(spec))
        return self.cluster.json("submit", files / "job.yaml")["run_id"]

    def family(self, run_id):
        """Returns the run and its children, in the order of their submission."""
        runs = sorted(self.cluster.json("runs", "--all")["items"], key=lambda run: int(run["run_id"].split("-")[1]))
        ids = {run_id}
        for run in runs:
            if run["labels"].get("rtrain.parent") in ids:
                ids.add(run["run_id"])
        return [run for run in runs if run["run_id"] in ids]

    def records_of(self, name, run_id, files):
        family = wait_for(f"the end of {name}", lambda: ended(self.family(run_id), run_id), PATIENCE_S, pause=0.5)
        records = []
        for run in family:
            with contextlib.suppress(Failed):
                self.cluster.rtrain("runs", "stored", run["name"])
            records.append(self.record(run["name"], files, name))
        for run in family:
            self.cluster.run("runs", "rm", run["name"], "--yes")
        return records

    def record(self, run, files, name):
        described = self.cluster.json("describe", run)
        logs = self.cluster.json("logs", run, "--rank", "all", "--attempt", "all")["items"]
        fields = {
            "state": described["state"], "reason": described["reason"], "warnings": described["warnings"],
            "failures": described["failures"], "job": described["job"], "memory_limit": described["memory_limit"],
            "attempts": [attempt_fields(attempt) for attempt in described["attempt_list"]],
            "reports": [{k: entry[k] for k in ("attempt", "index", "metrics", "position")} for entry in self.cluster.json("metrics", run)["items"]],
            "logs": lines_by_rank(logs),
            "checkpoints": self.checkpoints(run),
        }  # fmt: skip
        text = json.dumps(fields)
        head = self.cluster.head_address()
        for own, common in ((str(files), "FILES"), (str(self.folder), "CLUSTER"), (run, "RUN"), (name, "NAME"), (head, "HEAD")):
            text = text.replace(json.dumps(own)[1:-1], common)
        return {"starts": [start["text"] for start in described["starts"]], "fields": json.loads(masked(text))}

    def checkpoints(self, run):
        done = self.cluster.run("checkpoints", "list", run, "-o", "json")
        kept = json.loads(done.stdout)["items"] if done.returncode == 0 else []
        return [{k: v for k, v in entry.items() if k in ("name", "metrics", "bytes", "files", "state", "kind")} for entry in kept]


def probe_text():
    """Returns the program of `probe`. A plain start has its environment in a shell's order, which says nothing: it is sorted."""
    sorted_first = 'fields["shown"] = [sorted(fields["shown"][0]), fields["shown"][1]]\nfields["descriptors"]'
    return (
        SHOW.replace("import holds, ", "import ").replace("vars(holds)", "{}").replace('fields["descriptors"]', sorted_first, 1)
    )


def ended(family, run_id):
    return (
        family if family and all(run["state"] in ENDED for run in family) and any(r["run_id"] == run_id for r in family) else None
    )


def attempt_fields(attempt):
    workers = [{k: v for k, v in entry.items() if k != "pid"} for entry in attempt["workers"]]
    return {k: attempt[k] for k in ("cause", "state", "world_size", "nodes", "number")} | {"workers": workers}


def lines_by_rank(logs):
    """Returns the parsed lines of each rank and stream: a line of JSON by its fields, another by its words."""
    lines = {}
    for entry in logs:
        text = entry.get("text", entry.get("line", ""))
        try:
            parsed = json.loads(text)
        except ValueError:
            parsed = text.split()
        lines.setdefault(f"{entry.get('attempt')} {entry.get('rank')} {entry.get('stream')}", []).append(parsed)
    return lines


def masked(text):
    """Replaces what each run or each cluster has of its own: ids, the agent's socket, the CA's certificate."""
    text = re.sub(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", "CA", text)
    text = re.sub(r"/run/rtrain-[0-9a-f]{16}", "/run/rtrain", text)
    text = re.sub(r"/run/rtrain/\d+", "/run/rtrain/SHORT", text)  # the next free number of a short TMPDIR
    text = re.sub(r"\b[0-9a-f]{6}-\d+(-a?\d+)*\b", "ID", text)
    text = re.sub(r"attempts/[\w.-]+", "attempts/ID", text)
    return re.sub(r"train-[a-z]{5}\b", "DRIVER", text)


def flat(value, path=""):
    """Yields (path, value) of each field below `value`. The number of items and the keys are fields too."""
    if isinstance(value, dict):
        yield path + "/keys", sorted(value)
        for key in value:
            yield from flat(value[key], f"{path}/{key}")
    elif isinstance(value, list):
        yield path + "/length", len(value)
        for number, item in enumerate(value):
            yield from flat(item, f"{path}/{number}")
    else:
        yield path, value


def fields_of(records):
    return dict(flat([record["fields"] for record in records]))


def fixed(plain):
    """Returns the fields that are equal in all plain runs."""
    first, *others = plain
    return {path: value for path, value in first.items() if all(path in o and o[path] == value for o in others)}


def differences(plain, forked):
    return {
        path: (value, forked.get(path, "is missing"))
        for path, value in fixed(plain).items()
        if forked.get(path, "is missing") != value
    }


class Watch(threading.Thread):
    """Samples the agent of the node, its keepers and templates: how many, their memory, descriptors and threads."""

    def __init__(self, agent, out, every=20):
        super().__init__(daemon=True)
        self.agent, self.out, self.every = agent, out, every
        self.samples, self.done = [], threading.Event()

    def run(self):
        while not self.done.wait(self.every):
            self.sample()

    def sample(self):
        sample = {"at": round(time.monotonic()), "agent": facts(self.agent), "processes": len(descendants(self.agent))}
        keepers = [pid for pid in children(self.agent) if "__keeper" in command(pid)]
        sample["keepers"] = [facts(pid) for pid in keepers]
        templates = [pid for keeper in keepers for pid in children(keeper) if "-c" in command(pid)[:3]]
        sample["templates"] = [facts(pid) for pid in templates]
        self.samples.append(sample)
        self.out(sample)


def facts(pid):
    with contextlib.suppress(OSError, IndexError, ValueError):
        folder = pathlib.Path(f"/proc/{pid}")
        status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
        pss = re.search(r"^Pss:\s+(\d+)", (folder / "smaps_rollup").read_text(), re.MULTILINE)
        return {
            "pid": pid, "rss_kib": int(status["VmRSS"].split()[0]), "private_kib": int(status["RssAnon"].split()[0]),
            "pss_kib": int(pss[1]) if pss else 0, "descriptors": len(list((folder / "fd").iterdir())), "threads": int(status["Threads"]),
        }  # fmt: skip
    return {"pid": pid}


def command(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    return []


def children(pid):
    pids = []
    with contextlib.suppress(OSError):
        for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                pids += map(int, (thread / "children").read_text().split())
    return pids


def descendants(pid):
    below = children(pid)
    return below + [pid for child in below for pid in descendants(child)]


class Comparison:
    def __init__(self, options, folder):
        self.options, self.plain_fields, self.lock = options, {}, threading.Lock()
        self.plain, self.forked = Runs("plain", folder), Runs("forked", folder)
        self.counts = {name: {"forked": 0, "fields": 0, "other starts": []} for name in options.programs}
        self.learning = {name: threading.Lock() for name in options.programs}
        self.differ, self.errors, self.began = [], [], time.monotonic()

    def out(self, line):
        if self.options.out:
            with self.lock, open(self.options.out, "a") as file:
                file.write(json.dumps(line) + "\n")

    def learn(self, program):
        fields = fields_of(self.plain.records(program))
        with self.lock:
            self.plain_fields.setdefault(program, []).append(fields)

    def compare(self, program):
        """Runs the program once where workers are forked, and compares its runs with the plain ones."""
        records = self.forked.records(program)
        starts = [start for record in records for start in record["starts"] or ["no start is known"]]
        if not all(FORKED in start and "plain" not in start for start in starts):
            self.counts[program]["other starts"] += [start for start in starts if FORKED not in start or "plain" in start]
            return
        fields = fields_of(records)
        for _ in range(self.options.again):
            if not differences(self.plain_fields[program], fields):
                break
            self.learn(program)
        left = differences(self.plain_fields[program], fields)
        count = self.counts[program]
        count["forked"] += len(records)
        count["fields"] = len(fixed(self.plain_fields[program]))
        count["all fields"] = len(self.plain_fields[program][0])
        self.out({"program": program, "runs": len(records), "differ": left})
        if left:
            self.differ.append((program, left))

    def learn_and_compare(self, program):
        with self.learning[program]:
            while len(self.plain_fields.get(program, [])) < self.options.plain:
                self.learn(program)
        self.compare(program)

    def attempted(self, what, program):
        try:
            what(program)
        except Exception as error:
            self.errors.append((program, repr(error)[:2000]))
            self.out({"program": program, "error": repr(error)[:4000]})

    def total(self):
        return sum(count["forked"] for count in self.counts.values())

    def goes_on(self):
        passed = time.monotonic() - self.began
        return passed < self.options.at_most and (passed < self.options.seconds or self.total() < self.options.runs)

    def run(self):
        with concurrent.futures.ThreadPoolExecutor(self.options.at_once) as pool:
            watch = Watch(self.forked.cluster.daemons["node-1"].pid, self.out)
            watch.start()
            while self.goes_on():
                turn = [
                    name for times in range(max(PROGRAMS.values())) for name in self.options.programs if times < PROGRAMS[name]
                ]
                list(pool.map(lambda name: self.attempted(self.learn_and_compare, name) if self.goes_on() else None, turn))
            watch.done.set()
            watch.join()
            with contextlib.suppress(Failed):  # the last sample shows what is left
                wait_for(
                    "the end of the workers", lambda: not any("__shim" in command(pid) for pid in descendants(watch.agent)), 30
                )
            watch.sample()
        return self.report(watch.samples)

    def report(self, samples):
        print(
            f"{self.total()} forked runs in {time.monotonic() - self.began:.0f} s; {len(self.differ)} differ; {len(self.errors)} errors"
        )
        for name, count in self.counts.items():
            plainly = len(count["other starts"])
            print(
                f"  {name}: {count['forked']} runs, {count['fields']} of {count.get('all fields', 0)} fields compared, {plainly} starts were plain"
            )
            for why in sorted(set(count["other starts"])):
                print(f"    {count['other starts'].count(why)} x {why}")
        for program, left in self.differ:
            print(f"  DIFFERS {program}: {json.dumps(left)[:2000]}")
        for program, error in self.errors:
            print(f"  ERROR {program}: {error}")
        print_growth(samples)
        return 1 if self.differ or self.errors or not self.total() else 0


def print_growth(samples):
    """Prints memory, descriptors and processes at the quarters of the time."""
    for part in range(5) if samples else ():
        sample = samples[min(len(samples) - 1, part * len(samples) // 4)]
        agent, total = sample["agent"], lambda what, name: sum(entry.get(name, 0) for entry in sample[what])  # noqa: B023
        print(
            f"  after {sample['at'] - samples[0]['at']} s: agent {agent.get('rss_kib', 0) >> 10} MiB, {agent.get('descriptors')} descriptors, "
            f"{agent.get('threads')} threads; {sample['processes']} processes below it; {len(sample['keepers'])} keepers with "
            f"{total('keepers', 'rss_kib')} KiB and {total('keepers', 'descriptors')} descriptors; {len(sample['templates'])} templates with "
            f"{total('templates', 'private_kib') >> 10} MiB of their own and {total('templates', 'descriptors')} descriptors"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=3600, help="of the watch: the forked runs go on for as long")
    parser.add_argument("--at-most", type=float, default=3 * 3600, help="then the runs end, however many they were")
    parser.add_argument("--plain", type=int, default=3, help="plain runs of each program before the first forked one")
    parser.add_argument("--again", type=int, default=5, help="plain runs more when a field differs")
    parser.add_argument("--at-once", type=int, default=3)
    parser.add_argument("--out", help="a file that gets a line of JSON for each run and each sample")
    parser.add_argument("programs", nargs="*", default=list(PROGRAMS))
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="warm-equal-"))
    comparison = Comparison(options, folder)
    try:
        return comparison.run()
    finally:
        comparison.plain.cluster.stop()
        comparison.forked.cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
