"""Tests what agents do around an attempt: rendezvous port, hangs, isolation, log limit, scratch directory, exit status."""

import json
import os
import pathlib
import signal

import pytest
from jobs_on_disk import JOBS, write_job
from local_cluster import LocalCluster, alive, wait_for


class WithQuota(LocalCluster):
    """A cluster whose agents have a quota for scratch directories."""

    def command(self, name, *arguments):
        quota = ["--scratch-quota", "1Mi"] if arguments[:2] == ("node", "join") else []
        return super().command(name, *arguments, *quota)


@pytest.fixture
def cluster(tmp_path):
    made = WithQuota(tmp_path / "cluster", nodes=1, resources="CPU=4")
    yield made
    made.stop()


def end_of(folder, run, attempt=1):
    path = pathlib.Path(folder) / run / "attempts" / f"{attempt:06}" / "end.json"
    return json.loads(wait_for(f"{path.name} of {run}", lambda: path.exists() and path.read_text()))


def test_a_rendezvous_port_that_is_taken_is_tried_again_with_another_and_not_counted(cluster, tmp_path):
    entrypoint = ["python", str(JOBS / "takes_the_port.py"), str(tmp_path)]
    policy = {"max_failures": 0, "backoff": "100ms..1s"}
    cluster.rtrain("submit", write_job(tmp_path, "taken", entrypoint, failure=policy, storage_path=str(tmp_path)))
    cluster.wait_state("taken", "SUCCEEDED", "FAILED")
    facts = cluster.json("describe", "taken")
    assert facts["state"] == "SUCCEEDED" and len(facts["attempt_list"]) == 2, facts["reason"]
    assert "in use" in facts["attempt_list"][0]["cause"]
    ports = (tmp_path / "ports").read_text().split()
    assert len(ports) == 2 and ports[0] != ports[1]


def test_how_an_attempt_ended_is_written_beside_it(cluster, tmp_path):
    script = "if [ $RANK = 1 ]; then echo no such layer >&2; exit 3; fi; read x <> <(:)"
    cluster.rtrain("submit", write_job(tmp_path, "ends", ["bash", "-c", script], workers=2, storage_path=str(tmp_path)))
    cluster.wait_state("ends", "FAILED")
    end = wait_for(
        "the head's words", lambda: (record := end_of(tmp_path, "ends")) and "exited with code 3" in record["cause"] and record
    )
    assert end["state"] == "FAILED" and end["first_failure_rank"] == 1
    assert end["ranks"]["1"] == {"exit_code": 3, "signal": None, "detail": "no such layer"}
    assert end["started_wall_ms"] <= end["ended_wall_ms"]
    cluster.rtrain("submit", write_job(tmp_path, "well", ["true"], storage_path=str(tmp_path)))
    cluster.wait_state("well", "SUCCEEDED")
    assert end_of(tmp_path, "well")["state"] == "SUCCEEDED"


def test_a_rank_that_hangs_is_killed_and_named(cluster, tmp_path):
    policy = {"max_failures": 0, "hang_timeout": "2s"}
    backend = {"name": "gloo", "timeout_s": 1}
    job = write_job(tmp_path, "hangs", ["python", str(JOBS / "hangs.py")], workers=2, failure=policy, backend=backend)
    cluster.rtrain("submit", job)
    cluster.wait_state("hangs", "FAILED", "SUCCEEDED")
    facts = cluster.json("describe", "hangs")
    assert facts["state"] == "FAILED" and "failure.hang_timeout" in facts["reason"], facts["reason"]
    assert facts["attempt_list"][0]["first_failure"]["rank"] == 1
    where = cluster.rtrain("logs", "hangs", "--rank", "1", "--stream", "err")
    assert "rtrain: rank 1: it has done nothing for" in where and "where it is:" in where
    assert "hangs.py" in where and "threading.py" in where, where


def test_stack_prints_where_each_rank_is_and_ends_nobody(cluster, tmp_path):
    cluster.rtrain("submit", write_job(tmp_path, "where", ["python", str(JOBS / "hangs.py")], workers=2))
    wait_for("the first report", lambda: (cluster.json("describe", "where")["last_report"] or {}).get("index") == 1)
    printed = cluster.rtrain("stack", "where")
    assert printed.count("where it is:") == 2 and "rank 0 | " in printed and "hangs.py" in printed, printed
    one = cluster.rtrain("stack", "where", "--rank", "1")
    assert one.count("where it is:") == 1 and "threading.py" in one and "rank 0" not in one, one
    whole = cluster.json("stack", "where")["items"]
    assert {line["rank"] for line in whole} == {0, 1} and any("threading.py" in line["line"] for line in whole)
    assert all(
        json.loads(line)["rank"] == 1 for line in cluster.rtrain("stack", "where", "--rank", "1", "-o", "jsonl").splitlines()
    )
    assert cluster.run("stack", "where", "--rank", "2").returncode == 2
    cluster.rtrain("submit", write_job(tmp_path, "mute", ["sleep", "600"]))
    cluster.wait_state("mute", "RUNNING", "STARTING")
    wait_for("its process", lambda: cluster.json("describe", "mute")["attempt_list"][0]["workers"][0]["pid"] > 0)
    assert "cannot be told: no process of it is Python" in cluster.rtrain("stack", "mute")
    for name in ("where", "mute"):
        assert cluster.json("describe", name)["state"] in ("RUNNING", "STARTING")
        cluster.rtrain("stop", name, "--wait")
    assert cluster.run("stack", "where").returncode == 7


def test_stack_says_which_ranks_do_not_answer_and_keeps_to_one_document(cluster, tmp_path):
    cluster.rtrain("submit", write_job(tmp_path, "held", ["python", str(JOBS / "holds.py")], workers=2))
    for rank in (0, 1):
        wait_for(f"rank {rank}", lambda at=rank: "in" in cluster.rtrain("logs", "held", "--rank", at).split())
    whole = cluster.json("stack", "held")  # works although rank 0 holds the GIL
    assert whole["silent"] == [] and whole["away"] == [], whole
    assert {line["rank"] for line in whole["items"] if "(most recent call first)" in line["line"]} == {0, 1}
    assert any("in held_in_c" in line["line"] for line in whole["items"] if line["rank"] == 0)

    pid = cluster.json("describe", "held")["attempt_list"][0]["workers"][1]["pid"]
    os.kill(pid, signal.SIGSTOP)
    for form in ("json", "jsonl", "yaml"):
        late = cluster.run("stack", "held", "--timeout", "5s", "-o", form)
        assert late.returncode == 8 and "rank 1 has not answered" in late.stderr, late.stderr
        assert late.stderr.count("rank 0") == 0 and "SIGSTOP" in late.stderr
        if form == "json":
            document = json.loads(late.stdout)
            assert document["silent"] == [1] and any("in held_in_c" in line["line"] for line in document["items"])
        if form == "jsonl":
            assert all(json.loads(line)["schema_version"] for line in late.stdout.splitlines())
    people = cluster.run("stack", "held", "--timeout", "5s")
    assert people.returncode == 8 and "in held_in_c" in people.stdout and "rank 1 has not answered" in people.stderr
    os.kill(pid, signal.SIGCONT)
    assert cluster.json("stack", "held")["silent"] == []
    cluster.rtrain("stop", "held", "--wait")


def test_an_isolated_agent_ends_its_attempts_by_itself(cluster, tmp_path):
    policy = {"isolation_timeout": "1s"}
    cluster.rtrain("submit", write_job(tmp_path, "alone", ["sleep", "600"], workers=2, failure=policy))
    cluster.wait_state("alone", "RUNNING")
    pids = [worker["pid"] for worker in cluster.json("describe", "alone")["attempt_list"][-1]["workers"]]
    cluster.kill("head")
    wait_for("the workers to be ended", lambda: not any(alive(pid) for pid in pids))
    cluster.restart("head")
    cluster.wait_state("alone", "FAILED")
    assert "failure.isolation_timeout" in cluster.rtrain("events", "--run", "alone")


def test_a_log_longer_than_its_limit_keeps_its_first_and_newest_lines_and_says_so(cluster, tmp_path):
    fields = {"logs": {"max": "64Ki"}, "storage_path": str(tmp_path)}
    cluster.rtrain("submit", write_job(tmp_path, "flood", ["seq", "1", "1000000"], **fields))
    cluster.wait_state("flood", "SUCCEEDED")
    kept = wait_for("the log", lambda: list(tmp_path.glob("flood/logs/attempt-000001/rank-00000.out")))[0].read_text()
    assert kept.startswith("1\n2\n3\n") and kept.endswith("999999\n1000000\n") and len(kept) < (64 << 10) + 200
    assert "bytes of this log are missing here" in kept
    shown = cluster.rtrain("logs", "flood").splitlines()  # the head may have received more than its node keeps
    assert shown[0] == "1" and shown[-1] == "1000000"


def test_a_scratch_directory_beyond_its_quota_is_named_and_emptied_with_the_attempt(cluster, tmp_path):
    script = 'head -c 3000000 /dev/urandom > "$TMPDIR/heap"; while [ ! -e "$0" ]; do read -t 0.05 x <> <(:) || true; done'
    cluster.rtrain("submit", write_job(tmp_path, "scratch", ["bash", "-c", script, str(tmp_path / "go")]))
    wait_for("the quota to be named", lambda: "--scratch-quota" in cluster.rtrain("events", "--run", "scratch"))
    assert list(cluster.folder.glob("node-1/scratch/*/heap"))
    (tmp_path / "go").touch()
    cluster.wait_state("scratch", "SUCCEEDED")
    wait_for("the scratch to be empty", lambda: not list(cluster.folder.glob("node-1/scratch/*/*")))


def test_a_storage_of_the_head_that_takes_no_file_is_named_by_the_node_that_found_out(cluster, tmp_path):
    storage = cluster.folder / "head" / "storage"
    if storage.is_dir():
        storage.rename(storage.with_suffix(".away"))
    storage.write_text("a file in the way")
    cluster.rtrain("submit", write_job(tmp_path, "nowhere", ["true"]))
    wait_for("the node to be named", lambda: "node-1: storage path cluster://" in cluster.rtrain("events", "--run", "nowhere"))


@pytest.mark.skipif(not os.access("/sys/fs/cgroup/unified/cgroup.procs", os.W_OK), reason="no cgroup v2 that may be written")
def test_an_attempt_has_a_cgroup_of_its_own_where_the_machine_lets_it(cluster, tmp_path):
    cluster.rtrain("submit", write_job(tmp_path, "grouped", ["sleep", "600"], workers=2))
    cluster.wait_state("grouped", "RUNNING")
    pids = [worker["pid"] for worker in cluster.json("describe", "grouped")["attempt_list"][-1]["workers"]]
    groups = {
        line for pid in pids for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines() if line.startswith("0::")
    }
    (group,) = groups
    assert "/rtrain-node-1-" in group
    there = pathlib.Path("/sys/fs/cgroup/unified") / group.removeprefix("0::/")
    assert there.is_dir()
    cluster.rtrain("stop", "grouped")
    cluster.wait_state("grouped", "STOPPED")
    wait_for("the group to go", lambda: not there.exists())
