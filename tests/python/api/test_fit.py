"""fit() from the call to the Result."""

from __future__ import annotations

import pytest
from rtrain import train
from rtrain.train import DataParallelTrainer, RunConfig, ScalingConfig


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
    lines = str(caught.value.worker_failures[1]).splitlines()
    place = next(number for number, line in enumerate(lines) if "the column is missing" in line)
    assert "in deepest" in lines[place + 1]
    assert "test_fit.py" in lines[place + 1]
