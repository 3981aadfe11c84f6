"""Tests that a faulty observation gives a FAILED row, with one fault in each observation."""

import os
import pathlib
import subprocess

import pytest
from gpu_check import rows
from gpu_check.checks import actors, checkpoint, devices, fsdp, memory, nccl, speed, transfer, warm
from gpu_check.groups import Options
from gpu_check.rows import FAILED, OK, SKIPPED, Rows, Skip, Wrong

GPU = Options("", "", cpu=0, checkpoint_gb=10)
MIB = 1 << 20
RIGHT = {
    "backend": "nccl",
    "device": "cuda",
    "world": 2,
    "difference": 0,
    "gathered": [0.0, 1000.0],
    "sent": [1000.0, 1001.0, 1002.0],
}
WORKER = {"device": "cuda", "product": devices.PRODUCT, "uuids": ["GPU-a"], "assigned": ["GPU-a"]}
SAVED = {"bytes": 100, "blocked": 0.01, "commit": 2.0, "copy": 8.0, "save": 9.0}
STREAM = {"device": "cuda", "wrong": 0, "batches": 480, "ahead": 0.06, "plain": 0.1, "copy": 0.002, "bytes": 64 * MIB}


@pytest.mark.parametrize(
    "fault",
    [
        {"backend": "gloo"},
        {"device": "cpu"},
        {"world": 1},
        {"difference": 1.0},
        {"gathered": [0.0, 0.0]},
        {"sent": [0.0, 1.0, 2.0]},
    ],
)
def test_a_wrong_exchange(fault):
    nccl.judge(RIGHT, 0, 2, GPU)
    with pytest.raises(Wrong):
        nccl.judge({**RIGHT, **fault}, 0, 2, GPU)


@pytest.mark.parametrize(
    "fault", [{"uuids": ["GPU-b"]}, {"assigned": []}, {"device": "cpu"}, {"product": 0.0}, {"uuids": ["GPU-a", "GPU-b"]}]
)
def test_a_wrong_device(fault):
    devices.judge([WORKER], [["GPU-a"]], GPU)
    with pytest.raises(Wrong):
        devices.judge([{**WORKER, **fault}], [["GPU-a"]], GPU)


def test_training_that_is_not_the_same():
    torch = pytest.importorskip("torch")
    plain = [2.0, 1.0], {"weight": torch.zeros(3, dtype=torch.float64)}
    right = [2.0, 1.0 + 1e-12], {"weight": torch.full((3,), 1e-12, dtype=torch.float64)}, {"kind": "FSDP", "sharded": 1}
    fsdp.compare(right, "fsdp", plain, [])
    for fault in (
        ([2.0, 1.1], right[1], right[2]),
        (right[0], {"weight": torch.full((3,), 1e-6, dtype=torch.float64)}, right[2]),
        (right[0], {"weight": torch.full((3,), float("nan"), dtype=torch.float64)}, right[2]),
        (right[0], {"other": right[1]["weight"]}, right[2]),
        (right[0], right[1], {"kind": "Sequential", "sharded": 0}),
    ):
        with pytest.raises(Wrong):
            fsdp.compare(fault, "fsdp", plain, [])
    with pytest.raises(Skip):
        fsdp.compare(right, "fsdp", None, [])


class Recorded:
    """A cluster whose workers have reported these facts: {(what, attempt): facts}."""

    def __init__(self, facts, pid=0):
        self.facts, self.pid = facts, pid

    def fact(self, _run, what, rank=0, attempt=1, within=0):
        return self.facts[what, attempt]

    def json(self, *_):
        return {"attempt_list": [{"workers": [{"pid": self.pid}]}]}

    def submit(self, *_, **__):
        pass

    finished = submit


def killed(held, after, child, monkeypatch):
    monkeypatch.setattr(memory, "taken", lambda: 2048 * MIB)
    facts = {
        ("before", 1): {"used": 500 * MIB, "at": 0.0},
        ("holding", 1): {"used": held * MIB, "uuid": "GPU-a", "child": child},
        ("before", 2): {"used": after * MIB, "at": 0.0},
    }
    with subprocess.Popen(["sleep", "600"]) as victim:
        memory.killed(Recorded(facts, victim.pid), [])
    assert victim.returncode == -9


def test_memory_of_the_dead_that_is_still_in_use(monkeypatch):
    killed(5600, 510, 2**22 + 1, monkeypatch)
    for held, after, child in ((5600, 600, 2**22 + 1), (4000, 500, 2**22 + 1), (5600, 500, os.getpid())):
        with pytest.raises(Wrong):
            killed(held, after, child, monkeypatch)


def test_a_checkpoint_that_blocks_or_comes_back_otherwise():
    checkpoint.blocked(SAVED, 10, [])
    checkpoint.committed(SAVED, 10, [])
    with pytest.raises(Wrong):
        checkpoint.blocked({**SAVED, "blocked": 1.0}, 10, [])
    with pytest.raises(Wrong):
        checkpoint.committed({**SAVED, "commit": 20.0}, 10, [])
    back = {"equal": 100, "pieces": 4, "seconds": 1.0, "metrics": {"piece": 4}}
    checkpoint.restored(Recorded({("result", 2): back}), SAVED, [])
    for fault in ({"equal": 99}, {"metrics": {"piece": 3}}):
        with pytest.raises(Wrong):
            checkpoint.restored(Recorded({("result", 2): {**back, **fault}}), SAVED, [])


def test_a_copy_that_does_not_overlap_or_is_not_right():
    transfer.values(STREAM, GPU, [])
    transfer.overlap(STREAM, GPU, [])
    for fault in ({"wrong": 1}, {"device": "cpu"}):
        with pytest.raises(Wrong):
            transfer.values({**STREAM, **fault}, GPU, [])
    with pytest.raises(Wrong):
        transfer.overlap({**STREAM, "ahead": 0.09}, GPU, [])


def test_slower_than_torchrun():
    speed.judge([1.0, 9.0, 1.1], [1.5, 1.5, 1.5], GPU, [])
    speed.judge([1.6, 1.6, 1.0], [1.5, 1.5, 1.5], GPU, [], 1.1)
    for most in (1.0, 0.8):
        with pytest.raises(Wrong):
            speed.judge([1.6, 1.6, 1.0], [1.5, 1.5, 1.5], GPU, [], most)


def test_a_worker_that_was_not_forked(tmp_path):
    class RunWithTexts:
        def __init__(self, *texts, log=""):
            self.texts, self.folder = texts, tmp_path
            (tmp_path / "node-1.log").write_text(log)

        def json(self, *_):
            return {"items": [{"kind": "WorkerStarts", "text": text} for text in self.texts]}

    forked, plain = "node-1: rank 0: forked from a warm template", "node-1: rank 0: a plain start: its template is not made yet"
    warm.expect_fork(RunWithTexts(forked, forked), "run")
    assert warm.templates(RunWithTexts(log="info a template of warm workers is ready: pid 7, 300 MiB\n")) == 1
    for texts in ((), (plain,), (plain, forked)):
        with pytest.raises(Wrong):
            warm.expect_fork(RunWithTexts(*texts), "run")
    with pytest.raises(Wrong, match="counted the GPUs"):
        warm.templates(RunWithTexts(log="warning no template of warm workers: its modules have counted the GPUs\n"))


def test_a_block_makes_exactly_one_row_of_each_kind(tmp_path, capsys):
    made = Rows("group", str(tmp_path / "rows"))
    with made.row("good", "a") as seen:
        seen.append("a")
    with made.row("wrong", "a") as seen:
        seen.append("b")
        raise Wrong("it is b | not a")
    with made.row("broken", "a"):
        raise OSError("no disk\nreally none")
    with made.row("left out", "a"):
        raise Skip("needs c")
    with made.row("blind", "a"):
        pass
    with open(tmp_path / "rows", "a") as file:
        file.write('{"group": "cut of')
    results = rows.read(tmp_path / "rows")
    assert [row.verdict for row in results] == [OK, FAILED, FAILED, SKIPPED, FAILED]
    assert rows.table(results).splitlines()[3] == "| group | wrong | a | b | FAILED: it is b / not a |"
    assert results[2].reason == "OSError: no disk ... really none"
    assert "no disk" in capsys.readouterr().err


def test_actors_share_the_tolerance_of_memory():
    assert actors.TOLERANCE == memory.TOLERANCE < 128 * MIB
    assert pathlib.Path(actors.__file__).exists()
