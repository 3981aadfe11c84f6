"""The place of a rank belongs to its first process. Children read the context, and only that process reports."""

import json

import pytest

CHILDREN = """
import multiprocessing, os, sys
import rtrain.train as t

def child(pipe):
    said = {"rank": t.get_context().get_world_rank(), "wanted": t.should_checkpoint(), "checkpoint": t.get_checkpoint()}
    try:
        t.report({"from": "child"})
        said["report"] = "passed"
    except ValueError as error:
        said["report"] = str(error)
    pipe.send(said)

def ask_child(method):
    context = multiprocessing.get_context(method)
    near, far = context.Pipe()
    process = context.Process(target=child, args=(far,))
    process.start()
    print(__import__("json").dumps(near.recv()), flush=True)
    process.join()
"""


def script(tmp_path, body):
    """Writes a file, since spawned children import their parent's main module."""
    path = tmp_path / "job.py"
    path.write_text(CHILDREN + "\nif __name__ == '__main__':\n" + "\n".join("    " + line for line in body.split("\n")))
    return path


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_a_child_reads_its_context_and_its_report_names_who_speaks_for_the_rank(agent, start, tmp_path, method):
    path = script(
        tmp_path, f"t.report({{'from': 'parent'}})\nprint(os.getpid())\nask_child({method!r})\nt.report({{'from': 'parent'}})"
    )
    pid, child = start(path).finish().splitlines()
    state = json.loads(child)
    assert state["rank"] == 0
    assert state["wanted"] is False
    assert f"process {pid}" in state["report"]
    assert [report["metrics"]["from"] for report in agent.frames("report")] == ["parent", "parent"]


def test_a_child_that_reads_before_its_parent_has_said_anything_takes_nothing(agent, start, tmp_path):
    path = script(
        tmp_path,
        """context = multiprocessing.get_context('spawn')
near, far = context.Pipe()
reader = context.Process(target=reads, args=(far,))
reader.start()
print(near.recv())
t.report({'from': 'parent'})
reader.kill()""",
    )
    path.write_text(path.read_text().replace("def ask_child", READS + "\ndef ask_child"))
    assert start(path).finish() == "0\n"
    assert [report["metrics"]["from"] for report in agent.frames("report")] == ["parent"]


READS = """
def reads(pipe):
    pipe.send(t.get_context().get_world_rank())
    pipe.poll(60)
"""


def test_a_place_that_is_given_up_is_the_next_process_s_and_its_reports_count_on(agent, start, tmp_path):
    path = script(
        tmp_path,
        "t.report({'from': 'parent'})\nt.report({'from': 'parent'})\nt.release()\nask_child('spawn')\nt.report({'from': 'parent'})",
    )
    [child] = start(path).finish().splitlines()
    assert json.loads(child)["report"] == "passed"
    reports = [(report["index"], report["metrics"]["from"]) for report in agent.frames("report")]
    assert reports == [(1, "parent"), (2, "parent"), (3, "child"), (4, "parent")]


def test_a_forked_child_that_ends_as_a_program_does_leaves_its_parent_s_connection_alone(agent, start):
    out = start(
        """
        import os, sys, rtrain.train as t
        t.report({"from": "parent"})
        if os.fork() == 0:
            print(t.get_context().get_world_rank(), flush=True)
            sys.exit(0)  # what was registered to be closed at the end is closed here, too
        os.wait()
        t.report({"from": "parent"})
        print("done")
        """
    ).finish()
    assert out == "0\ndone\n"
    assert len(agent.frames("hello")) == 1
    assert len(agent.frames("release")) == 1
    assert [report["metrics"]["from"] for report in agent.frames("report")] == ["parent", "parent"]


def test_a_process_that_released_and_meets_another_in_its_place_is_told_at_once(agent, start, tmp_path):
    other = tmp_path / "other.py"
    other.write_text("import rtrain.train as t\nt.report({'from': 'other'})\nprint('reported', flush=True)\ninput()\n")
    path = script(tmp_path, "t.report({})\nt.release()\nprint('free', flush=True)\ninput()\ntry:\n    t.report({})\n"
                               "except ValueError as error:\n    print(error)")  # fmt: skip
    first = start(path)
    assert first.line() == "free"
    second = start(other)
    assert second.line() == "reported"
    first.go()
    assert f"rank 0 belongs to process {second.process.pid}" in first.finish()
    second.go()
    second.finish()
