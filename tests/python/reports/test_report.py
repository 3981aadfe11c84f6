"""The calls of a training script: reports, checkpoints, resuming, requests, failures."""

import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import threading
import time

import pytest
from rtrain.train._report._call import ReportCall
from rtrain.train._run_directory import _shared_copy

REPORT = "import rtrain.train as t\nt.report({'loss': 0.5})\nprint('done')"


def test_a_report_reaches_the_agent_and_comes_back_past_the_barrier(agent, start):
    assert start(REPORT).finish() == "done\n"
    [report] = agent.frames("report")
    assert report["index"] == 1
    assert report["metrics"] == {"loss": 0.5}
    assert report["checkpoint"] is None


def test_a_library_of_an_older_release_takes_reports_too(agent, start):
    start(
        """
        import ctypes

        class Older(ctypes.CDLL):
            def __getattr__(self, name):
                if name == "rtw_report_metrics":
                    raise AttributeError(name)
                return super().__getattr__(name)

        ctypes.CDLL = Older
        import rtrain.train as t
        t.report({"loss": 0.5})
        """
    ).finish()
    assert [report["metrics"] for report in agent.frames("report")] == [{"loss": 0.5}]


def test_two_ranks_wait_for_each_other(agent, start):
    agent.world_size = 2
    first = start(REPORT, rank=0)
    agent.wait(lambda: len([f for f in agent.heard if f["type"] == "report"]) == 1)
    assert first.process.poll() is None
    second = start(REPORT, rank=1)
    assert first.finish() == second.finish() == "done\n"


def test_the_context_says_who_the_worker_is(agent, start):
    agent.world_size = 2
    out = start(
        """
        import rtrain.train
        c = rtrain.train.get_context()
        print(c.get_world_rank(), c.get_world_size(), c.get_local_rank(), c.get_node_rank(), c.get_experiment_name())
        """,
        rank=1,
    ).finish()
    assert out == "1 2 1 0 story\n"


def test_a_foreign_directory_is_copied_whole_and_may_be_deleted_after_report(agent, start, tmp_path):
    source = tmp_path / "mine"
    (source / "deep" / "er").mkdir(parents=True)
    (source / "model.bin").write_bytes(b"weights" * 1000)
    (source / "deep" / "er" / "empty").touch()
    (source / ".manifest.json").write_text("of an older checkpoint")
    os.symlink("model.bin", source / "latest")
    agent.commits_held = True
    start(
        f"""
        import shutil, rtrain.train as t
        t.report({{"epoch": 1}}, checkpoint=t.Checkpoint.from_directory({str(source)!r}), checkpoint_dir_name="best")
        shutil.rmtree({str(source)!r})
        """
    ).finish()
    [report] = agent.frames("report")
    assert report["checkpoint"]["directory_name"] == "best"
    kept = agent.storage / "checkpoint_000001-a003"
    names = {str(p.relative_to(kept)) for p in kept.rglob("*") if p.is_file()}
    assert names == {"model.bin", "deep/er/empty", "latest"}
    assert (kept / "latest").read_bytes() == b"weights" * 1000
    assert not (kept / "latest").is_symlink()


def test_a_directory_of_checkpoint_dir_is_taken_over_without_a_copy(agent, start):
    out = start(
        """
        import os, rtrain.train as t
        with t.checkpoint_dir() as d:
            with open(d + "/model", "w") as f:
                f.write("w")
            print(os.stat(d + "/model").st_ino)
            t.report({}, checkpoint=d)
        with t.checkpoint_dir() as unused:
            print(unused)
        """
    ).finish()
    inode, unused = out.split()
    assert (agent.storage / "checkpoint_000001-a003" / "model").stat().st_ino == int(inode)
    assert not pathlib.Path(unused).exists()
    assert len(agent.frames("stage")) == 2


def test_a_directory_given_away_is_moved(agent, start, tmp_path):
    source = tmp_path / "given"
    source.mkdir()
    (source / "model").write_text("w")
    inode = (source / "model").stat().st_ino
    start(f"import rtrain.train as t; t.report({{}}, {str(source)!r}, delete_local_checkpoint_after_upload=True)").finish()
    assert not source.exists()
    assert (agent.storage / "checkpoint_000001-a003" / "model").stat().st_ino == inode


def test_a_worker_resumes_from_the_checkpoint_it_is_welcomed_with_and_later_from_its_own(agent, start, tmp_path):
    before = tmp_path / "before"
    before.mkdir()
    agent.resume = {"path": str(before), "directory": "checkpoint_000004-a002", "metrics": {"epoch": 4, "loss": "NaN"}}
    out = start(
        """
        import math, rtrain.train as t
        c = t.get_checkpoint()
        print(c.name, c.metrics["epoch"], math.isnan(c.metrics["loss"]))
        with t.checkpoint_dir() as d:
            open(d + "/model", "w").close()
            t.report({"epoch": 5, "loss": float("inf")}, checkpoint=d)
        t.flush(10)
        c = t.get_checkpoint()
        with c.as_directory() as d:
            import os
            print(c.name, c.metrics, os.listdir(d))
        """
    ).finish()
    assert out.splitlines() == [
        "checkpoint_000004-a002 4 True",
        "checkpoint_000001-a003 {'epoch': 5, 'loss': inf} ['model']",
    ]


@pytest.mark.parametrize(("keep", "stays"), [("None", False), ("False", True)])
def test_explicit_async_removes_what_was_reported_once_every_rank_has_brought_it(agent, start, tmp_path, keep, stays):
    agent.world_size = 2
    source = tmp_path / "source"
    source.mkdir()
    (source / "model").write_text("weights")
    script = f"""
        import rtrain.train as t
        t.report({{}}, {str(source)!r}, checkpoint_upload_mode=t.CheckpointUploadMode.ASYNC, delete_local_checkpoint_after_upload={keep})
        """
    for worker in [start(script, rank) for rank in (0, 1)]:
        worker.finish()
    assert source.exists() is stays
    assert (agent.storage / "checkpoint_000001-a003" / "model").read_text() == "weights"
    assert all(report["checkpoint"] for report in agent.frames("report"))


def test_a_rank_that_wakes_late_keeps_what_another_one_wrote_into_the_directory_since(agent, start, tmp_path):
    agent.world_size = 2
    source = tmp_path / "source"
    source.mkdir()
    (source / "model").write_text("weights")
    script = f"""
        import os, pathlib, rtrain.train as t
        t.report({{}}, {str(source)!r}, checkpoint_upload_mode=t.CheckpointUploadMode.ASYNC)
        if os.environ["RANK"] == "0":
            pathlib.Path({str(source)!r}).mkdir()
            pathlib.Path({str(source)!r}, "model").write_text("of the next report")
        """
    late = start(script, 1)
    agent.wait(lambda: any(f["type"] == "report" for f in agent.heard))
    late.process.send_signal(signal.SIGSTOP)
    start(script, 0).finish()
    assert (source / "model").read_text() == "of the next report"
    late.process.send_signal(signal.SIGCONT)
    late.finish()
    assert (source / "model").read_text() == "of the next report"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["agent.sock", "source", "storage"]


def test_explicit_async_keeps_the_directory_when_another_rank_had_no_room_for_its_files(agent, start, tmp_path):
    agent.world_size = 2
    agent.no_room, agent.no_room_ranks = "no room on /runs", {1}
    for rank in (0, 1):
        (tmp_path / f"of-{rank}").mkdir()
        (tmp_path / f"of-{rank}" / "model").write_text("weights")
    script = f"""
        import os, rtrain.train as t
        directory = {str(tmp_path)!r} + "/of-" + os.environ["RANK"]
        t.report({{}}, directory, checkpoint_upload_mode=t.CheckpointUploadMode.ASYNC)
        """
    for worker in [start(script, rank) for rank in (0, 1)]:
        worker.finish()
    assert [bool(report["checkpoint"]) for report in sorted(agent.frames("report"), key=lambda f: f["from"])] == [True, False]
    assert [(tmp_path / f"of-{rank}" / "model").read_text() for rank in (0, 1)] == ["weights"] * 2


def test_explicit_async_keeps_a_committed_checkpoint_and_the_directory_that_the_loop_works_in(agent, start, tmp_path):
    committed = tmp_path / "committed"
    (committed / "inner").mkdir(parents=True)
    (committed / ".manifest.json").touch()
    start(f"""
        import os, pathlib, rtrain.train as t
        from rtrain.train import CheckpointUploadMode
        t.report({{}}, {str(committed)!r}, checkpoint_upload_mode=CheckpointUploadMode.ASYNC)
        pathlib.Path({str(tmp_path / "work" / "below")!r}).mkdir(parents=True)
        os.chdir({str(tmp_path / "work" / "below")!r})
        t.report({{}}, {str(tmp_path / "work")!r}, checkpoint_upload_mode=CheckpointUploadMode.ASYNC)
        """).finish()
    assert committed.is_dir()
    assert (tmp_path / "work" / "below").is_dir()


@pytest.mark.parametrize("needed", ["HOME", "run"])
def test_explicit_async_keeps_what_holds_the_home_directory_or_the_run_s(tmp_path, monkeypatch, needed):
    call = ReportCall(metrics_json="{}", directory=str(tmp_path / "all"), removed=True)
    run = tmp_path / "all" / "runs" / "one" if needed == "run" else tmp_path / "elsewhere"
    assert call.may_remove_directory("s3://bucket/runs/one")
    if needed == "HOME":
        monkeypatch.setenv("HOME", str(tmp_path / "all" / "me"))
    assert not call.may_remove_directory(str(run))


@pytest.mark.parametrize(
    "inside", ["another/run.json", "another/one/run.json", "copies/rtrain-checkpoints-UID/k.copy/model", "python/bin"]
)
def test_explicit_async_keeps_what_others_need(tmp_path, monkeypatch, inside):
    (tmp_path / inside.replace("UID", str(os.getuid()))).mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "copies"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "python"))
    for one in tmp_path.iterdir():
        assert not ReportCall(metrics_json="{}", directory=str(one), removed=True).may_remove_directory("s3://bucket/runs/one")


@pytest.mark.parametrize("part", ["", "model"])
def test_explicit_async_keeps_the_copy_of_a_checkpoint_that_is_read(tmp_path, monkeypatch, part):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with _shared_copy.shared_copy("key", lambda to: (to / "model").mkdir()) as copy:
        call = ReportCall(metrics_json="{}", directory=f"{copy}/{part}", removed=True)
        assert not call.may_remove_directory("s3://bucket/runs/one")


def test_a_shared_copy_that_somebody_removed_is_fetched_again(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with _shared_copy.shared_copy("key", lambda to: (to / "model").touch()) as copy:
        shutil.rmtree(copy)
        with _shared_copy.shared_copy("key", lambda to: (to / "model").touch()) as again:
            assert os.listdir(again) == ["model"]


def test_explicit_async_keeps_a_part_of_a_committed_checkpoint(tmp_path):
    (tmp_path / "committed" / "model").mkdir(parents=True)
    call = ReportCall(metrics_json="{}", directory=str(tmp_path / "committed" / "model"), removed=True)
    assert call.may_remove_directory("s3://bucket/runs/one")
    (tmp_path / "committed" / ".manifest.json").touch()
    assert not call.may_remove_directory("s3://bucket/runs/one")


def test_explicit_async_keeps_all_where_nobody_knows_what_is_needed(tmp_path, monkeypatch):
    def unknown() -> pathlib.Path:
        raise RuntimeError("Could not determine home directory.")

    call = ReportCall(metrics_json="{}", directory=str(tmp_path), removed=True)
    with monkeypatch.context() as changed:
        changed.setattr(pathlib.Path, "home", unknown)
        assert not call.may_remove_directory("s3://bucket/runs/one")
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert not call.may_remove_directory("s3://bucket/runs/one")


BRINGS_ONE = """
import os, sys, time, rtrain.train as t
with t.checkpoint_dir() as d:
    open(d + "/model", "w").close()
    t.report({"epoch": 1}, checkpoint=d if os.environ["RANK"] == "0" else None)
print("reported", flush=True)
sys.stdin.readline()
begun = time.monotonic()
found = t.get_checkpoint()
print(found and found.name, time.monotonic() - begun < 5, flush=True)
"""


def test_get_checkpoint_waits_for_the_commit_of_the_report_before_it_on_every_rank(agent, start):
    agent.world_size = 2
    agent.commits_held = True
    workers = [start(BRINGS_ONE, rank) for rank in (0, 1)]
    for worker in workers:
        assert worker.line() == "reported"
        worker.go()
    threading.Timer(0.5, agent.release_commits).start()
    assert [worker.line() for worker in workers] == ["checkpoint_000001-a003 True"] * 2


@pytest.mark.parametrize("why", ["given up", "agent away", "storage away"])
def test_get_checkpoint_does_not_wait_for_what_does_not_come(agent, start, why):
    agent.commits_held = True
    worker = start(BRINGS_ONE)
    assert worker.line() == "reported"
    if why == "agent away":
        agent.stop()
    elif why == "given up":
        agent.say_all({"type": "committed", "index": 1, "directory": "", "path": "", "error": None})
    else:
        agent.say_all({"type": "reported", "index": 1, "directory": ""})
    worker.go()
    assert worker.line() == "None True"
    if why == "agent away":
        agent.start()


def test_another_thread_reports_while_get_checkpoint_waits(agent, start):
    agent.commits_held = True
    worker = start(
        """
        import threading, rtrain.train as t
        with t.checkpoint_dir() as d:
            t.report({"epoch": 1}, checkpoint=d)
        threading.Thread(target=lambda: print(t.get_checkpoint().name, flush=True)).start()
        print("waits", flush=True)
        for epoch in range(2, 6):
            t.report({"epoch": epoch})
        print("reported", flush=True)
        """
    )
    assert worker.line() == "waits"
    begun = time.monotonic()
    assert worker.line() == "reported"
    assert time.monotonic() - begun < 20  # the wait for a commit may take 30 s
    agent.release_commits()
    assert worker.finish() == "checkpoint_000001-a003\n"


def test_get_checkpoint_gives_the_one_before_with_a_warning_once_a_commit_has_taken_30_s(agent, start):
    agent.commits_held = True
    worker = start(BRINGS_ONE + "print(t.get_checkpoint(), time.monotonic() - begun < 60)")
    assert worker.line() == "reported"
    worker.go()
    out, err = worker.process.communicate(timeout=120)
    assert out == "None False\nNone True\n", err  # the second call does not wait again
    assert err.count("the checkpoint of report 1 is still being stored: get_checkpoint gives the one before") == 1


def test_the_first_start_has_no_checkpoint(agent, start):
    assert start("import rtrain.train as t; print(t.get_checkpoint())").finish() == "None\n"


def test_a_wish_for_a_checkpoint_is_seen_and_ends_when_one_is_brought(agent, start):
    worker = start(
        """
        import os, sys, time, rtrain.train as t
        print(t.should_checkpoint(), flush=True)
        sys.stdin.readline()
        until = time.monotonic() + 30  # a wish is told by the way: its frame may still be unread here
        while not t.should_checkpoint() and time.monotonic() < until:
            os.sched_yield()
        print(t.should_checkpoint())
        t.report({})
        print(t.should_checkpoint())
        with t.checkpoint_dir() as d:
            t.report({}, checkpoint=d)
        print(t.should_checkpoint())
        """
    )
    assert worker.line() == "False"
    agent.want(1)
    worker.go()
    assert worker.finish().split() == ["True", "True", "False"]


def test_a_stop_ends_the_wait_of_a_rank_whose_peers_are_gone(agent, start):
    agent.world_size = 2
    worker = start(REPORT)
    agent.wait(lambda: any(f["type"] == "report" for f in agent.heard))
    agent.want(2)
    worker.finish(expect=143)
    assert agent.frames("fail") == []


def test_an_upload_that_failed_for_good_is_raised_by_a_later_report(agent, start):
    agent.commit_error[1] = "403 Forbidden"
    out = start(
        """
        import rtrain.train as t
        with t.checkpoint_dir() as d:
            try:
                t.report({}, checkpoint=d)
                t.report({})
            except t.CheckpointUploadError as error:
                print(error)
        t.report({})
        """
    ).finish()
    assert "report 1" in out
    assert "403 Forbidden" in out
    assert agent.frames("report")[-1]["metrics"] == {}


def test_the_traceback_of_an_uncaught_exception_is_the_cause(agent, start):
    err = start("import rtrain.train\ndef train():\n    raise ValueError('bad batch')\ntrain()").finish(expect=1)
    assert "bad batch" in err
    agent.wait(lambda: any(f["type"] == "fail" for f in agent.heard))
    [fail] = agent.frames("fail")
    lines = fail["text"].splitlines()
    assert lines[0] == "ValueError: bad batch"
    assert ":3, in train" in lines[1]  # from Python 3.13 on, the line of a `-c` script follows
    assert "Traceback (most recent call last):" in lines


def test_the_heartbeat_beats_while_the_interpreter_is_stuck(agent, start):
    start(
        """
        import ctypes, rtrain.train as t
        t.report({})
        ctypes.PyDLL(None).sleep(60)  # keeps the interpreter's lock: no Python thread runs any more
        """
    )
    agent.wait(lambda: any(f["type"] == "pulse" and f["silent_ms"] >= 900 for f in agent.heard))


def test_only_the_worker_itself_reports_not_its_forked_children(agent, start):
    out = start(
        """
        import os, rtrain.train as t
        t.report({"from": "parent"})
        read, write = os.pipe()
        if os.fork() == 0:
            try:
                t.report({"from": "child"})
            except ValueError as error:
                os.write(write, str(error).encode())
            os._exit(0)
        os.wait()
        print(os.read(read, 1000).decode())
        t.report({"from": "parent"})
        """
    ).finish()
    assert "forked" in out
    assert [r["metrics"]["from"] for r in agent.frames("report")] == ["parent", "parent"]


def test_outside_of_a_worker_every_call_says_so(agent, start):
    out = start(
        """
        import rtrain.train as t
        for call in (lambda: t.report({}), t.get_checkpoint, t.get_context, t.should_checkpoint, t.scratch_dir):
            try:
                call()
            except RuntimeError as error:
                print(error)
        """,
        RTRAIN_WORKER_SOCKET="",
    ).finish()
    lines = out.splitlines()
    assert len(lines) == 5
    assert all("cannot be used outside of an rtrain training function" in line and "rtrain submit" in line for line in lines)


HEAVY = {"torch", "numpy", "pyarrow", "pandas", "cloudpickle", "transformers", "lightning", "ssl", "asyncio"}


@pytest.mark.parametrize("statement", ["import rtrain", "from rtrain import train", "from rtrain.train import report"])
def test_importing_the_package_imports_nothing_heavy(statement, start):
    out = start(f"{statement}\nimport sys\nprint(sorted({HEAVY!r} & set(sys.modules)))").finish()
    assert out == "[]\n"


def test_submodules_are_there_when_they_are_named(start):
    script = "import sys, rtrain\nprint('torch' in sys.modules, rtrain.train.torch.TorchTrainer.__name__, 'torch' in sys.modules)"
    assert start(script).finish() == "False TorchTrainer True\n"


def test_json_on_the_wire_is_strict(agent, start):
    start("import rtrain.train as t; t.report({'a': float('nan'), 'b': -float('inf')})").finish()
    metrics = agent.frames("report")[0]["metrics"]
    assert metrics == {"a": "NaN", "b": "-Infinity"}
    json.dumps(metrics, allow_nan=False)
