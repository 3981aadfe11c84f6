"""Tests the verbs about checkpoints: list, inspect, verify, metrics, restore on another cluster, storage gc."""

import json
import pathlib
import shutil

import pytest
from jobs_on_disk import ranks_job, write_job
from local_cluster import LocalCluster, wait_for


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Yields a cluster with two runs that have ended: one of two ranks with four checkpoints on a path, and one on
    cluster://.
    """
    folder = tmp_path_factory.mktemp("trained")
    cluster = LocalCluster(folder / "c", nodes=1, resources="CPU=2")
    try:
        cluster.rtrain("submit", ranks_job(folder, "path", 4, workers=2, storage_path=str(folder / "runs")))
        cluster.rtrain("submit", ranks_job(folder, "onhead", 2, workers=1))
        for name in ("path", "onhead"):
            cluster.wait_state(name, "SUCCEEDED", "FAILED")
            facts = cluster.json("describe", name)
            assert facts["state"] == "SUCCEEDED", facts["reason"] + cluster.run("logs", name, "--rank", "all").stdout
        yield cluster, folder / "runs"
    finally:
        cluster.stop()


def test_checkpoints_are_listed_the_same_by_name_and_by_path(trained):
    cluster, runs = trained
    by_name = [item["directory"] for item in cluster.json("checkpoints", "list", "path")["items"]]
    by_path = [item["directory"] for item in cluster.json("checkpoints", "list", runs / "path")["items"]]
    assert by_path == sorted(by_name) and len(by_path) == 4
    assert "checkpoint_000004-a001" in cluster.rtrain("checkpoints", "list", "path")
    assert sum(item["latest"] for item in cluster.json("checkpoints", "list", runs / "path")["items"]) == 1


@pytest.mark.parametrize("name", ["path", "onhead"])
def test_one_is_inspected_and_all_are_verified(trained, name):
    cluster, _ = trained
    shown = cluster.json("checkpoints", "inspect", name)
    assert shown["files"][0]["path"] == "rank-0.txt" and len(shown["files"][0]["sha256"]) == 64
    assert cluster.json("checkpoints", "inspect", f"{name}@{shown['directory']}")["directory"] == shown["directory"]
    assert "rank-0.txt" in cluster.rtrain("checkpoints", "inspect", name)
    assert cluster.json("checkpoints", "verify", name)["sound"] is True
    assert cluster.run("checkpoints", "inspect", f"{name}@checkpoint_000099-a001").returncode == 3


def test_metrics_are_listed_by_key(trained):
    cluster, _ = trained
    items = cluster.json("metrics", "path", "-k", "step")["items"]
    assert [item["metrics"] for item in items] == [{"step": step} for step in range(1, 5)]
    table = cluster.rtrain("metrics", "path", "--tail", "1").splitlines()
    assert table[0].split()[:2] == ["REPORT", "ATT"] and len(table) == 2
    assert cluster.run("metrics", "nothing").returncode == 3


def test_a_damaged_file_is_found(trained, tmp_path):
    cluster, runs = trained
    copy = tmp_path / "runs" / "path"
    copy.parent.mkdir()
    shutil.copytree(runs / "path", copy)
    (copy / "checkpoint_000002-a001" / "rank-1.txt").write_text("something else")
    done = cluster.run("checkpoints", "verify", copy, "-o", "json")
    assert done.returncode == 1
    states = {item["directory"]: item["state"] for item in json.loads(done.stdout)["items"]}
    assert states["checkpoint_000002-a001"] == "damaged" and states["checkpoint_000001-a001"] == "ok"


def test_a_run_goes_on_from_its_path_on_a_cluster_that_never_saw_it(trained, tmp_path):
    runs = shutil.copytree(trained[1], tmp_path / "moved")
    fresh = LocalCluster(tmp_path / "fresh", nodes=1, resources="CPU=2")
    try:
        program = json.loads((runs / "path" / "run.json").read_text())["job"]["entrypoint"]
        longer = json.dumps([*program[:2], "6", *program[3:]])
        dry = fresh.run("restore", runs / "path", "--dry-run")
        assert dry.returncode == 0 and "its last attempt, 1, ended SUCCEEDED" in dry.stderr, dry.stderr
        done = fresh.run("restore", runs / "path", "--set", f"entrypoint={longer}", "-f")
        assert done.returncode == 0, done.stderr + done.stdout
        assert "resumed at 4" in done.stdout
        facts = fresh.json("describe", "path")
        assert facts["attempt_list"][0]["number"] == 2 and facts["attempt_list"][0]["from"] == "checkpoint_000004-a001"
        assert len(fresh.json("checkpoints", "list", "path")["items"]) >= 2
        again = fresh.run("restore", f"{runs / 'path'}@checkpoint_000002-a001", "-f")
        assert again.returncode == 0 and "resumed at 2" in again.stdout, again.stderr
        assert fresh.run("restore", f"{runs / 'path'}@checkpoint_000099-a001").returncode == 3
    finally:
        fresh.stop()


def test_an_arrays_run_goes_on_as_the_one_it_was_and_waits_for_no_predecessor(tmp_path):
    runs = tmp_path / "runs"
    say = ["sh", "-c", 'echo "I am $RTRAIN_ARRAY_INDEX of $RTRAIN_ARRAY"']
    first = LocalCluster(tmp_path / "first", nodes=1, resources="CPU=1")
    try:
        first.rtrain("submit", write_job(tmp_path, "prepare", ["true"]))
        grid = write_job(tmp_path, "grid", say, storage_path=str(runs), after=["prepare"])
        first.rtrain("submit", grid, "--array", "3")
        first.wait_state("grid-3", "SUCCEEDED")
        member = write_job(tmp_path, "grid-3", say, storage_path=str(runs))
        for again in ("submit", member, "--resume", "-f"), ("restore", "grid-3", "-f"):
            done = first.run(*again)
            assert done.returncode == 0 and "I am 3 of grid" in done.stdout, done.stderr + done.stdout
        first.rtrain("restore", runs / "grid-3", "--set", "after=[prepare]")  # `after` waits again if it is given anew
        first.wait_state("grid-3", "SUCCEEDED")
    finally:
        first.stop()
    fresh = LocalCluster(tmp_path / "fresh", nodes=1, resources="CPU=1")
    try:
        for again in ("restore", runs / "grid-3", "-f"), ("submit", member, "--resume", "-f"):
            done = fresh.run(*again)
            assert done.returncode == 0 and "I am 3 of grid" in done.stdout, done.stderr + done.stdout
            run = fresh.json("describe", "grid-3")
            assert (run["array"], run["array_index"], run["after"]) == ("grid", 3, [])
        wrong = fresh.run("submit", member, "--resume", "--array", "1-2")
        assert wrong.returncode == 2
    finally:
        fresh.stop()


def test_restore_says_what_is_damaged_and_what_it_takes_instead(trained, tmp_path):
    cluster, runs = trained
    copy = shutil.copytree(runs / "path", tmp_path / "runs" / "path")
    (copy / "checkpoint_000004-a001" / ".manifest.json").write_text('{"torn')
    (copy / "attempts" / "000001" / "end.json").write_text('{"torn')
    dry = cluster.run("restore", copy, "--dry-run")
    assert dry.returncode == 0
    for words in ("how cannot be read", "passed over: checkpoint_000004-a001 is damaged", "/checkpoint_000003-a001"):
        assert words in dry.stderr, dry.stderr


def test_a_run_on_the_head_is_restored_from_there_after_its_record_is_gone(trained, tmp_path):
    cluster, _ = trained
    cluster.rtrain("submit", ranks_job(tmp_path, "kept", 2))
    cluster.wait_state("kept", "SUCCEEDED", "FAILED")
    cluster.rtrain("runs", "rm", "kept", "--yes")
    assert cluster.run("describe", "kept").returncode == 3
    program = json.loads(ranks_job(tmp_path, "other", 4).read_text())["entrypoint"]
    done = cluster.run("restore", "cluster://kept", "--set", f"entrypoint={json.dumps(program)}", "-f")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "resumed at 2" in done.stdout
    assert cluster.json("describe", "kept")["attempt_list"][0]["from"] == "checkpoint_000002-a001"


def test_restore_runs_the_code_of_the_newest_attempt_not_of_the_first(tmp_path):
    code, runs = tmp_path / "code", tmp_path / "runs"
    code.mkdir()
    job = write_job(tmp_path, "changed", ["sh", "say.sh"], working_dir="code", storage_path=str(runs))
    first = LocalCluster(tmp_path / "first", nodes=1, resources="CPU=1")
    try:
        for word, more in ("earlier", []), ("later", ["--resume"]):
            (code / "say.sh").write_text(f"echo the {word} code\n")
            done = first.run("submit", job, *more, "-f")
            assert done.returncode == 0 and f"the {word} code" in done.stdout, done.stderr + done.stdout
    finally:
        first.stop()
    claims = [json.loads(claim.read_text()) for claim in sorted((runs / "changed" / "attempts").glob("*.json"))]
    earlier, later = (claim["code_sha256"] for claim in claims)
    assert json.loads((runs / "changed" / "run.json").read_text())["code_sha256"] == earlier != later
    fresh = LocalCluster(tmp_path / "fresh", nodes=1, resources="CPU=1")
    try:
        assert json.loads(fresh.rtrain("restore", runs / "changed", "--dry-run", "-o", "json"))["code_sha256"] == later
        done = fresh.run("restore", runs / "changed", "-f")
        assert done.returncode == 0 and "the later code" in done.stdout, done.stderr + done.stdout
        del claims[-1]["code_sha256"]  # the claim has the format of an earlier version
        newest = sorted((runs / "changed" / "attempts").glob("*.json"))[-1]
        newest.write_text(json.dumps({**claims[-1], "number": 3}))
        assert json.loads(fresh.rtrain("restore", runs / "changed", "--dry-run", "-o", "json"))["code_sha256"] == earlier
    finally:
        fresh.stop()


def test_gc_removes_only_what_nobody_will_read(trained):
    cluster, runs = trained
    left = pathlib.Path(runs / "path" / "checkpoint_000077-a001")
    left.mkdir()
    (left / "rank-0.txt").write_text("half")
    listed = cluster.json("storage", "gc", runs, "--dry-run")
    assert [item["path"] for item in listed["items"]] == [str(left)] and left.exists()
    assert cluster.run("storage", "gc", runs).returncode == 2
    cluster.rtrain("storage", "gc", runs, "--yes")
    wait_for("it to go", lambda: not left.exists(), 5)
    assert cluster.json("checkpoints", "verify", runs / "path")["sound"] is True
    on_head = cluster.folder / "head" / "storage" / "onhead" / "checkpoint_000077-a001"
    on_head.mkdir()
    (on_head / "rank-0.txt").write_text("half")
    listed = cluster.json("storage", "gc", "cluster://onhead", "--dry-run")
    assert [item["path"] for item in listed["items"]] == [f"cluster://onhead/{on_head.name}"]
    cluster.rtrain("storage", "gc", "cluster://", "--yes")
    assert not on_head.exists() and cluster.json("checkpoints", "verify", "onhead")["sound"] is True
    away = cluster.run("storage", "gc", runs / "nowhere")
    assert away.returncode == 3 and "runs rm NAME --files" in away.stderr


def test_gc_leaves_a_run_alone_that_is_queued_to_go_on_from_a_dead_checkpoint(tmp_path):
    cluster = LocalCluster(tmp_path / "c", nodes=1, resources="CPU=1")
    runs = tmp_path / "runs"
    wanted = runs / "back" / "checkpoint_000003-a001"
    try:
        cluster.rtrain("submit", ranks_job(tmp_path, "back", 3, storage_path=str(runs)))
        cluster.wait_state("back", "SUCCEEDED", "FAILED")
        # Checkpoints 2 and 3 of attempt 1 are superseded from here on.
        cluster.rtrain("restore", f"{runs / 'back'}@checkpoint_000001-a001", "-f")
        dead = [str(runs / "back" / "checkpoint_000002-a001"), str(wanted)]
        listed = cluster.json("storage", "gc", runs, "--dry-run")
        assert [item["path"] for item in listed["items"]] == dead
        cluster.rtrain("node", "drain", "node-1")
        run = json.loads(cluster.rtrain("restore", f"{runs / 'back'}@{wanted.name}", "-o", "json"))["run_id"]
        assert cluster.json("describe", run)["state"] == "QUEUED"
        for place in (runs, runs / "back"):
            swept = cluster.run("storage", "gc", place, "--yes")
            assert swept.returncode == 0 and swept.stdout == "", swept.stdout + swept.stderr
            assert f"left alone: {runs}/back" in swept.stderr and run in swept.stderr and "QUEUED" in swept.stderr
        alone = cluster.run("storage", "gc", runs, "--dry-run", "-o", "json", "--address", "127.0.0.1:1")
        assert "no head could be asked" in alone.stderr and "127.0.0.1:1" in alone.stderr
        assert [item["path"] for item in json.loads(alone.stdout)["items"]] == dead
        refused = cluster.run("storage", "gc", runs, "--yes", "--token", "wrong")
        # A refused token, unlike an unreachable head, stops the command.
        assert refused.returncode == 6 and wanted.exists(), refused.stderr
        cluster.rtrain("node", "undrain", "node-1")
        cluster.wait_state(run, "SUCCEEDED", "FAILED")
        facts = cluster.json("describe", run)
        assert facts["state"] == "SUCCEEDED", facts["reason"]
        assert facts["attempt_list"][0]["from"] == wanted.name
    finally:
        cluster.stop()
