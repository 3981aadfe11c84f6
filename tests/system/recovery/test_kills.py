"""Kills all participants in orders drawn from a seed. Tests that a run succeeds and that no process is left over."""

import json
import os
import pathlib
import random
import signal
import threading

import pytest
from jobs_on_disk import JOBS, ranks_job, write_job
from local_cluster import LocalCluster, wait_for

STEPS = 40
ROUNDS = 3
AHEAD = 32  # upper limit of the reports that a rank writes before its agent has received them
DAEMONS = ("head", "node-1", "node-2")


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_one_run_survives_kills_in_any_order(tmp_path, seed):
    dice = random.Random(seed)
    cluster = LocalCluster(tmp_path / "cluster", nodes=2, resources="CPU=2")
    try:
        spec = ranks_job(tmp_path, "chaos", STEPS, 0.1, workers=4, max_failures=50, storage_path=str(tmp_path))
        cluster.rtrain("submit", spec)
        for _ in range(ROUNDS):
            wait_for("progress", lambda: ended(cluster) or training(cluster))
            strike(cluster, dice)
        cluster.wait_state("chaos", "SUCCEEDED", "FAILED", seconds=300)
        facts = cluster.json("describe", "chaos")
        assert facts["state"] == "SUCCEEDED", facts["reason"]
        holds_together(cluster, facts)
        ranks_agree(cluster, "chaos", tmp_path)
        wait_for("every worker to be gone", lambda: not workers_alive(tmp_path))
    finally:
        cluster.stop()
    done = cluster.run("head", "verify", "--data", cluster.folder / "head")
    assert done.returncode == 0, done.stderr


def test_a_worker_that_says_hello_to_the_next_agent_begins_as_the_others_do(tmp_path):
    cluster = LocalCluster(tmp_path / "cluster", nodes=2, resources="CPU=2")
    gate = tmp_path / "gate"
    wait = f'while [ $TORCHELASTIC_RESTART_COUNT != 0 ] && [ ! -e {gate} ]; do read -t 0.05 x <> <(:) || true; done; exec "$@"'
    try:
        spec = ranks_job(tmp_path, "hello", 12, 0.1, workers=4, max_failures=5, storage_path=str(tmp_path), before=wait)
        cluster.rtrain("submit", spec)
        wait_for("checkpoints", lambda: len(cluster.json("checkpoints", "list", "hello")["items"]) >= 3)
        os.kill(workers_of(cluster, "hello")[3]["pid"], signal.SIGKILL)
        wait_for("all ranks of the second attempt", lambda: processes_of(cluster, "hello", attempt=2) == 4)
        cluster.kill("node-1")
        cluster.restart("node-1")
        wait_for("its node to be back", lambda: cluster.ready_nodes() == 2)
        gate.touch()
        cluster.wait_state("hello", "SUCCEEDED", "FAILED")
        assert len(cluster.json("describe", "hello")["attempt_list"]) == 2
        ranks_agree(cluster, "hello", tmp_path)
    finally:
        cluster.stop()


def test_no_report_is_lost_with_an_agent_while_the_ranks_go_on(tmp_path):
    count = 12_000
    cluster = LocalCluster(tmp_path / "cluster", nodes=1, resources="CPU=3")
    try:
        spec = write_job(tmp_path, "quick", ["python", str(JOBS / "reports.py"), str(count)], 3, storage_path=str(tmp_path))
        cluster.rtrain("submit", spec)
        for share in (0.1, 0.3, 0.5):
            wait_for("reports", lambda share=share: newest_report(cluster, "quick") > share * count)
            cluster.kill("node-1")
            cluster.restart("node-1")
        cluster.wait_state("quick", "SUCCEEDED", "FAILED")
        facts = cluster.json("describe", "quick")
        assert facts["state"] == "SUCCEEDED" and len(facts["attempt_list"]) == 1, facts["reason"]
        assert facts["last_report"]["index"] == count
        rows = [json.loads(line) for line in journal(tmp_path / "quick").splitlines()]
        seen = {row["index"]: row["metrics"] for row in rows}
        assert list(seen) == list(range(1, count + 1))
        assert all(ranks[str(rank)]["number"] == index for index, ranks in seen.items() for rank in range(3))
        # The next agent writes reports again that the killed one wrote without a confirmation.
        assert len(rows) - count <= 3 * AHEAD
    finally:
        cluster.stop()


def newest_report(cluster, run):
    report = cluster.json("describe", run)["last_report"]
    return report["index"] if report else 0


def journal(run):
    return "".join(path.read_text() for path in sorted(run.glob("attempts/*/metrics-*.jsonl")))


def workers_of(cluster, run):
    return cluster.json("describe", run)["attempt_list"][-1]["workers"]


def processes_of(cluster, run, attempt):
    attempts = cluster.json("describe", run)["attempt_list"]
    return sum(1 for one in attempts[-1]["workers"] if one["pid"]) if len(attempts) == attempt else 0


def ranks_agree(cluster, run, storage):
    """Checks that all files of a checkpoint are of the same step."""
    for one in cluster.json("checkpoints", "list", run)["items"]:
        folder = storage / run / one["directory"]
        texts = {path.name: path.read_text() for path in folder.glob("rank-*.txt")}
        assert len(texts) == 4 and len(set(texts.values())) == 1, f"{folder}: {texts}"


def ended(cluster):
    return cluster.json("describe", "chaos")["state"] in ("SUCCEEDED", "FAILED")


def training(cluster):
    facts = cluster.json("describe", "chaos")
    return facts["state"] == "RUNNING" and facts["last_report"] is not None


def strike(cluster, dice):
    """Kills two to five processes among workers, shims, head and agents, with pauses up to 0.5 s. Restarts the daemons."""
    order = dice.sample([*DAEMONS, "worker", "shim"], dice.randint(2, 5))
    print("killing", *order)
    workers = cluster.json("describe", "chaos")["attempt_list"][-1]["workers"]
    for what in order:
        if what in DAEMONS:
            cluster.kill(what)
        elif workers:
            kill_below(workers[dice.randrange(len(workers))]["pid"], what)
        pause(dice)
    dead = [name for name in DAEMONS if name in order]
    dice.shuffle(dead)
    for name in dead:
        cluster.start(name, *arguments_of(cluster, name))
        pause(dice)
    wait_for("the head", cluster.healthy)


def pause(dice):
    """Waits a random time between two faults, as their order and distance are tested."""
    threading.Event().wait(dice.choice([0, 0, 0.02, 0.1, 0.5]))


def arguments_of(cluster, name):
    if name == "head":
        return ["head", "start", "--port", cluster.port, "--data", cluster.folder / "head"]
    return cluster.join_arguments[name]


def kill_below(pid, what):
    """Kills a worker, or its shim. `pid` is the worker's pid in the head's records, so the process may not exist yet or any
    more.
    """
    try:
        if not pid or not is_worker(pid):
            return
        if what == "shim":
            stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
            pid = int(stat.rsplit(")", 1)[1].split()[1])
            if b"__shim" not in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                return
        os.kill(pid, signal.SIGKILL)
    except (FileNotFoundError, ProcessLookupError):
        pass  # the process has ended by itself


def is_worker(pid):
    return b"RTRAIN_ATTEMPT=" in pathlib.Path(f"/proc/{pid}/environ").read_bytes()


def holds_together(cluster, facts):
    """Checks that attempt numbers increase, that each attempt resumes from a committed checkpoint, and that every step was
    reported.
    """
    kept = [one["directory"] for one in cluster.json("checkpoints", "list", "chaos")["items"]]
    numbers = [attempt["number"] for attempt in facts["attempt_list"]]
    assert numbers == sorted(set(numbers))
    assert [attempt["state"] for attempt in facts["attempt_list"]].count("SUCCEEDED") == 1
    for attempt in facts["attempt_list"]:
        assert not attempt["from"] or attempt["from"] in kept
    assert facts["latest_checkpoint"] == kept[-1]
    steps = {row["metrics"]["step"] for row in cluster.json("metrics", "chaos")["items"]}
    assert steps == set(range(1, STEPS + 1))


def workers_alive(folder):
    """Returns the processes of this test's run, which it recognizes by their environment."""
    pids = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            variables = (entry / "environ").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if b"RTRAIN_ATTEMPT=" in variables and os.fsencode(f"{folder}/") in variables:
            pids.append(int(entry.name))
    return pids
