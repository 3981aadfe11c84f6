"""TorchTrainer: the ranks share a process group, also if the loop itself imports torch."""

from __future__ import annotations

import os
import sys

import pytest
from rtrain import train
from rtrain.train import Checkpoint, RunConfig, ScalingConfig
from rtrain.train.torch import TorchConfig, TorchTrainer


def test_ranks_train_one_model_and_its_tensors_come_back(cluster):
    def loop(config):
        import collections

        import numpy
        import torch
        import torch.distributed as dist
        from rtrain.train.torch import prepare_model

        assert dist.is_initialized()
        assert dist.get_backend() == "gloo"
        torch.manual_seed(dist.get_rank())
        model = prepare_model(torch.nn.Linear(2, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"])
        loss = model(torch.ones(4, 2) * (dist.get_rank() + 1)).square().mean()
        loss.backward()
        optimizer.step()
        total = torch.ones(1) * dist.get_rank()
        dist.all_reduce(total)
        values = {"weights": model.state_dict(), "deep": [model.module.weight.detach()], "epoch": 1}
        values["array"], values["plain"] = {"x": numpy.arange(3)}, collections.Counter("aab")
        train.report({"total": total.item(), "loss": loss.detach()}, Checkpoint.from_dict(values))

    result = TorchTrainer(
        loop,
        train_loop_config={"lr": 0.1},
        torch_config=TorchConfig(timeout_s=120),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name=cluster.name("torch")),
    ).fit()
    assert result.metrics["total"] == 1.0
    values = result.checkpoint.to_dict()
    assert values["epoch"] == 1
    assert values["deep"][0].device.type == "cpu"
    assert values["deep"][0].shape == (1, 2)
    assert values["weights"]["module.weight"].equal(values["deep"][0])
    assert (values["array"]["x"].tolist(), values["plain"]) == ([0, 1, 2], {"a": 2, "b": 1})
    with result.checkpoint.as_directory() as folder:
        assert len([name for name in os.listdir(folder) if name[0] != "."]) == 1


def test_tensorboard_makes_no_rank_wait_for_a_torch_that_the_loop_does_not_use(cluster, tmp_path):
    pytest.importorskip("tensorboard")

    def loop():
        for step in range(3):
            train.report({"step": step})
        return "torch" in sys.modules

    result = TorchTrainer(
        loop,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name=cluster.name("board"), storage_path=tmp_path / "runs", tracking={"tensorboard": True}),
    ).fit()
    assert result.return_value is False
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    seen = EventAccumulator(f"{result.path}/tensorboard")
    seen.Reload()
    assert [(one.step, one.value) for one in seen.Scalars("step")] == [(1, 0), (2, 1), (3, 2)]


def test_a_process_forked_by_the_loop_joins_no_group(cluster):
    def loop():
        import multiprocessing

        def child(answers):
            import torch.distributed as dist

            answers.put(dist.is_initialized())

        context = multiprocessing.get_context("fork")
        answers = context.Queue()
        process = context.Process(target=child, args=(answers,))
        process.start()
        return answers.get(timeout=60)

    result = TorchTrainer(
        loop, scaling_config=ScalingConfig(num_workers=2), run_config=RunConfig(name=cluster.name("forked"))
    ).fit()
    assert result.return_value is False
