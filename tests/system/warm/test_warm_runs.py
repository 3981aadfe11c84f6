"""Tests runs on a node that joined with --warm: forks after the first run, adoption, kills of the keeper, separate users."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys

import pytest
from jobs_on_disk import write_job
from local_cluster import RTRAIN, WarmCluster, wait_for

HOLDS = """
import os, pathlib, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo")
one = torch.ones(1)
dist.all_reduce(one)
print("sum", one.item(), os.getppid(), flush=True)
gate = pathlib.Path(sys.argv[1], "go-" + os.environ["RANK"])
if not gate.exists():
    os.mkfifo(gate)
pathlib.Path(sys.argv[1], os.environ["RANK"]).touch()
gate.open().read()
dist.barrier()
dist.destroy_process_group()
"""
ENDS = "pass\n"  # any script gets a template, as the template depends on the environment alone


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = WarmCluster(tmp_path_factory.mktemp("warm") / "cluster", nodes=1, resources="CPU=4")
    yield made
    made.stop()


def job(folder, name, script, *arguments, **fields):
    (folder / f"{name}.py").write_text(script)
    return write_job(folder, name, [sys.executable, str(folder / f"{name}.py"), *map(str, arguments)], **fields)


def notices(cluster, run):
    """Returns the node's notices of the run's starts, in their order."""
    return [event["text"] for event in cluster.json("events", "--run", run)["items"] if event["kind"] == "WorkerStarts"]


def templates(cluster):
    """Returns the pids of the templates in the agent's log."""
    lines = (cluster.folder / "node-1.log").read_text().splitlines()
    return [int(line.split("pid ")[1].split(",")[0]) for line in lines if "a template of warm workers is ready" in line]


def made_template(cluster, folder, name, **fields):
    """Runs a job and waits for a template of its environment, which COLOUR identifies. Returns the template's pid."""
    mark = f"COLOUR={fields['env']['COLOUR']}".encode()
    cluster.rtrain("submit", job(folder, name, ENDS, **fields))
    cluster.wait_state(name, "SUCCEEDED", "FAILED")
    return wait_for("a template", lambda: next(iter(with_colour(cluster, mark)), None), 120)


def with_colour(cluster, mark):
    return {pid for pid in templates(cluster) if mark in environment_of(pid)}


def environment_of(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return []


def parent_of(pid):
    with contextlib.suppress(OSError):
        state, parent = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
        return 0 if state == "Z" else int(parent)
    return 0


def workers_of(cluster, run):
    return {w["rank"]: w["pid"] for w in cluster.json("describe", run)["attempt_list"][-1]["workers"] if w.get("pid")}


def holding(cluster, folder, name, **fields):
    """Submits a run of two ranks that wait. Returns its gate and pids once the head has recorded both ranks and how they
    started.
    """
    gate = folder / f"{name}-gate"
    gate.mkdir()
    cluster.rtrain("submit", job(folder, name, HOLDS, gate, workers=2, **fields))
    wait_for("both ranks", lambda: (gate / "0").exists() and (gate / "1").exists(), 120)
    pids = wait_for("the head to know both", lambda: known if len(known := workers_of(cluster, name)) == 2 else None)
    wait_for("the head to know how they started", lambda: notices(cluster, name))
    return gate, pids


def let_go(gate):
    for rank in "01":
        (gate / f"go-{rank}").open("w").close()


def test_the_first_run_starts_plainly_and_the_next_is_forked(cluster, tmp_path):
    template = made_template(cluster, tmp_path, "first", env={"COLOUR": "first"})
    assert notices(cluster, "first") == ["node-1: rank 0: a plain start: its template is not made yet"]
    gate, pids = holding(cluster, tmp_path, "second", env={"COLOUR": "first"})
    keeper = parent_of(template)
    assert [parent_of(pid) for pid in pids.values()] == [keeper, keeper]
    assert notices(cluster, "second") == ["node-1: ranks 0,1: forked from a warm template"]
    shown = [line.split(maxsplit=1) for line in cluster.rtrain("describe", "second").splitlines() if line]
    assert ["starts", "node-1: ranks 0,1: forked from a warm template"] in shown
    assert cluster.json("describe", "second")["notice"] is None
    assert b"RANK=1" in environment_of(pids[1])
    assert not [entry for entry in environment_of(template) if entry.startswith(b"RTRAIN_ATTEMPT")]
    let_go(gate)
    cluster.wait_state("second", "SUCCEEDED")
    assert f"sum 2.0 {keeper}" in cluster.rtrain("logs", "second")


def test_a_killed_worker_is_told_and_the_next_attempt_is_forked_too(cluster, tmp_path):
    made_template(cluster, tmp_path, "before-kill", env={"COLOUR": "kill"})
    gate, pids = holding(cluster, tmp_path, "killed", env={"COLOUR": "kill"}, failure={"max_failures": 1, "backoff": "100ms..1s"})
    for rank in "01":
        (gate / rank).unlink()
    os.kill(pids[1], signal.SIGKILL)
    wait_for("the next attempt", lambda: (gate / "0").exists() and (gate / "1").exists(), 120)
    let_go(gate)
    cluster.wait_state("killed", "SUCCEEDED")
    assert notices(cluster, "killed") == ["node-1: ranks 0,1: forked from a warm template"] * 2
    first = cluster.json("describe", "killed")["attempt_list"][0]
    assert first["cause"] == "rank 1 on node-1: killed by signal 9"


def test_forked_workers_outlive_their_agent_and_are_adopted(cluster, tmp_path):
    template = made_template(cluster, tmp_path, "before-adoption", env={"COLOUR": "adopted"})
    gate, pids = holding(cluster, tmp_path, "adopted", env={"COLOUR": "adopted"})
    cluster.kill("node-1")
    wait_for("the end of the template", lambda: parent_of(template) == 0)
    cluster.restart("node-1")
    wait_for("the node", lambda: cluster.ready_nodes() == 1)
    assert workers_of(cluster, "adopted") == pids
    let_go(gate)
    cluster.wait_state("adopted", "SUCCEEDED")
    assert len(cluster.json("describe", "adopted")["attempt_list"]) == 1
    again = wait_for("a template made ahead", lambda: next(iter(with_colour(cluster, b"COLOUR=adopted") - {template}), None), 120)
    cluster.rtrain("submit", job(tmp_path, "ahead", ENDS, env={"COLOUR": "adopted"}))
    cluster.wait_state("ahead", "SUCCEEDED")
    assert again and notices(cluster, "ahead") == ["node-1: rank 0: forked from a warm template"]


def test_the_kill_of_a_keeper_ends_its_workers_and_the_next_are_forked_from_the_standby(cluster, tmp_path):
    first = made_template(cluster, tmp_path, "before-keeper", env={"COLOUR": "keeper"})
    gate, pids = holding(
        cluster, tmp_path, "orphans", env={"COLOUR": "keeper"}, failure={"max_failures": 1, "backoff": "100ms..1s"}
    )
    wait_for("the standby", lambda: with_colour(cluster, b"COLOUR=keeper") - {first}, 120)
    for rank in "01":
        (gate / rank).unlink()
    os.kill(parent_of(pids[0]), signal.SIGKILL)
    wait_for("the next attempt", lambda: (gate / "0").exists() and (gate / "1").exists(), 120)
    assert [parent_of(pid) for pid in pids.values()] == [0, 0]
    wait_for("both notices", lambda: len(notices(cluster, "orphans")) == 2)
    assert notices(cluster, "orphans") == ["node-1: ranks 0,1: forked from a warm template"] * 2
    wait_for("the template to be made again", lambda: len(with_colour(cluster, b"COLOUR=keeper")) == 2, 120)
    let_go(gate)
    cluster.wait_state("orphans", "SUCCEEDED")


def test_templates_that_fail_again_have_a_pause_and_describe_says_so(cluster, tmp_path):
    fields = {"env": {"COLOUR": "fails"}}
    first = made_template(cluster, tmp_path, "fails-1", **fields)
    os.kill(first, signal.SIGKILL)
    wait_for("its end", lambda: parent_of(first) == 0)
    cluster.rtrain("submit", job(tmp_path, "fails-2", ENDS, **fields))
    cluster.wait_state("fails-2", "SUCCEEDED")
    assert notices(cluster, "fails-2") == ["node-1: rank 0: a plain start: its template is not made yet"]
    second = wait_for("the next template", lambda: next(iter(with_colour(cluster, b"COLOUR=fails") - {first}), None), 120)
    os.kill(second, signal.SIGKILL)
    wait_for("its end", lambda: parent_of(second) == 0)
    wait_for("the agent's word", lambda: (cluster.folder / "node-1.log").read_text().count("killed by signal 9") >= 2)
    cluster.rtrain("submit", job(tmp_path, "fails-3", ENDS, **fields))
    cluster.wait_state("fails-3", "SUCCEEDED")
    why = "its templates have failed 2 times in a row (the last: the template was killed by signal 9), and none is made for 60 s"
    assert f"node-1: rank 0: a plain start: {why}" in cluster.rtrain("describe", "fails-3")


def test_users_of_one_unix_user_share_no_template(cluster, tmp_path):
    made_template(cluster, tmp_path, "admins", env={"COLOUR": "users"})
    token = cluster.json("token", "create", "--role", "user", "--user", "ann")["token"]
    path = job(tmp_path, "anns", ENDS, env={"COLOUR": "users"})
    before = cluster.env.pop("RTRAIN_TOKEN", None)
    cluster.env["RTRAIN_TOKEN"] = token
    try:
        cluster.rtrain("submit", path)
        cluster.wait_state("anns", "SUCCEEDED", "FAILED")
        assert notices(cluster, "anns") == ["node-1: rank 0: a plain start: its template is not made yet"]
    finally:
        cluster.env.pop("RTRAIN_TOKEN")
        if before is not None:
            cluster.env["RTRAIN_TOKEN"] = before


def test_what_does_not_fit_is_said_and_a_secret_is_in_no_template(cluster, tmp_path, monkeypatch):
    cluster.rtrain("submit", write_job(tmp_path, "shell", ["sh", "-c", "true"]))
    cluster.wait_state("shell", "SUCCEEDED")
    assert notices(cluster, "shell") == ["node-1: rank 0: a plain start: its program is not python"]
    monkeypatch.setitem(cluster.env, "API_KEY", "never-in-a-template")
    template = made_template(cluster, tmp_path, "secretive", secrets=["API_KEY"], env={"COLOUR": "secret"})
    assert b"never-in-a-template" not in b" ".join(environment_of(template))
    script = "import os\nprint('key', os.environ['API_KEY'])\n"
    cluster.rtrain("submit", job(tmp_path, "uses", script, secrets=["API_KEY"], env={"COLOUR": "secret"}))
    cluster.wait_state("uses", "SUCCEEDED")
    assert notices(cluster, "uses") == ["node-1: rank 0: forked from a warm template"]


def test_the_preload_is_imported_once_and_a_broken_one_starts_plainly(cluster, tmp_path):
    fields = {"env": {"COLOUR": "preload"}, "python": {"preload": ["wave"]}}
    made_template(cluster, tmp_path, "with-wave", **fields)
    script = "import sys\nprint('wave', 'wave' in sys.modules)\n"
    cluster.rtrain("submit", job(tmp_path, "has-wave", script, **fields))
    cluster.wait_state("has-wave", "SUCCEEDED")
    assert "wave True" in cluster.rtrain("logs", "has-wave")
    assert "No module named 'no_such_module'" in refusal(cluster, tmp_path, "broken", "no_such_module")


def refusal(cluster, folder, name, module, text="", has_template=False):
    """Returns the start notice of the second run whose preload is that module with that text."""
    modules = folder / f"{name}-modules"  # apart from the jobs' scripts, as a change in a module folder makes a template stale
    modules.mkdir()
    if text:
        (modules / f"{module}.py").write_text(text)
    fields = {"env": {"COLOUR": name, "PYTHONPATH": str(modules)}, "python": {"preload": [module]}}
    log = cluster.folder / "node-1.log"
    word = "a template of warm workers is ready" if has_template else "no template of warm workers: "
    before = log.read_text().count(word)
    for number in (1, 2):
        cluster.rtrain("submit", job(folder, f"{name}-{number}", ENDS, **fields))
        cluster.wait_state(f"{name}-{number}", "SUCCEEDED")
        wait_for("the word of the template", lambda: log.read_text().count(word) > before, 120)
    (text_of_start,) = notices(cluster, f"{name}-2")
    assert ": a plain start: " in text_of_start
    return text_of_start


def test_modules_that_have_looked_for_gpus_are_in_no_worker(cluster, tmp_path):
    library = tmp_path / "libnvidia-ml.so.1"
    library.write_bytes(b"\0" * 4096)
    counts = f"import mmap\nfile = open('{library}', 'r+b')\nlibrary = mmap.mmap(file.fileno(), 0)\n"
    assert "have counted the GPUs when they were imported" in refusal(cluster, tmp_path, "counts", "counts_gpus", counts)
    chooses = "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '0'\n"
    assert "have set CUDA_VISIBLE_DEVICES" in refusal(cluster, tmp_path, "chooses", "chooses_gpus", chooses)
    begun = "import torch\ntorch.cuda._is_in_bad_fork = lambda: True\n"
    assert "have asked CUDA for GPUs" in refusal(cluster, tmp_path, "begun", "begins_cuda", begun, has_template=True)


def test_an_import_that_hangs_holds_up_no_other_users_template_and_ends_with_its_run(cluster, tmp_path):
    modules, pid = tmp_path / "modules", tmp_path / "pid"
    modules.mkdir()
    text = f"import os, pathlib, time\npathlib.Path({str(pid)!r}).write_text(str(os.getpid()))\ntime.sleep(600)\n"
    (modules / "hangs.py").write_text(text)
    script = "import time\ntime.sleep(600)\n"
    fields = {"env": {"COLOUR": "hangs", "PYTHONPATH": str(modules)}, "python": {"preload": ["hangs"]}}
    path = job(tmp_path, "hangs", script, **fields)
    token = cluster.json("token", "create", "--role", "user", "--user", "ana")["token"]
    env = {**cluster.env, "RTRAIN_TOKEN": token}
    subprocess.run([RTRAIN, "submit", path], env=env, check=True, capture_output=True)
    wait_for("the import to hang", lambda: pid.exists() and pid.read_text(), 60)
    importing = int(pid.read_text())
    assert made_template(cluster, tmp_path, "of-another", env={"COLOUR": "of-another"})
    assert parent_of(importing)
    cluster.rtrain("stop", "hangs")
    cluster.wait_state("hangs", "STOPPED")
    wait_for("the import to end", lambda: not parent_of(importing), 60)
