"""Ranks that end before others, that do not end, or that fail behind their loop. Progress bars."""

from __future__ import annotations

import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import threading
import time

import pytest
from local_cluster import wait_for
from rtrain import train
from rtrain.train import Checkpoint, CheckpointUploadMode, DataParallelTrainer, RunConfig, ScalingConfig

ON_TWO_NODES = ScalingConfig(num_workers=2, placement_strategy="STRICT_SPREAD")


@pytest.fixture(autouse=True)
def _failures_before_are_forgotten(cluster):
    """Releases the nodes from quarantine. A node on which several runs in a row fail first is quarantined."""
    for node in ("node-1", "node-2"):
        cluster.daemons.rtrain("node", "undrain", node)


@pytest.mark.parametrize("early", [0, 1])
def test_a_rank_that_returns_early_fails_the_attempt_within_seconds_on_two_nodes(cluster, early):
    def loop(config):
        train.report({"step": 1})
        if train.get_context().get_world_rank() != config["early"]:
            train.report({"step": 2})

    name = cluster.name("uneven")
    began = time.monotonic()
    with pytest.raises(train.TrainingFailedError) as failed:
        DataParallelTrainer(
            loop, train_loop_config={"early": early}, scaling_config=ON_TWO_NODES, run_config=RunConfig(name=name)
        ).fit()
    assert time.monotonic() - began < 60  # backend.timeout_s is half an hour
    why = f"rank {early} ended after report 1, rank {1 - early} waits in report 2, which can never pass"
    assert why in str(failed.value)
    notices = [event["text"] for event in cluster.json("events", "--run", name)["items"] if event["kind"] == "Notice"]
    assert [why in notice for notice in notices] == [True], notices


def test_a_thread_that_the_loop_leaves_behind_is_named_and_does_not_hold_the_run(cluster, tmp_path, capfd):
    def loop(config):
        def upload_the_rest():
            while True:
                threading.Event().wait(0.1)

        if train.get_context().get_world_rank() == 1:
            threading.Thread(target=upload_the_rest, name="uploader").start()
        train.report({"step": 1})
        return "returned"

    name = cluster.name("thread")
    trainer = DataParallelTrainer(loop, train_loop_config={}, scaling_config=ON_TWO_NODES, run_config=RunConfig(name=name))
    results = []
    fit = threading.Thread(target=lambda: results.append(trainer.fit()))
    fit.start()
    wait_for("rank 0's end", lambda: "rank 0; rank 1 runs on" in cluster.daemons.run("describe", name).stdout, 60)
    asked = cluster.daemons.run("stack", name)
    assert "rank 0 has ended" in asked.stderr and "upload_the_rest" in asked.stdout
    fit.join()
    assert results[0].return_value == "returned"
    assert cluster.json("describe", name)["state"] == "SUCCEEDED"
    assert re.search(r"held by thread 'uploader' at .*test_ends.py:\d+, in upload_the_rest", capfd.readouterr().err)


@pytest.mark.parametrize("strategy", ["STRICT_PACK", "STRICT_SPREAD"])
def test_a_rank_that_returns_while_others_wait_in_a_collective_call_fails_the_attempt(cluster, strategy):
    def loop():
        train.collective.barrier()
        if train.get_context().get_world_rank() == 0:
            train.collective.broadcast_from_rank_zero("to nobody")

    why = "rank 1 ended, and rank 0 waits in a call of rtrain.train that all ranks make, which can never pass"
    with pytest.raises(train.TrainingFailedError, match=why) as failed:
        DataParallelTrainer(
            loop,
            scaling_config=ScalingConfig(num_workers=2, placement_strategy=strategy),
            run_config=RunConfig(name=cluster.name("barrier")),
        ).fit()
    assert isinstance(failed.value.worker_failures[0], train.BroadcastCollectiveTimeoutError)


def test_several_uploads_behind_their_reports_are_committed_in_the_order_of_the_reports(cluster, tmp_path):
    def loop(config):
        may_bring = threading.Event()

        def bring(checkpoint, name):
            assert may_bring.wait(60), "report() waits for the function of an earlier one"
            target = pathlib.Path(train.get_context().get_run_path()) / name
            with checkpoint.as_directory() as folder:
                shutil.copytree(folder, target, dirs_exist_ok=True)
            return Checkpoint(str(target))

        for step in range(1, 6):
            with train.checkpoint_dir() as directory:
                rank = train.get_context().get_world_rank()
                pathlib.Path(directory, f"rank-{rank}").write_text(str(step))
                train.report(
                    {"step": step},
                    Checkpoint(directory),
                    f"step-{step}",
                    checkpoint_upload_mode=CheckpointUploadMode.ASYNC,
                    checkpoint_upload_fn=bring,
                )
        may_bring.set()

    name = cluster.name("uploads")
    result = DataParallelTrainer(
        loop, train_loop_config={}, scaling_config=ON_TWO_NODES, run_config=RunConfig(name=name, storage_path=str(tmp_path))
    ).fit()
    assert [row["step"] for row in result.all_metrics] == [1, 2, 3, 4, 5]
    committed = [one["directory"] for one in cluster.json("checkpoints", "list", name)["items"]]
    assert committed == [f"step-{step}" for step in range(1, 6)]
    assert {file.name for file in pathlib.Path(result.checkpoint.path).glob("rank-*")} == {"rank-0", "rank-1"}


def test_an_upload_that_fails_behind_its_report_ends_the_rank_at_once_and_is_raised_by_the_driver(cluster, tmp_path):
    def loop():
        def bring(checkpoint, name):
            raise ConnectionResetError("the bucket is gone")

        train.report({}, Checkpoint.from_dict({}), checkpoint_upload_mode=CheckpointUploadMode.ASYNC, checkpoint_upload_fn=bring)
        threading.Event().wait(600)  # an epoch

    name = cluster.name("upload")
    with pytest.raises(train.TrainingFailedError) as failed:
        DataParallelTrainer(
            loop, scaling_config=ScalingConfig(num_workers=1), run_config=RunConfig(name=name, storage_path=str(tmp_path))
        ).fit()
    error = failed.value.worker_failures[0]
    assert type(error) is ConnectionResetError and str(error) == "the bucket is gone"
    text = cluster.daemons.run("describe", name).stdout
    for words in (
        "report 1, checkpoint_000001: checkpoint_upload_fn failed behind the loop: ConnectionResetError: the bucket is gone",
        "in bring: raise ConnectionResetError",
        "Traceback (most recent call last):",
    ):
        assert words in text, text


def test_the_driver_and_logs_show_the_newest_state_of_a_bar_that_has_no_end_yet(cluster, tmp_path, capfd):
    def loop(config):
        import sys

        go_on = pathlib.Path(config["go_on"])
        for number in range(1, 51):
            sys.stderr.write(f"\r {2 * number}%|{'#' * number}")
            sys.stderr.flush()
            threading.Event().wait(0.005)
        while not go_on.exists():
            threading.Event().wait(0.05)
        sys.stderr.write("\n")

    name = cluster.name("bar")
    trainer = DataParallelTrainer(
        loop,
        train_loop_config={"go_on": str(tmp_path / "go_on")},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name=name),
    )
    fit = threading.Thread(target=trainer.fit)
    fit.start()
    wait_for("the run", lambda: cluster.daemons.run("describe", name).returncode == 0, 60)
    command = [cluster.daemons.program, "logs", name, "-f"]
    environment = {**cluster.daemons.env, "TERM": "xterm"}
    piped = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
    terminal, end_of_program = pty.openpty()
    on_terminal = subprocess.Popen(command, env=environment, stdout=end_of_program, stderr=subprocess.DEVNULL)
    os.close(end_of_program)
    texts = {"driver": "", "terminal": ""}

    def newest_state_is_shown():
        texts["driver"] += capfd.readouterr().err
        if select.select([terminal], [], [], 0)[0]:
            texts["terminal"] += os.read(terminal, 1 << 16).decode()
        return all(" 100%|####" in text for text in texts.values())

    try:
        wait_for("the last state, before the line's end", newest_state_is_shown, 60)
    finally:
        (tmp_path / "go_on").touch()
        fit.join()
        printed = piped.communicate(timeout=60)[0].decode()
        on_terminal.wait(60)
        os.close(terminal)
    texts["driver"] += capfd.readouterr().err
    for text, who in ((texts["driver"], "(rank 0, node-"), (printed, " 100%|")):
        bars = [line for line in text.split("\n") if "%|#" in line]
        assert 1 <= len(bars) <= 4 and bars[-1].startswith(who) and bars[-1].endswith("100%|" + "#" * 50), bars
        assert "\r" not in text and "\\x0d" not in text
    assert "\r\x1b[K" in texts["terminal"]  # each state replaces the one before
    [whole] = [line for line in cluster.json("logs", name, "--stream", "err")["items"] if "%|#" in line["line"]]
    assert whole["line"] == "".join(f"\r {2 * number}%|{'#' * number}" for number in range(1, 51))


def test_a_bar_of_tqdm_is_shown_before_it_is_closed(cluster, tmp_path, capfd):
    pytest.importorskip("tqdm")

    def loop(config):
        from tqdm import tqdm

        with tqdm(total=40, desc="epoch 1", ncols=60, miniters=1, mininterval=0) as bar:
            for _ in range(40):
                bar.update()
            while not pathlib.Path(config["go_on"]).exists():
                threading.Event().wait(0.05)
        with tqdm(total=3, desc="gone", leave=False) as bar:
            bar.update()
        print("after the bars")

    trainer = DataParallelTrainer(
        loop,
        train_loop_config={"go_on": str(tmp_path / "go_on")},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name=cluster.name("tqdm")),
    )
    fit = threading.Thread(target=trainer.fit)
    fit.start()
    shown = ""

    def last_state_is_shown():
        nonlocal shown
        shown += "".join(capfd.readouterr())
        return re.search(r"epoch 1: 100%\|.*\| 40/40 \[", shown)

    try:
        wait_for("the last state of the bar", last_state_is_shown, 60)
    finally:
        (tmp_path / "go_on").touch()
        fit.join()
    shown += "".join(capfd.readouterr())
    lines = [line for line in shown.split("\n") if line.startswith("(rank 0")]
    assert "\r" not in shown and "\x1b" not in shown
    assert sum("after the bars" in line for line in lines) == 1
    assert sum("epoch 1" in line for line in lines) <= 3, lines
