"""Injects faults into real daemons and workers: kill -9, full disks, floods, wrong secrets. Tests that nothing accepted is
lost.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest
from jobs_on_disk import ranks_job, write_job
from local_cluster import RTRAIN, LocalCluster, alive, free_port, wait_for
from small_disk import fill, small_disk


@pytest.fixture
def cluster(tmp_path):
    made = Patient(tmp_path / "cluster", nodes=2, resources="CPU=2")
    yield made
    made.stop()


def workers_of(cluster, run):
    return cluster.json("describe", run)["attempt_list"][-1]["workers"]


def checkpoints_of(cluster, run):
    return cluster.json("checkpoints", "list", run)["items"]


def reported(cluster, run):
    report = cluster.json("describe", run)["last_report"]
    return report["metrics"]["step"] if report else 0


def parent(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def test_a_killed_worker_takes_its_peers_along_and_the_run_goes_on_from_its_checkpoint(cluster, tmp_path):
    cluster.rtrain("submit", ranks_job(tmp_path, "worker", 30, 0.1, workers=4, max_failures=3, storage_path=str(tmp_path)))
    wait_for("two checkpoints", lambda: len(checkpoints_of(cluster, "worker")) >= 2)
    workers = workers_of(cluster, "worker")
    os.kill(workers[2]["pid"], signal.SIGKILL)
    wait_for("its peers to go", lambda: not any(alive(w["pid"]) for w in workers))
    cluster.wait_state("worker", "SUCCEEDED", "FAILED")
    facts = cluster.json("describe", "worker")
    assert facts["state"] == "SUCCEEDED" and len(facts["attempt_list"]) == 2
    assert facts["attempt_list"][0]["first_failure"]["rank"] == 2
    assert facts["attempt_list"][1]["from"].startswith("checkpoint_")
    assert "signal 9" in facts["attempt_list"][0]["cause"]


def test_a_killed_shim_kills_its_worker_and_the_run_recovers(cluster, tmp_path):
    cluster.rtrain("submit", ranks_job(tmp_path, "shim", 20, 0.2, workers=2, max_failures=3, storage_path=str(tmp_path)))
    wait_for("a checkpoint", lambda: checkpoints_of(cluster, "shim"))
    worker = workers_of(cluster, "shim")[0]["pid"]
    os.kill(parent(worker), signal.SIGKILL)
    wait_for("the worker to go", lambda: not alive(worker))
    cluster.wait_state("shim", "SUCCEEDED", "FAILED")
    assert cluster.json("describe", "shim")["state"] == "SUCCEEDED"


def test_workers_go_on_while_the_head_is_dead_and_it_comes_back_knowing_all(cluster, tmp_path):
    cluster.rtrain("submit", ranks_job(tmp_path, "head", 60, 0.1, workers=2, storage_path=str(tmp_path)))
    wait_for("reports", lambda: reported(cluster, "head") >= 3)
    before = [w["pid"] for w in workers_of(cluster, "head")]
    cluster.kill("head")
    there = len(list((tmp_path / "head").glob("checkpoint_*/.manifest.json")))
    wait_for(
        "checkpoints without a head", lambda: len(list((tmp_path / "head").glob("checkpoint_*/.manifest.json"))) >= there + 5
    )
    cluster.restart("head")
    assert [w["pid"] for w in workers_of(cluster, "head")] == before
    cluster.wait_state("head", "SUCCEEDED", "FAILED")
    facts = cluster.json("describe", "head")
    assert facts["state"] == "SUCCEEDED" and len(facts["attempt_list"]) == 1
    assert len(checkpoints_of(cluster, "head")) == 60
    assert len(cluster.json("metrics", "head")["items"]) == 60


def test_a_run_that_ends_while_the_head_is_dead_has_succeeded_when_it_is_back(cluster, tmp_path):
    cluster.rtrain("submit", ranks_job(tmp_path, "alone", 15, 0.1, workers=4, storage_path=str(tmp_path)))
    wait_for("a report", lambda: reported(cluster, "alone") >= 1)
    pids = [w["pid"] for w in workers_of(cluster, "alone")]
    cluster.kill("head")
    wait_for("the workers to end", lambda: not any(alive(pid) for pid in pids))
    cluster.restart("head")
    cluster.wait_state("alone", "SUCCEEDED", "FAILED")
    facts = cluster.json("describe", "alone")
    assert facts["state"] == "SUCCEEDED" and len(facts["attempt_list"]) == 1, facts["reason"]
    assert len(checkpoints_of(cluster, "alone")) == 15
    assert len(cluster.json("metrics", "alone")["items"]) == 15


@pytest.mark.parametrize("others", [(), ("node-1", "node-2")])
def test_what_a_run_kept_on_the_head_lacks_when_it_ends_without_it_comes_once_it_is_back(cluster, tmp_path, others):
    cluster.rtrain("submit", ranks_job(tmp_path, "late", 15, 0.3, workers=4))
    wait_for("a report", lambda: reported(cluster, "late") >= 1)
    pids = [w["pid"] for w in workers_of(cluster, "late")]
    run = pathlib.Path(cluster.json("status")["storage_root"]) / "late"
    cluster.kill("head")
    wait_for("the workers to end", lambda: not any(alive(pid) for pid in pids))
    for name in ("node-1", "node-2"):
        wait_for("a try in vain", lambda name=name: "logs are not beside the run" in (cluster.folder / f"{name}.log").read_text())
    for name in others:
        cluster.kill(name)
        cluster.restart(name)
    cluster.restart("head")
    cluster.wait_state("late", "SUCCEEDED", "FAILED")
    assert cluster.json("describe", "late")["state"] == "SUCCEEDED"
    assert checkpoints_of(cluster, "late")[-1]["directory"] == "checkpoint_000015-a001"
    logs = [run / "logs" / "attempt-000001" / f"rank-{rank:05}.out" for rank in range(4)]
    wait_for("the logs", lambda: all(log.exists() for log in logs))
    for rank, log in enumerate(logs):
        assert log.read_text().endswith(f"rank {rank} is through\n")
    rows = [json.loads(line) for line in (run / "attempts/000001/metrics-000001.jsonl").read_text().splitlines()]
    assert sorted({row["index"] for row in rows}) == list(range(1, 16))
    for name in ("node-1", "node-2"):
        wait_for("nothing to be kept there", lambda name=name: not list((cluster.folder / name / "attempts").iterdir()))


def test_logs_that_a_storage_did_not_take_come_with_the_next_agent(cluster, tmp_path):
    own = 'mkdir -p "$RTRAIN_SCRATCH_DIR/.rtrain-logs" && echo mine > "$RTRAIN_SCRATCH_DIR/.rtrain-logs/rank-00000-own.txt"'
    gate = tmp_path / "gate"
    before = f'{own}; until [ -e {gate} ]; do sleep 0.05; done; exec "$@"'
    cluster.rtrain("submit", ranks_job(tmp_path, "kept", 5, 0.1, storage_path=str(tmp_path), before=before))
    cluster.wait_state("kept", "RUNNING", "FAILED")
    node = workers_of(cluster, "kept")[0]["node"]
    logs, attempts = tmp_path / "kept" / "logs", cluster.folder / node / "attempts"
    logs.write_text("in the way")
    gate.touch()
    cluster.wait_state("kept", "SUCCEEDED", "FAILED")
    assert cluster.json("describe", "kept")["state"] == "SUCCEEDED"
    wait_for("a try in vain", lambda: "logs are not beside the run" in (cluster.folder / f"{node}.log").read_text())
    cluster.kill(node)
    logs.unlink()
    cluster.restart(node)
    copied = logs / "attempt-000001"
    wait_for("its files to go", lambda: not list(attempts.iterdir()))
    assert (copied / "rank-00000.out").read_text().endswith("rank 0 is through\n")
    assert (copied / "rank-00000-own.txt").read_text() == "mine\n"
    wait_for("the scratch to go", lambda: not list((cluster.folder / node / "scratch").iterdir()))


def wait_for_log(cluster, node, text):
    return wait_for(f"{node} to say '{text}'", lambda: text in (cluster.folder / f"{node}.log").read_text(), 180)


def without_its_logs(cluster, tmp_path, name):
    """Ends a run whose storage did not accept its logs; returns the node that has them."""
    own = 'mkdir -p "$RTRAIN_SCRATCH_DIR/.rtrain-logs" && echo mine > "$RTRAIN_SCRATCH_DIR/.rtrain-logs/rank-00000-own.txt"'
    job = ranks_job(tmp_path, name, 5, 0.1, storage_path=str(tmp_path / "runs"), before=f'{own}; exec "$@"')
    (tmp_path / "runs" / "other").mkdir(parents=True)
    (tmp_path / "runs" / "other" / "run.json").write_text("{}")
    cluster.rtrain("submit", job)
    wait_for("a report", lambda: reported(cluster, name) >= 1)
    node = workers_of(cluster, name)[0]["node"]
    (tmp_path / "runs" / name / "logs").write_text("in the way")
    cluster.wait_state(name, "SUCCEEDED", "FAILED")
    wait_for_log(cluster, node, "logs are not beside the run")
    return node


def nothing_is_kept(cluster, node):
    wait_for("its files to go", lambda: not list((cluster.folder / node / "attempts").iterdir()), 180)
    wait_for("its scratch to go", lambda: not list((cluster.folder / node / "scratch").iterdir()), 180)


@pytest.mark.parametrize("again", [False, True])
def test_what_storage_did_not_take_is_written_neither_into_a_removed_run_nor_into_the_next_of_its_name(cluster, tmp_path, again):
    run = tmp_path / "runs" / "gone"
    node = without_its_logs(cluster, tmp_path, "gone")
    cluster.kill(node)
    cluster.rtrain("runs", "rm", "gone", "--files", "--yes")
    assert not run.exists()
    if again:
        other = "node-2" if node == "node-1" else "node-1"
        fields = {"storage_path": str(run.parent), "scaling": {"nodes": [other]}}
        cluster.rtrain("submit", write_job(tmp_path, "gone", ["echo", "of the next one"], **fields))
        cluster.wait_state("gone", "SUCCEEDED", "FAILED")
        nothing_is_kept(cluster, other)
        assert (run / "logs" / "attempt-000001" / "rank-00000.out").read_text() == "of the next one\n"
    before = {path: path.read_bytes() for path in run.rglob("*") if path.name != "result.json" and path.is_file()}
    cluster.restart(node)
    nothing_is_kept(cluster, node)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.name != "result.json" and path.is_file()} == before
    assert bool(before) == run.exists() == again


@pytest.mark.parametrize("left", [{"ended.json"}, set()])
def test_an_attempt_whose_removal_was_cut_short_goes_at_the_next_start(cluster, tmp_path, left):
    node = without_its_logs(cluster, tmp_path, "kept")
    (ended,) = wait_for("the end to be noted", lambda: list((cluster.folder / node / "attempts").glob("*/ended.json")))
    cluster.kill(node)
    for entry in ended.parent.iterdir():
        if entry.name not in left:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    shutil.rmtree(cluster.folder / node / "scratch" / ended.parent.name)
    cluster.restart(node)
    nothing_is_kept(cluster, node)


@pytest.mark.parametrize("noted", [True, False])
@pytest.mark.parametrize("wrong", ["a file", "not mounted"])
def test_logs_stay_while_their_storage_is_not_what_it_should_be_at_the_start_of_an_agent(cluster, tmp_path, wrong, noted):
    """Without `noted`, the agent is killed before it records that no process of the attempt is left."""
    node = without_its_logs(cluster, tmp_path, "kept")
    runs, aside = tmp_path / "runs", tmp_path / "aside"
    attempts = cluster.folder / node / "attempts"
    (ended,) = wait_for("the end to be noted", lambda: list(attempts.glob("*/ended.json")))
    cluster.kill(node)
    if not noted:
        ended.rename(ended.with_name("image.json"))
    (runs / "kept" / "logs").unlink()
    runs.rename(aside)
    runs.write_text("") if wrong == "a file" else runs.mkdir()
    cluster.restart(node)
    wait_for_log(cluster, node, "it is a file, not a directory" if wrong == "a file" else "is it mounted?")
    acknowledged = f"rank-00000.out {len('rank 0 is through') + 1}"
    kept = cluster.folder / node / "attempts"
    wait_for("the head to have all", lambda: any(acknowledged in file.read_text() for file in kept.glob("*/logs/acknowledged")))
    cluster.rtrain("submit", write_job(tmp_path, "next", ["true"], scaling={"nodes": [node]}))
    cluster.wait_state("next", "SUCCEEDED", "FAILED")
    cluster.kill(node)
    assert list((cluster.folder / node / "attempts").iterdir())
    runs.rename(tmp_path / "was wrong")
    aside.rename(runs)
    cluster.restart(node)
    nothing_is_kept(cluster, node)
    copied = runs / "kept" / "logs" / "attempt-000001"
    assert (copied / "rank-00000.out").read_text().endswith("rank 0 is through\n")
    assert (copied / "rank-00000-own.txt").read_text() == "mine\n"


def test_start_directories_go_with_their_attempt_though_its_logs_stay(cluster, tmp_path):
    node = without_its_logs(cluster, tmp_path, "kept")
    attempts = cluster.folder / node / "attempts"
    wait_for("its start directory to go", lambda: not list(attempts.glob("*/rank-*/cwd")))
    assert list(attempts.glob("*/logs/rank-00000.out"))


def test_the_end_that_a_storage_did_not_take_comes_with_the_next_agent(cluster, tmp_path):
    cluster.rtrain("submit", ranks_job(tmp_path, "ends", 5, 0.1, storage_path=str(tmp_path)))
    wait_for("a report", lambda: reported(cluster, "ends") >= 1)
    node = workers_of(cluster, "ends")[0]["node"]
    end = tmp_path / "ends" / "attempts" / "000001" / "end.json"
    (end / "in the way").mkdir(parents=True)
    cluster.wait_state("ends", "SUCCEEDED", "FAILED")
    wait_for_log(cluster, node, "its end is not beside")
    cluster.kill(node)
    (end / "in the way").rmdir()
    end.rmdir()
    cluster.restart(node)
    wait_for("its end", end.exists)
    assert json.loads(end.read_text())["state"] == "SUCCEEDED"
    nothing_is_kept(cluster, node)


@pytest.mark.parametrize("dead", [("node-1",), ("node-2",), ("node-2", "node-1"), ("head", "node-1", "node-2")])
def test_workers_that_end_while_their_agent_is_dead_have_ended_well(cluster, tmp_path, dead):
    script = 'while [ ! -e "$0" ]; do read -t 0.05 x <> <(:) || true; done'
    cluster.rtrain("submit", write_job(tmp_path, "orphans", ["bash", "-c", script, str(tmp_path / "end")], workers=4))
    cluster.wait_state("orphans", "RUNNING")
    pids = [w["pid"] for w in workers_of(cluster, "orphans")]
    for name in dead:
        cluster.kill(name)
    (tmp_path / "end").touch()
    wait_for("the workers to end", lambda: not any(alive(pid) for pid in pids))
    for name in dead:
        cluster.restart(name)
    cluster.wait_state("orphans", "SUCCEEDED", "FAILED")
    facts = cluster.json("describe", "orphans")
    assert facts["state"] == "SUCCEEDED" and len(facts["attempt_list"]) == 1, facts["reason"]


@pytest.mark.parametrize(
    "order", [("worker", "agent"), ("agent", "worker"), ("shim", "head", "agent"), ("agent", "head", "shim")]
)
def test_a_worker_that_dies_with_its_daemons_is_started_again(cluster, tmp_path, order):
    cluster.rtrain("submit", ranks_job(tmp_path, "dead", 20, 0.2, workers=4, max_failures=3, storage_path=str(tmp_path)))
    wait_for("a checkpoint", lambda: checkpoints_of(cluster, "dead"))
    worker = next(w["pid"] for w in workers_of(cluster, "dead") if w["node"] == "node-1")
    kill = {
        "worker": lambda: os.kill(worker, signal.SIGKILL),
        "shim": lambda: os.kill(parent(worker), signal.SIGKILL),
        "agent": lambda: cluster.kill("node-1"),
        "head": lambda: cluster.kill("head"),
    }
    for what in order:
        kill[what]()
    wait_for("the worker to go", lambda: not alive(worker))
    for what, name in {"agent": "node-1", "head": "head"}.items():
        if what in order:
            cluster.restart(name)
    cluster.wait_state("dead", "SUCCEEDED", "FAILED")
    facts = cluster.json("describe", "dead")
    assert facts["state"] == "SUCCEEDED", facts["reason"]
    assert facts["attempt_list"][-1]["from"].startswith("checkpoint_")


def test_a_killed_agent_adopts_its_workers_when_it_is_back(cluster, tmp_path):
    cluster.rtrain("submit", ranks_job(tmp_path, "agent", 60, 0.1, workers=4, storage_path=str(tmp_path)))
    wait_for("reports", lambda: reported(cluster, "agent") >= 3)
    before = [w["pid"] for w in workers_of(cluster, "agent")]
    for name in ("node-2", "node-1"):
        cluster.kill(name)
        assert all(alive(pid) for pid in before)
        cluster.restart(name)
        seen = reported(cluster, "agent")
        wait_for("more reports", lambda seen=seen: reported(cluster, "agent") > seen + 2)
    cluster.wait_state("agent", "SUCCEEDED", "FAILED")
    facts = cluster.json("describe", "agent")
    assert facts["state"] == "SUCCEEDED" and len(facts["attempt_list"]) == 1, facts["reason"]


@pytest.mark.parametrize("order", [("head", "node-1"), ("node-1", "head")])
def test_head_and_agent_killed_together_lose_nothing(cluster, tmp_path, order):
    cluster.rtrain("submit", ranks_job(tmp_path, "both", 40, 0.1, workers=4, storage_path=str(tmp_path)))
    wait_for("reports", lambda: reported(cluster, "both") >= 3)
    for name in order:
        cluster.kill(name)
    for name in order:
        cluster.restart(name)
    cluster.wait_state("both", "SUCCEEDED", "FAILED")
    facts = cluster.json("describe", "both")
    assert facts["state"] == "SUCCEEDED" and len(facts["attempt_list"]) == 1, facts["reason"]
    assert len(checkpoints_of(cluster, "both")) == 40


def test_a_rank_that_ends_early_with_0_is_no_failure(cluster, tmp_path):
    script = "if [ $RANK = 0 ]; then exit 0; fi; i=0; while [ $i -lt 20 ]; do i=$((i+1)); read -t 0.05 x <> <(:) || true; done; echo late"
    cluster.rtrain("submit", write_job(tmp_path, "early", ["bash", "-c", script], workers=2))
    cluster.wait_state("early", "SUCCEEDED", "FAILED")
    assert cluster.json("describe", "early")["state"] == "SUCCEEDED"
    assert "late" in cluster.rtrain("logs", "early", "--rank", "1")


def test_a_hundred_megabytes_of_output_are_all_there(cluster, tmp_path):
    lines = 1_000_000
    script = f"seq -f '%099.0f' 1 {lines}"
    cluster.rtrain("submit", write_job(tmp_path, "flood", ["sh", "-c", script], storage_path=str(tmp_path)))
    cluster.wait_state("flood", "SUCCEEDED", "FAILED", seconds=180)
    kept = tmp_path / "flood" / "logs" / "attempt-000001" / "rank-00000.out"
    wait_for("the run's own copy of the log", kept.exists)
    with open(kept, "rb") as file:
        assert sum(1 for _ in file) == lines
    shown = cluster.rtrain("logs", "flood").splitlines()
    assert shown and shown[-1].endswith(str(lines))


def test_an_entrypoint_that_is_not_there_is_named(cluster, tmp_path):
    cluster.rtrain("submit", write_job(tmp_path, "absent", ["/no/such/program", "--x"]))
    cluster.wait_state("absent", "FAILED", "SUCCEEDED")
    facts = cluster.json("describe", "absent")
    assert facts["state"] == "FAILED" and "'/no/such/program' does not exist on this node" in facts["reason"], facts["reason"]
    assert "node-" in facts["reason"] and len(facts["attempt_list"]) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small tmpfs needs root")
def test_a_full_disk_is_named_training_goes_on_and_the_next_checkpoint_succeeds(cluster, tmp_path):
    with small_disk(tmp_path / "small", "16m") as small:
        cluster.rtrain("submit", ranks_job(tmp_path, "full", 1000, 0.1, storage_path=str(small)))
        wait_for("a checkpoint", lambda: checkpoints_of(cluster, "full"))
        with open(small / "in-the-way", "wb", buffering=0) as file:
            fill(file)
        wait_for("the disk to be named", lambda: str(small) in cluster.rtrain("events", "--run", "full"))
        failures = [line for line in scraped(cluster) if line.startswith("rtrain_checkpoint_failures_total{")]
        reasons = {line.partition('reason="')[2].partition('"')[0] for line in failures}
        assert {"storage_full"} <= reasons <= {"storage_full", "checkpoint_replaced"}, failures
        seen = reported(cluster, "full")
        wait_for("training to go on", lambda: reported(cluster, "full") > seen + 2)
        (small / "in-the-way").unlink()
        count = len(checkpoints_of(cluster, "full"))
        wait_for("the next checkpoint", lambda: len(checkpoints_of(cluster, "full")) > count)
        cluster.rtrain("stop", "full")
        cluster.wait_state("full", "STOPPED")


def scraped(cluster):
    """Returns the lines of the metrics that Prometheus would read."""
    token = re.search(r"rtu1\.[\w.]+", (cluster.folder / "config.yaml").read_text())[0]
    return cluster.fetched("/metrics", token).splitlines()


@pytest.mark.parametrize("has_pid_file", [True, False])
def test_a_second_head_on_one_data_directory_refuses(cluster, has_pid_file):
    if not has_pid_file:  # the second head then finds the lock instead of the pid file
        (cluster.folder / "head" / "head.pid").unlink()
    command = [RTRAIN, "head", "start", "--port", str(free_port()), "--data", str(cluster.folder / "head")]
    done = subprocess.run(command, env=cluster.env, capture_output=True, text=True, timeout=30)
    assert done.returncode == 7
    assert str(cluster.daemons["head"].pid) in done.stderr
    assert cluster.run("status").returncode == 0


def test_a_busy_port_names_its_owner(cluster, tmp_path):
    command = [RTRAIN, "head", "start", "--port", str(cluster.port), "--data", str(tmp_path / "other")]
    done = subprocess.run(command, env=cluster.env, capture_output=True, text=True, timeout=30)
    assert done.returncode == 7
    assert str(cluster.daemons["head"].pid) in done.stderr and "rtrain" in done.stderr


def test_a_gang_that_can_never_fit_waits_with_a_reason_or_is_refused(cluster, tmp_path):
    cluster.rtrain("submit", write_job(tmp_path, "huge", ["true"], workers=50))
    facts = cluster.json("describe", "huge")
    assert facts["state"] == "QUEUED" and facts["reason"]
    explained = cluster.rtrain("explain", "huge")
    assert "50 workers x 1 CPU" in explained and "No present nodes could ever hold it" in explained
    assert "holds 2 of 50 bundles   node-1 node-2" in explained, explained
    refused = cluster.run("submit", write_job(tmp_path, "never", ["true"], workers=50, scaling={"wait_for_nodes": False}))
    assert refused.returncode == 9 and "node-1" in refused.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small tmpfs needs root")
def test_a_head_whose_disk_is_full_takes_no_change_answers_questions_and_goes_on_once_there_is_room(tmp_path):
    with small_disk(tmp_path / "small", "16m") as small:
        cluster = LocalCluster(small / "cluster", nodes=0)
        try:
            agent = tmp_path / "node-1"  # the agent's data are on another disk
            cluster.folder, place = tmp_path, cluster.folder
            cluster.join("node-1", "CPU=1")
            cluster.folder = place
            wait_for("the node", lambda: cluster.ready_nodes() == 1)
            assert agent.exists()
            spec = write_job(tmp_path, "late", ["true"])
            reserve = place / "head" / "reserve"
            wait_for("the reserve", reserve.exists)
            reserve.unlink()
            with open(small / "in-the-way", "wb", buffering=0) as file:
                fill(file)

            def refused_submit():  # a submit may succeed while allocated database pages have room
                done = cluster.run("submit", spec, "--new")
                return done if done.returncode != 0 else None

            where = str(place / "head")
            for _ in range(2):  # the submit that finds the disk full, and a later one
                done = wait_for("a submit to be refused", refused_submit)
                assert where in done.stderr and "full" in done.stderr, done.stderr
                assert f"make room on the disk of {where}" in done.stderr, done.stderr
            assert cluster.json("nodes")["items"][0]["state"] == "READY"
            assert cluster.run("runs", "--all").returncode == 0
            assert where in (place / "head.log").read_text()
            (small / "in-the-way").unlink()
            # Storage outside the small disk, which has less room than the head keeps in reserve.
            (runs := tmp_path / "runs").mkdir()
            after = write_job(tmp_path, "after", ["true"], storage_path=str(runs))
            wait_for("a submit to be taken", lambda: cluster.run("submit", after).returncode == 0, seconds=20)
            cluster.wait_state("after", "SUCCEEDED")
            assert cluster.daemons["head"].poll() is None
        finally:
            cluster.stop()


class Patient(LocalCluster):
    def start_head(self):
        self.start("head", "head", "start", "--port", self.port, "--data", self.folder / "head", "--node-timeout", "5m")


def test_a_node_that_comes_late_to_a_shared_path_does_not_end_the_run(tmp_path):
    cluster = Patient(tmp_path / "cluster", nodes=2)
    late = cluster.daemons["node-2"]
    try:
        late.send_signal(signal.SIGSTOP)
        runs = tmp_path / "runs"
        cluster.rtrain("submit", ranks_job(tmp_path, "late", steps=1, workers=2, storage_path=str(runs)))
        probed = runs / "late" / ".staging" / "1" / "nodes" / "node-1"
        wait_for("node-1 to try the path", probed.exists)
        since = time.monotonic()
        wait_for("node-1 to have missed node-2 for long", lambda: time.monotonic() > since + 17 or run_ended(cluster, "late"))
        late.send_signal(signal.SIGCONT)
        cluster.wait_state("late", "SUCCEEDED", "FAILED")
        facts = cluster.json("describe", "late")
        assert facts["state"] == "SUCCEEDED" and len(facts["attempt_list"]) == 1, facts["reason"]
    finally:
        late.send_signal(signal.SIGCONT)
        cluster.stop()


def run_ended(cluster, run):
    return cluster.json("describe", run)["state"] in ("SUCCEEDED", "FAILED", "STOPPED")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
def test_a_full_disk_of_the_agent_does_not_turn_a_success_into_a_failure(tmp_path):
    cluster = LocalCluster(tmp_path / "cluster", nodes=0)
    try:
        with small_disk(cluster.folder / "node-1", "8m") as data:
            cluster.join("node-1", "CPU=1")
            go = tmp_path / "go"
            cluster.rtrain("submit", write_job(tmp_path, "full", ["sh", "-c", f"until [ -e {go} ]; do sleep 0.05; done"]))
            cluster.wait_state("full", "RUNNING", "FAILED")
            with open(data / "in-the-way", "wb", buffering=0) as file:
                fill(file)
            go.touch()
            cluster.wait_state("full", "SUCCEEDED", "FAILED")
            facts = cluster.json("describe", "full")
            assert facts["state"] == "SUCCEEDED", facts["reason"]
            cluster.stop()
    finally:
        cluster.stop()
