"""report() with CheckpointUploadMode.ASYNC and a checkpoint_upload_fn: the function runs behind the loop, and no
report is lost.

Each function waits for an event that the loop sets after `report` has returned. A function that ran inside of
`report` would never end.
"""

import fcntl
import os
import shutil

import pytest
from rtrain.train._report._left_over import LeftOver

BEGIN = """
import os, pathlib, shutil, sys, threading
import rtrain.train as t
from rtrain.train import Checkpoint, CheckpointUploadMode

ASYNC = CheckpointUploadMode.ASYNC
run = pathlib.Path(t.get_context().get_run_path())
returned = threading.Event()

def bring(checkpoint, name):
    assert returned.wait(60), "report() waits for its checkpoint_upload_fn"
    with checkpoint.as_directory() as folder:
        shutil.copytree(folder, run / name)
    return Checkpoint(str(run / name))

def report(step, **more):
    t.report({"step": step}, Checkpoint.from_dict({"step": step}), checkpoint_upload_mode=ASYNC, checkpoint_upload_fn=bring, **more)
"""


def test_report_returns_before_the_function_has_run_and_the_order_of_reports_stays(agent, start):
    out = start(
        BEGIN
        + """
report(1)
print(t.should_checkpoint(), t.get_context().get_world_rank())  # these wait for nothing
returned.set()
t.report({"step": 2})
report(3)
print(t.get_checkpoint().name)
t.flush()
"""
    ).finish()
    assert out.splitlines() == ["False 0", "checkpoint_000003-a003"]
    assert [(one["index"], one["metrics"]["step"], bool(one["checkpoint"])) for one in agent.frames("report")] == [
        (1, 1, True),
        (2, 2, False),
        (3, 3, True),
    ]
    assert (agent.storage / "story" / "checkpoint_r000001-a003" / "dict_checkpoint.pkl").is_file()


def test_a_script_that_ends_meanwhile_waits_and_its_function_may_start_threads(agent, start):
    start(
        BEGIN
        + """
from concurrent.futures import ThreadPoolExecutor

def last(checkpoint, name):
    assert ended.wait(60)
    with ThreadPoolExecutor() as pool:
        return pool.submit(bring, checkpoint, name).result()

ended = threading.Event()
returned.set()
t.report({}, Checkpoint.from_dict({"a": 1}), checkpoint_upload_mode=ASYNC, checkpoint_upload_fn=last)
threading._register_atexit(ended.set)  # once the script's last line has run
"""
    ).finish()
    [report] = agent.frames("report")
    assert report["checkpoint"] is not None


FAILS = """
def fails(checkpoint, name):
    returned.wait(60)
    raise ConnectionResetError("the bucket is gone")

t.report({"step": 1}, Checkpoint.from_dict({}), "best", checkpoint_upload_mode=ASYNC, checkpoint_upload_fn=fails)
returned.set()
"""


@pytest.mark.parametrize("work", ["threading.Event().wait(600)", "sum(iter(lambda: 0, 1))", "t.report({'step': 2})", "t.flush()"])
def test_an_error_of_the_function_ends_the_rank_at_once_whatever_its_loop_does(agent, start, work):
    output = start(
        BEGIN
        + FAILS
        + f"""
try:
    {work}
finally:
    print("the loop has gone on")
"""
    ).finish(expect=1)
    assert "report 1, best: checkpoint_upload_fn failed behind the loop: ConnectionResetError: the bucket is gone" in output
    assert "the loop has gone on" not in output
    [fail] = agent.frames("fail")
    assert "ConnectionResetError: the bucket is gone" in fail["text"] and "in fails" in fail["text"], fail["text"]
    assert agent.frames("report") == []


def test_an_error_of_the_function_at_the_script_s_end_fails_the_process(agent, start):
    script = FAILS.replace("returned.set()", "threading._register_atexit(returned.set)")
    output = start(BEGIN + script).finish(expect=1)
    assert "report 1, best: checkpoint_upload_fn failed" in output and "ConnectionResetError: the bucket is gone" in output
    agent.wait(lambda: any(one["type"] == "fail" for one in agent.heard))
    [fail] = agent.frames("fail")
    assert "the bucket is gone" in fail["text"]
    assert agent.frames("report") == []


def test_a_place_that_cannot_be_a_checkpoint_ends_the_rank_at_once(agent, start):
    output = start(
        BEGIN
        + """
t.report({}, Checkpoint.from_dict({}), checkpoint_upload_mode=ASYNC, checkpoint_upload_fn=lambda checkpoint, name: Checkpoint("/nowhere"))
threading.Event().wait(600)
"""
    ).finish(expect=1)
    assert "checkpoint_upload_fn gave /nowhere, which is not a directory" in output


def test_several_reports_return_at_once_and_are_made_in_their_order(agent, start):
    out = start(
        BEGIN
        + """
running = []

def bring_alone(checkpoint, name):
    running.append(name)
    assert len(running) == 1
    made = bring(checkpoint, name)
    running.remove(name)
    return made

for step in range(1, 9):
    t.report({"step": step}, Checkpoint.from_dict({"step": step}), checkpoint_upload_mode=ASYNC, checkpoint_upload_fn=bring_alone)
print("all have returned", t.should_checkpoint())
returned.set()
"""
    ).finish()
    assert out == "all have returned False\n"
    assert [(one["index"], one["metrics"]["step"], bool(one["checkpoint"])) for one in agent.frames("report")] == [
        (step, step, True) for step in range(1, 9)
    ]


def test_a_report_beyond_those_that_may_wait_waits_and_says_so(agent, start):
    worker = start(
        BEGIN
        + """
def let_go():
    sys.stdin.readline()
    returned.set()

threading.Thread(target=let_go).start()
for step in range(1, 18):
    report(step)
print("17 have returned", flush=True)
report(18)
print("18 too", returned.is_set())
"""
    )
    assert worker.line() == "17 have returned"
    assert worker.process.stderr is not None
    message = worker.process.stderr.readline()
    worker.go()
    assert worker.finish() == "18 too True\n"
    assert message.startswith("rtrain: report 18, checkpoint_000018 waits in report(): 16 reports, which is the most, wait"), (
        message
    )
    assert "that of report 1, checkpoint_000001 has run for" in message
    assert [one["metrics"]["step"] for one in agent.frames("report")] == list(range(1, 19))


def test_the_loop_makes_directories_while_a_report_waits_for_other_ranks(agent, start, tmp_path):
    agent.world_size = 2
    first = start(
        BEGIN
        + """
returned.set()
report(1)  # is made once rank 1 has come
while not (run / "checkpoint_r000001-a003").is_dir():
    pass
with t.checkpoint_dir() as directory:
    pathlib.Path(directory, "weights").write_text("w")
    print("made", flush=True)
    sys.stdin.readline()
    t.report({"step": 2}, Checkpoint(directory))
print(pathlib.Path(directory).exists())
t.flush()
""",
        RTRAIN_SCRATCH_DIR=str(tmp_path),
    )
    assert first.line() == "made"
    other = start("import rtrain.train as t\nfor step in (1, 2): t.report({'step': step})", rank=1)
    first.go()
    assert first.finish() == "False\n"
    other.finish()
    assert [bool(one["checkpoint"]) for one in agent.frames("report") if one["from"] == 0] == [True, True]


def test_a_script_that_fails_waits_for_no_function(agent, start):
    output = start(
        BEGIN
        + """
report(1)  # its function waits for what never comes
raise KeyError("as planned")
"""
    ).finish(expect=1)
    assert "KeyError: 'as planned'" in output
    assert agent.frames("report") == []


def test_a_rank_that_reports_so_and_one_that_does_not_meet_in_the_same_reports(agent, start):
    agent.world_size = 2
    other = "import rtrain.train as t\nfor step in (1, 2): t.report({'step': step})\nt.collective.barrier()"
    plain = start(other, rank=1)
    start(BEGIN + "report(1)\nreturned.set()\nt.report({'step': 2})\nt.collective.barrier()\n", rank=0).finish()
    plain.finish()
    assert sorted((one["index"], one["from"], one["metrics"]["step"]) for one in agent.frames("report")) == [
        (1, 0, 1),
        (1, 1, 1),
        (2, 0, 2),
        (2, 1, 2),
    ]


def test_a_directory_that_the_function_waits_for_need_not_be_there_yet(agent, start):
    """DCP's async_save makes it later."""
    start(
        BEGIN
        + """
made = run / "7"

def saved(checkpoint, name):
    assert returned.wait(60)
    made.mkdir(parents=True)
    (made / "shard").write_text("s")
    return checkpoint

t.report({}, Checkpoint(str(made)), checkpoint_upload_mode=ASYNC, checkpoint_upload_fn=saved)
returned.set()
t.flush()

def nothing(checkpoint, name):
    return Checkpoint(str(run / "never"))

t.report({}, Checkpoint(str(made)), checkpoint_upload_mode=ASYNC, checkpoint_upload_fn=nothing)
t.flush()
"""
    ).finish(expect=1)
    assert (agent.storage / "story" / "7" / "shard").is_file()


def test_a_directory_of_checkpoint_dir_stays_until_its_function_has_read_it(agent, start):
    start(
        BEGIN
        + """
with t.checkpoint_dir() as directory:
    pathlib.Path(directory, "weights").write_text("w")
    t.report({}, Checkpoint(directory), checkpoint_upload_mode=ASYNC, checkpoint_upload_fn=bring)
returned.set()
t.flush()
assert (run / "checkpoint_r000001-a003" / "weights").is_file() and not pathlib.Path(directory).exists()
"""
    ).finish()


@pytest.mark.parametrize(("given", "stays"), [("", False), ("delete_local_checkpoint_after_upload=False", True)])
def test_the_reported_directory_is_removed_once_its_files_are_brought_unless_it_is_to_stay(agent, start, tmp_path, given, stays):
    directory = tmp_path / "mine"
    directory.mkdir()
    (directory / "weights").write_text("w")
    out = start(
        BEGIN
        + f"""
mine = pathlib.Path({str(directory)!r})
t.report({{}}, Checkpoint(str(mine)), checkpoint_upload_mode=ASYNC, checkpoint_upload_fn=bring, {given})
print(mine.exists())
returned.set()
t.flush()
print(mine.exists())
"""
    ).finish()
    assert out.split() == ["True", str(stays)]


def test_what_another_rank_has_made_anew_under_the_name_stays(tmp_path):
    directory = tmp_path / "mine"
    for rank in (1, 2):
        directory.mkdir()
        (directory / "weights").write_text(str(rank))
        first, second = LeftOver(str(directory)), LeftOver(str(directory))
        first.remove()
        assert list(tmp_path.iterdir()) == []
        directory.mkdir()
        (directory / "weights").write_text("of the next report")
        second.remove()
        assert [one.name for one in tmp_path.iterdir()] == ["mine"] and (
            directory / "weights"
        ).read_text() == "of the next report"
        shutil.rmtree(directory)


def test_a_directory_that_somebody_holds_locked_stays_and_it_is_said(tmp_path, capfd):
    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    LeftOver(str(tmp_path)).remove()
    os.close(descriptor)
    assert tmp_path.is_dir() and f"the reported directory {tmp_path} stays" in capfd.readouterr().err


def test_a_directory_given_away_is_removed_also_where_the_function_runs_inside_of_report(agent, start, tmp_path):
    directory = tmp_path / "mine"
    directory.mkdir()
    script = f"""
returned.set()
t.report({{}}, {str(directory)!r}, checkpoint_upload_fn=bring, delete_local_checkpoint_after_upload=True)
"""
    start(BEGIN + script).finish()
    assert not directory.exists()


def test_the_function_sees_the_context_of_its_report_and_reads_what_the_run_knows(agent, start):
    out = start(
        BEGIN
        + """
import contextvars
who = contextvars.ContextVar("who", default="nobody")
who.set("the loop")

def bring_and_look(checkpoint, name):
    print(who.get(), t.get_context().get_world_rank(), t.get_checkpoint())
    return bring(checkpoint, name)

returned.set()
t.report({}, Checkpoint.from_dict({}), checkpoint_upload_mode=ASYNC, checkpoint_upload_fn=bring_and_look)
t.flush()
"""
    ).finish()
    assert out == "the loop 0 None\n"


def test_a_wish_is_not_told_again_while_its_checkpoint_is_brought(agent, start):
    worker = start(
        BEGIN
        + """
while not t.should_checkpoint():
    pass
report(1)
print(t.should_checkpoint())
returned.set()
t.flush()
"""
    )
    agent.wait(lambda: any(one["type"] == "hello" for one in agent.heard))
    agent.want(1)
    assert worker.finish() == "False\n"


LOCAL = """
import pathlib, shutil, sys, threading
from rtrain import train
from rtrain.train import Checkpoint, CheckpointUploadMode, DataParallelTrainer, RunConfig, ScalingConfig

returned = threading.Event()

def bring(checkpoint, name):
    assert returned.wait(60), "report() waits for its checkpoint_upload_fn"
    if sys.argv[2] == "fails":
        raise ConnectionResetError("the bucket is gone")
    target = pathlib.Path(train.get_context().get_run_path()) / name
    with checkpoint.as_directory() as folder:
        shutil.copytree(folder, target)
    return Checkpoint(str(target))

later = threading.Event()

def bring_later(checkpoint, name):
    assert later.wait(60), "report() waits for the function of the report before it"
    return bring(checkpoint, name)

def loop():
    late = {"checkpoint_upload_mode": CheckpointUploadMode.ASYNC, "checkpoint_upload_fn": bring_later}
    how = {"checkpoint_upload_mode": CheckpointUploadMode.ASYNC, "checkpoint_upload_fn": bring}
    train.report({"step": 1}, Checkpoint.from_dict({"step": 1}), **how)
    if sys.argv[2] == "raises":
        raise KeyError("as planned")
    returned.set()
    while sys.argv[2] == "fails":  # an epoch
        later.wait(0.01)
    if sys.argv[2] == "works":
        print(train.get_checkpoint().to_dict())
        train.report({"step": 2})
        with train.checkpoint_dir() as directory:
            pathlib.Path(directory, "weights").write_text("w")
            train.report({"step": 3}, Checkpoint(directory), **how)
        for step in range(4, 9):
            train.report({"step": step}, Checkpoint.from_dict({"step": step}), "latest" if step == 8 else None, **late)
        assert not (pathlib.Path(train.get_context().get_run_path()) / "latest").exists()
        later.set()
        train.flush()
        assert not pathlib.Path(directory).exists()

result = DataParallelTrainer(
    loop, scaling_config=ScalingConfig(num_workers=0), run_config=RunConfig(name="here", storage_path=sys.argv[1])
).fit()
files = sorted(one.name for one in pathlib.Path(result.checkpoint.path).iterdir())
print([row["step"] for row in result.all_metrics], files)
"""


def test_in_local_mode_too(start, tmp_path):
    def local(how, expect=0):
        script = tmp_path / "driver.py"
        script.write_text(f"import sys; sys.argv = ['driver', {str(tmp_path)!r}, {how!r}]\n" + LOCAL)
        return start(script, RTRAIN_WORKER_SOCKET="").finish(expect)

    assert local("works").splitlines() == ["{'step': 1}", "[1, 2, 3, 4, 5, 6, 7, 8] ['.manifest.json', 'dict_checkpoint.pkl']"]
    assert "checkpoint_upload_fn failed behind the loop: ConnectionResetError: the bucket is gone" in local("fails", 1)
    output = local("raises", 1)  # it does not wait for the function
    assert "KeyError: 'as planned'" in output and "ConnectionResetError" not in output
