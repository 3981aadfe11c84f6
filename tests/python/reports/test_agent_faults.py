"""The agent dies, loses its state, or refuses; the disk is full. No report is lost or counted twice, and every fault
is named.
"""

import os
import pathlib
import subprocess

import pytest
from fake_agent import FakeAgent

COUNT = """
import rtrain.train as t
for step in range({steps}):
    t.report({{"step": step}})
    if step == {pause}:
        print("paused", flush=True)
        import sys; sys.stdin.readline()
print("done")
"""


def indexes(agent):
    return [frame["index"] for frame in agent.frames("report")]


def test_an_agent_that_restarts_between_reports_is_found_again(agent, start):
    worker = start(COUNT.format(steps=6, pause=2))
    assert worker.line() == "paused"
    agent.stop()
    agent.start()
    worker.go()
    assert worker.finish() == "done\n"
    assert indexes(agent) == [1, 2, 3, 4, 5, 6]
    assert agent.frames("hello")[-1]["next_index"] == 4


def test_a_report_whose_answer_was_lost_is_sent_again_with_its_index(agent, start):
    agent.lose_answers_to = {2}
    worker = start(COUNT.format(steps=3, pause=-1))
    agent.wait(lambda: any(f.get("index") == 2 for f in agent.heard))
    agent.stop()
    agent.start()
    assert worker.finish() == "done\n"
    assert indexes(agent) == [1, 2, 2, 3]
    assert agent.frames("hello")[-1]["next_index"] == 2


def test_a_report_made_while_no_agent_is_there_waits_for_it(agent, start):
    worker = start(COUNT.format(steps=4, pause=1))
    assert worker.line() == "paused"
    agent.stop()
    worker.go()
    agent.start()
    assert worker.finish() == "done\n"
    assert indexes(agent) == [1, 2, 3, 4]


def test_a_commit_that_was_missed_is_told_after_the_reconnection(agent, start):
    agent.commits_held = True
    worker = start(
        """
        import rtrain.train as t
        with t.checkpoint_dir() as d:
            t.report({"epoch": 1}, checkpoint=d)
        print("reported", flush=True)
        t.flush()
        print(t.get_checkpoint().name)
        """
    )
    assert worker.line() == "reported"
    agent.stop()
    agent.commits_held = False
    agent.start()
    assert worker.finish() == "checkpoint_000001-a003\n"
    assert agent.frames("hello")[-1]["uncommitted"] == [1]


def test_an_agent_that_stays_away_is_named_and_the_report_counts_when_it_is_back(agent, start):
    worker = start(
        """
        import sys, rtrain.train as t
        t.report({"step": 0})
        print("ready", flush=True)
        sys.stdin.readline()
        try:
            t.report({"step": 1})
        except t.AgentGoneError as error:
            print(error, flush=True)
        sys.stdin.readline()
        t.report({"step": 2})
        """,
        RTRAIN_AGENT_WAIT_MS="300",
    )
    assert worker.line() == "ready"
    agent.stop()
    worker.go()
    gone = worker.line()
    assert str(agent.socket_path) in gone
    assert "rtrain doctor" in gone
    agent.start()
    worker.go()
    worker.finish()
    assert [f["metrics"]["step"] for f in agent.frames("report")] == [0, 1, 2]


def test_a_wrong_key_is_refused_with_the_agents_words(agent, start):
    agent.key = "another"
    err = start("import rtrain.train as t; t.report({})").finish(expect=143)
    assert agent.frames("report") == []
    assert "Traceback" not in err


def test_the_first_refusals_of_an_agent_that_has_just_come_back_are_not_its_last_word(agent, start):
    worker = start(COUNT.format(steps=4, pause=1))
    assert worker.line() == "paused"
    agent.stop()
    agent.refusals_left = 3
    agent.start()
    worker.go()
    assert worker.finish() == "done\n"
    assert indexes(agent) == [1, 2, 3, 4]
    assert agent.refusals_left == 0


def test_a_stranger_on_the_socket_does_not_crash_the_worker(agent, start):
    """Receives bytes that are no frames. The worker closes the connection, connects again and continues."""
    worker = start(COUNT.format(steps=3, pause=0))
    assert worker.line() == "paused"
    for line in agent._lines.values():
        line.sendall(b"GET / HTTP/1.1\r\n\r\n")
    worker.go()
    assert worker.finish() == "done\n"


@pytest.fixture
def small_disk(tmp_path):
    """Mounts a real file system with room for 1 MiB; skips the test if mounting is not allowed."""
    mount = tmp_path / "disk"
    mount.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mount]).returncode != 0:
        pytest.skip("mounting a tmpfs needs root")
    yield mount
    subprocess.run(["umount", "-l", mount], check=True)


def test_with_room_nowhere_the_directory_is_refused_and_reports_go_without_their_files(agent, start):
    agent.no_room = "node-1: no room to stage a checkpoint"
    script = """
        import pathlib, rtrain.train as t
        folder = pathlib.Path("{folder}")
        t.report({{"step": 1}}, checkpoint=t.Checkpoint.from_directory(folder))
        try:
            t.report({{"step": 2}}, checkpoint=t.Checkpoint.from_directory(folder), checkpoint_upload_mode=t.CheckpointUploadMode.SYNC)
        except t.CheckpointUploadError as error:
            print("sync:", error)
        try:
            with t.checkpoint_dir():
                print("not here")
        except t.CheckpointUploadError as error:
            print("directory:", error)
        """
    folder = agent.storage / "mine"
    folder.mkdir()
    (folder / "model.txt").write_text("weights")
    output = start(script.format(folder=folder)).finish()
    assert [line.split(":")[0] for line in output.splitlines()] == ["sync", "directory"]
    assert output.count("no room to stage a checkpoint") == 2
    assert [bool(frame["checkpoint_error"]) for frame in agent.frames("report")] == [True, True]


def test_files_that_cannot_be_copied_pass_the_barrier_before_they_are_an_error(agent, start):
    folder = agent.storage / "odd"
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    output = start(
        f"""
        import rtrain.train as t
        try:
            t.report({{"step": 1}}, checkpoint=t.Checkpoint.from_directory("{folder}"))
        except t.CheckpointUploadError as error:
            print(error)
        t.report({{"step": 2}})
        """
    ).finish()
    assert "neither a file nor a directory" in output
    assert indexes(agent) == [1, 2]
    assert agent.frames("report")[0]["checkpoint"] is None


def test_a_full_disk_is_named_training_goes_on_and_the_next_checkpoint_succeeds(agent, start, tmp_path, small_disk):
    agent.storage = small_disk
    big, small = tmp_path / "big", tmp_path / "small"
    for folder, size in ((big, 3 << 20), (small, 1000)):
        folder.mkdir()
        (folder / "model").write_bytes(os.urandom(size))
    worker = start(
        f"""
        import rtrain.train as t
        t.report({{"step": 1}}, checkpoint={str(big)!r})
        t.report({{"step": 2}}, checkpoint={str(small)!r})
        print("trained on")
        """
    )
    out, err = worker.process.communicate(timeout=120)
    assert (worker.process.returncode, out) == (0, "trained on\n")
    assert "No space left on device" in err
    first, second = agent.frames("report")
    assert first["checkpoint"] is None
    assert "No space left on device" in first["checkpoint_error"]
    assert second["checkpoint_error"] == ""
    assert (pathlib.Path(small_disk) / "checkpoint_000002-a003" / "model").stat().st_size == 1000


def test_a_full_disk_is_an_error_for_who_asked_for_certainty(agent, start, tmp_path, small_disk):
    agent.storage = small_disk
    big = tmp_path / "big"
    big.mkdir()
    (big / "model").write_bytes(bytes(3 << 20))
    out = start(
        f"""
        import rtrain.train as t
        try:
            t.report({{}}, checkpoint={str(big)!r}, checkpoint_upload_mode=t.CheckpointUploadMode.SYNC)
        except t.CheckpointUploadError as error:
            print(error)
        """
    ).finish()
    assert "No space left on device" in out


def test_a_checkpoint_that_is_no_directory_is_refused_before_the_barrier(agent, start, tmp_path):
    (tmp_path / "file").touch()
    out = start(
        f"""
        import rtrain.train as t
        for wrong in ({str(tmp_path / "file")!r}, {str(tmp_path / "nothing")!r}):
            try:
                t.report({{}}, checkpoint=wrong)
            except ValueError as error:
                print(error)
        """
    ).finish()
    assert out.count("is not a directory") == 2
    assert agent.frames("report") == []


def test_agents_know_each_other_by_their_own_sockets(tmp_path):
    """Tests the fake agent: two attempts on one machine do not receive each other's messages."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, two = FakeAgent(tmp_path / "a"), FakeAgent(tmp_path / "b")
    assert one.environment()["RTRAIN_WORKER_SOCKET"] != two.environment()["RTRAIN_WORKER_SOCKET"]
    one.stop()
    two.stop()
