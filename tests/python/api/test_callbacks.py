"""The arguments of a driver's callbacks, the exceptions that they and fit() raise, and the effects of a callback's
own exception.
"""

from __future__ import annotations

import threading

import pytest
from local_cluster import wait_for
from rtrain import train
from rtrain._http import Head
from rtrain.train import Checkpoint, DataParallelTrainer, FailureConfig, RunConfig, ScalingConfig, UserCallback


class Recorder(UserCallback):
    def __init__(self):
        self.reports, self.failures, self.order = [], [], []

    def before_run(self, run_context):
        self.order.append("before")

    def after_report(self, run_context, metrics, checkpoint):
        self.reports.append((run_context.name, metrics, checkpoint.name if checkpoint else None))

    def after_exception(self, run_context, worker_exceptions):
        self.failures.append({rank: f"{type(error).__name__}: {error}" for rank, error in worker_exceptions.items()})

    def after_run(self, run_context):
        self.order.append("after")


def test_callbacks_hear_of_every_rank_s_report_and_of_failures(cluster):
    def loop():
        context = train.get_context()
        train.report({"rank": context.get_world_rank(), "attempt": context.get_attempt()})
        if context.get_attempt() == 1:
            raise ValueError("first try")

    recorder, name = Recorder(), cluster.name("told")
    DataParallelTrainer(
        loop,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name=name, callbacks=[recorder], failure_config=FailureConfig(max_failures=1)),
    ).fit()
    assert recorder.order == ["before", "after"]
    assert [report[1] for report in recorder.reports] == [
        [{"rank": 0, "attempt": attempt}, {"rank": 1, "attempt": attempt}] for attempt in (1, 2)
    ]
    assert recorder.failures
    assert set(recorder.failures[0].values()) == {"ValueError: first try"}
    for rank in (0, 1):
        rows = cluster.json("metrics", name, "--rank", rank)["items"]
        assert [row["metrics"] for row in rows] == [{"rank": rank, "attempt": attempt} for attempt in (1, 2)]


def test_callbacks_hear_of_a_checkpoint_once_it_is_committed(cluster, tmp_path):
    class Recorder(UserCallback):
        def __init__(self):
            self.heard = []

        def after_report(self, run_context, metrics, checkpoint):
            self.heard.append((metrics[0]["epoch"], None if checkpoint is None else checkpoint.to_dict()["epoch"]))

    def loop():
        rank = train.get_context().get_world_rank()
        for epoch in range(6):
            checkpoint = Checkpoint.from_dict({"epoch": epoch}) if rank == 1 and epoch % 2 else None
            train.report({"epoch": epoch}, checkpoint)

    recorder = Recorder()
    for storage_path in (None, str(tmp_path)):
        DataParallelTrainer(
            loop,
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(name=cluster.name("told"), storage_path=storage_path, callbacks=[recorder]),
        ).fit()
        assert recorder.heard == [(epoch, epoch if epoch % 2 else None) for epoch in range(6)]
        recorder.heard.clear()


class Diverged(ValueError):
    def __init__(self, step, loss):
        super().__init__(f"diverged at {step}")
        self.step, self.loss = step, loss

    def __reduce__(self):
        return Diverged, (self.step, self.loss)


class Unpicklable(RuntimeError):
    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


@pytest.mark.parametrize("travels", [True, False])
def test_callbacks_and_errors_have_what_the_loop_raised_or_where_it_cannot_travel_its_text(cluster, travels):
    def loop():
        if travels:
            raise Diverged(7, float("inf"))
        raise Unpicklable("has a lock")

    class Hears(UserCallback):
        def after_exception(self, run_context, worker_exceptions):
            heard.append(worker_exceptions)

    heard = []
    with pytest.raises(train.WorkerGroupError) as failed:
        DataParallelTrainer(loop, run_config=RunConfig(name=cluster.name("raised"), callbacks=[Hears()])).fit()
    for error in (failed.value.worker_failures[0], heard[0][0]):
        if travels:
            assert type(error) is Diverged and (error.step, error.loss) == (7, float("inf"))
            assert "in loop: raise Diverged" in str(error.__cause__)
        else:
            assert type(error) is train.UserExceptionWithTraceback and "Unpicklable: has a lock" in str(error)


class WrongAtFirst(UserCallback):
    def before_run(self, run_context):
        assert Head.current().get(f"/v1/runs/{run_context.run_id}")["run_path"] == run_context.run_path
        raise ZeroDivisionError("in the callback")


class WrongAtAReport(UserCallback):
    def after_report(self, run_context, metrics, checkpoint):
        raise ZeroDivisionError("in the callback")


@pytest.mark.parametrize("wrong", [WrongAtFirst, WrongAtAReport])
def test_an_error_in_a_callback_ends_the_run(cluster, wrong):
    def loop():
        for _ in range(600):
            train.report({})
            threading.Event().wait(0.1)

    name, recorder = cluster.name("wrong"), Recorder()
    with pytest.raises(train.ControllerError, match="a callback of .* raised ZeroDivisionError: in the callback") as failed:
        DataParallelTrainer(loop, run_config=RunConfig(name=name, callbacks=[recorder, wrong()])).fit()
    assert isinstance(failed.value.controller_failure, ZeroDivisionError)
    assert recorder.order == ["before", "after"]
    wait_for("the end", lambda: cluster.json("describe", name)["state"] in ("STOPPED", "FAILED"))
