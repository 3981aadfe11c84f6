"""fit() from its call to its Result."""

from __future__ import annotations

import re
import sys
import threading
import time

import pytest
from local_cluster import wait_for
from rtrain import train
from rtrain._http import Head
from rtrain.train import DataParallelTrainer, FailureConfig, RunConfig, ScalingConfig


def test_a_trivial_loop_on_two_ranks_becomes_a_result(cluster):
    def loop(config):
        for step in range(3):
            train.report({"step": step, "loss": config["start"] / (step + 1), "rank": train.get_context().get_world_rank()})
        return {"done": True}

    name = cluster.name()
    result = DataParallelTrainer(
        loop,
        train_loop_config={"start": 6.0},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name=name),
    ).fit()
    assert result.metrics == {"step": 2, "loss": 2.0, "rank": 0}
    assert [row["loss"] for row in result.all_metrics] == [6.0, 3.0, 2.0]
    assert list(result.metrics_dataframe["step"]) == [0, 1, 2]
    assert result.return_value == {"done": True}
    assert result.error is None
    assert result.checkpoint is None
    assert result.path == f"cluster://{name}"
    assert cluster.json("describe", name)["state"] == "SUCCEEDED"


def test_a_failing_rank_is_named_with_the_user_s_frame_first(cluster):
    def deepest():
        raise KeyError("the column is missing")

    def loop():
        if train.get_context().get_world_rank() == 1:
            deepest()
        train.collective.barrier()

    with pytest.raises(train.WorkerGroupError) as caught:
        DataParallelTrainer(
            loop, scaling_config=ScalingConfig(num_workers=2), run_config=RunConfig(name=cluster.name("fails"))
        ).fit()
    text = str(caught.value)
    assert text.startswith("Training failed due to worker errors:\n[Rank 1 Error Snippet]:")
    assert isinstance(caught.value, train.TrainingFailedError)
    assert list(caught.value.worker_failures) == [1]
    assert type(caught.value.worker_failures[1]) is KeyError
    lines = str(caught.value.worker_failures[1].__cause__).splitlines()
    place = next(number for number, line in enumerate(lines) if "the column is missing" in line)
    assert "in deepest" in lines[place + 1]
    assert "test_fit.py" in lines[place + 1]


def test_only_a_run_that_was_ended_for_hanging_is_called_a_hang(cluster):
    def loop():
        raise ValueError("the shape changed (failure.hang_timeout)")

    with pytest.raises(train.WorkerGroupError, match="the shape changed") as caught:
        DataParallelTrainer(loop, run_config=RunConfig(name=cluster.name("changed"))).fit()
    assert type(caught.value) is train.WorkerGroupError

    job = {
        "version": 1,
        "name": cluster.name("hangs"),
        "entrypoint": [
            sys.executable,
            "-c",
            "from rtrain import train; train.report({}); import threading; threading.Event().wait()",
        ],
        "failure": {"hang_timeout": "2s"},
        "backend": {"name": "gloo", "timeout_s": 1},
    }
    Head.current().post("/v1/runs", {"job": job, "key": job["name"]})
    with pytest.raises(train.NCCLHangError, match="failure.hang_timeout") as caught:
        train.attach(job["name"]).result()
    assert isinstance(caught.value.worker_failures[0], train.WorkerHealthCheckTimeoutError)


def test_with_minus_one_failures_a_run_goes_on_until_it_succeeds_and_each_attempt_is_shown(cluster, capfd):
    def loop():
        if (attempt := train.get_context().get_attempt()) <= 3:
            raise RuntimeError(f"try {attempt}")
        return attempt

    name = cluster.name("unlimited")
    tries = RunConfig(name=name, failure_config=FailureConfig(max_failures=-1))
    assert DataParallelTrainer(loop, run_config=tries).fit().return_value == 4
    facts = cluster.json("describe", name)
    assert (facts["state"], facts["failures"], facts["max_failures"]) == ("SUCCEEDED", 3, -1)
    assert [one["state"] for one in facts["attempt_list"]] == ["FAILED", "FAILED", "FAILED", "SUCCEEDED"]
    shown = cluster.daemons.rtrain("describe", name).splitlines()
    assert [line.split(maxsplit=1)[1] for line in shown if line.startswith("failures")] == ["3, no limit"]
    lines = capfd.readouterr().err.splitlines()
    for number in (1, 2, 3, 4):
        place = lines.index(f"rtrain: attempt {number} of {name}: 1 worker")
        who = r"rtrain:   world rank 0, local rank 0, node rank 0: node-[12] \(127\.0\.0\.1\), pid \d+, CPU"
        assert re.fullmatch(who, lines[place + 1]), lines[place : place + 3]
        assert lines[place + 2] == "rtrain:   backend gloo, master 127.0.0.1 (rank 0)"
    # Without retries the first failure is final.
    once = RunConfig(name=cluster.name("once"))
    with pytest.raises(train.WorkerGroupError, match="try 1"):
        DataParallelTrainer(loop, run_config=once).fit()
    assert cluster.json("describe", once.name)["attempts"] == 1


def test_describe_shows_the_user_s_deepest_frame_first_and_folds_torch_s(cluster):
    def user_forward():
        import torch

        return torch.nn.Sequential(torch.nn.Linear(2, 2))(torch.zeros(3, 7))

    def loop():
        user_forward()

    name = cluster.name("shapes")
    with pytest.raises(train.WorkerGroupError):
        DataParallelTrainer(loop, run_config=RunConfig(name=name)).fit()
    lines = cluster.daemons.rtrain("describe", name).splitlines()
    what = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (3x7 and 2x2)"
    place = next(number for number, line in enumerate(lines) if line.startswith("First failure, attempt 1: rank 0"))
    assert lines[place].endswith(what)
    assert "test_fit.py:" in lines[place + 1] and ", in user_forward: return torch.nn" in lines[place + 1]
    frames = [line for line in lines[place + 2 :] if line.startswith("  ") and not line.startswith("    ")]
    assert [frame.rpartition(", in ")[2].strip() for frame in frames if "test_fit.py" in frame] == ["loop", "user_forward"]
    assert all("test_fit.py" in frame or frame.endswith(" frames of libraries") for frame in frames), frames
    assert lines[-1].startswith("Last lines: rtrain logs ")
    for line in (line for line in lines[:place] if what in line):
        assert "test_fit.py:" in line and "\\x0a" not in line
    assert sum(what in line for line in lines[:place]) == 2, "its state, and the attempt"


def test_a_worker_knows_its_sizes_and_that_no_node_is_about_to_go(cluster):
    def loop():
        info, going = train.resize_info(), train.get_preemption_info()
        held = train.get_context().get_trial_resources()
        return info.world_size, info.min_workers, info.max_workers, info.resized, going, train.should_checkpoint(), held

    value = (
        DataParallelTrainer(
            loop,
            scaling_config=ScalingConfig(num_workers=(2, 2), resources_per_worker={"CPU": 0.5, "memory": 512 << 20}),
            run_config=RunConfig(name=cluster.name("sizes")),
        )
        .fit()
        .return_value
    )
    assert value == (2, 2, 2, False, None, False, {"CPU": 1, "memory": 1024 << 20})


def test_a_draining_node_is_named_with_its_ranks_on_every_rank(cluster):
    def loop():
        import threading

        while (going := train.get_preemption_info()) is None:
            threading.Event().wait(0.1)
        train.report({"ranks": going.preempted_ranks, "nodes": going.preempted_node_ids, "until": going.deadline_ms})

    name = cluster.name("drain")

    class Recorder(train.UserCallback):
        def after_report(self, run_context, metrics, checkpoint):
            self.metrics = metrics

    recorder = Recorder()

    def submitted():
        return any(run["name"] == name for run in cluster.json("runs")["items"])

    def drain_once_there():
        wait_for("it to be there", submitted)
        wait_for("it to run", lambda: cluster.json("describe", name)["state"] == "RUNNING")
        cluster.daemons.rtrain("node", "drain", "node-1", "--reason", "test", "--deadline", "10m", "--yes")

    thread = threading.Thread(target=drain_once_there)
    thread.start()
    try:
        DataParallelTrainer(
            loop,
            scaling_config=ScalingConfig(num_workers=2, placement_strategy="STRICT_SPREAD"),
            run_config=RunConfig(name=name, callbacks=[recorder]),
        ).fit()
    finally:
        thread.join()
        cluster.daemons.rtrain("node", "undrain", "node-1")
    assert [one["nodes"] for one in recorder.metrics] == [["node-1"], ["node-1"]]
    assert len(recorder.metrics[0]["ranks"]) == 1
    left_s = recorder.metrics[0]["until"] / 1000 - time.time()
    assert 480 < left_s < 600
    assert recorder.metrics[0]["until"] == recorder.metrics[1]["until"]


def test_ranks_that_report_unequally_often_are_named(cluster):
    def loop():
        for step in range(2 + train.get_context().get_world_rank()):
            train.report({"step": step})

    for strategy in ("STRICT_PACK", "STRICT_SPREAD"):  # on one node, then on two
        with pytest.raises(train.WorkerGroupError, match="rank 0 ended after report 2, rank 1 waits in report 3") as failed:
            DataParallelTrainer(
                loop,
                scaling_config=ScalingConfig(num_workers=2, placement_strategy=strategy),
                run_config=RunConfig(name=cluster.name("uneven")),
            ).fit()
        assert isinstance(failed.value.worker_failures[1], train.BroadcastCollectiveTimeoutError)


def test_a_rank_that_never_reports_is_named_when_its_time_is_over(cluster):
    def loop():
        if train.get_context().get_world_rank() != 1:
            train.report({"step": 0})
        threading.Event().wait(60)

    class Patience(train.BackendConfig):
        timeout_s = 10

    with pytest.raises(
        train.WorkerGroupError, match=r"ranks 0, 2 wait in report 1, .* rank 1 has not come \(backend\.timeout_s\)"
    ):
        DataParallelTrainer(
            loop,
            backend_config=Patience(),
            scaling_config=ScalingConfig(num_workers=3),
            run_config=RunConfig(name=cluster.name("silent")),
        ).fit()


def test_fifty_thousand_reports_are_all_kept_and_take_some_hundred_bytes_each(cluster, tmp_path):
    count = 50_000

    def loop():
        for step in range(count):
            train.report({"step": step, "loss": 1 / (step + 1)})

    name = cluster.name("batches")
    result = DataParallelTrainer(loop, run_config=RunConfig(name=name, storage_path=tmp_path)).fit()
    assert list(result.metrics_dataframe["step"]) == list(range(count))
    journals = list((tmp_path / name / "attempts" / "000001").glob("metrics-*.jsonl"))
    assert sum(journal.stat().st_size for journal in journals) < 150 * count


def test_a_report_that_not_all_ranks_make_ends_after_the_collective_timeout_and_names_them(cluster, monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_TRAIN_COLLECTIVE_TIMEOUT_S", "5")

    def loop():
        import threading

        rank = train.get_context().get_world_rank()
        train.report({"step": 1})
        if rank != 2:
            train.report({"step": 2})
        threading.Event().wait(60)

    with pytest.raises(
        train.WorkerGroupError, match=r"rank 2 did not come to report\(\) \(report 2 of this attempt\) within 5 s"
    ) as failed:
        DataParallelTrainer(
            loop,
            scaling_config=ScalingConfig(num_workers=3),
            run_config=RunConfig(name=cluster.name("report"), storage_path=tmp_path),
        ).fit()
    assert {type(one) for one in failed.value.worker_failures.values()} == {train.BroadcastCollectiveTimeoutError}
    assert failed.value.worker_failures.keys() <= {0, 1}


@pytest.mark.parametrize("calls", ["collective.barrier()", "get_dataset_shard()"])
def test_ranks_that_a_collective_call_waits_for_are_named_after_a_while(cluster, calls, capfd):
    def loop(config):
        import threading
        import time

        train.collective.barrier()
        if train.get_context().get_world_rank() == 1:
            deadline = time.monotonic() + 4
            threading.Event().wait(deadline - time.monotonic())
        if config["calls"] == "get_dataset_shard()":
            train.get_dataset_shard("rows")
        else:
            train.collective.barrier()

    pytest.importorskip("pyarrow")
    from rtrain import data

    DataParallelTrainer(
        loop,
        train_loop_config={"calls": calls},
        datasets={"rows": data.range(8)},
        scaling_config=ScalingConfig(num_workers=3),
        run_config=RunConfig(name=cluster.name("late"), env={"RTRAIN_TRAIN_COLLECTIVE_WARN_INTERVAL_S": "2"}),
    ).fit()
    shown = capfd.readouterr().err
    lines = [line for line in shown.splitlines() if "was not made by all 3 workers" in line]
    assert lines and all("(rank 0" in line for line in lines), shown
    assert (
        f"rtrain: {calls} (collective call 2 of this attempt) was not made by all 3 workers: rank 1 has not come for" in lines[0]
    )
    assert lines[0].endswith("; ranks 0, 2 wait")


def test_a_collective_call_that_not_all_ranks_make_names_those_that_did_not_come(cluster, monkeypatch):
    monkeypatch.setenv("RAY_TRAIN_COLLECTIVE_TIMEOUT_S", "10")

    def loop():
        import threading

        train.collective.barrier()
        if train.get_context().get_world_rank() in (0, 2):
            train.collective.barrier()
        threading.Event().wait(60)

    message = r"ranks 1, 3 did not come to collective.barrier\(\) \(collective call 2 of this attempt\) within 10 s"
    with pytest.raises(train.WorkerGroupError, match=message) as failed:
        DataParallelTrainer(
            loop,
            scaling_config=ScalingConfig(num_workers=4, placement_strategy="SPREAD"),
            run_config=RunConfig(name=cluster.name("barrier")),
        ).fit()
    assert {type(one) for one in failed.value.worker_failures.values()} == {train.BroadcastCollectiveTimeoutError}
