"""DeepSpeed inside the loop, on CPUs. The tests' environment does not include it: `pip install deepspeed` there
enables this test.
"""

from __future__ import annotations

import importlib.util

import pytest
from rtrain import train
from rtrain.train import RunConfig, ScalingConfig

pytestmark = pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="deepspeed is not installed")


def test_zero_trains_alike_at_every_stage_on_all_ranks(cluster):
    from rtrain.train.torch import TorchTrainer

    def loop(config):
        import deepspeed
        import torch

        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # gloo instead of a kernel that must be compiled
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 1)
        settings = {
            "train_micro_batch_size_per_gpu": 4,
            "optimizer": {"type": "SGD", "params": {"lr": 0.05}},
            "zero_optimization": {"stage": config["stage"]},
            "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False,
        }
        engine, *_ = deepspeed.initialize(
            model=model, model_parameters=model.parameters(), config=settings, dist_init_required=False
        )
        torch.manual_seed(1 + train.get_context().get_world_rank())
        for _ in range(5):
            batch = torch.randn(4, 4)
            loss = ((engine(batch) - batch.sum(1, keepdim=True)) ** 2).mean()
            engine.backward(loss)
            engine.step()
            train.report({"loss": loss.item()})
        parameters = torch.cat([one.detach().flatten() for one in engine.module.parameters()])
        everybody = [torch.empty_like(parameters) for _ in range(2)]
        torch.distributed.all_gather(everybody, parameters)
        return all(torch.equal(one, parameters) for one in everybody), parameters.tolist()

    results = {}
    for stage in (0, 1):
        result = TorchTrainer(
            loop,
            train_loop_config={"stage": stage},
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(name=cluster.name("deepspeed"), env={"DS_ACCELERATOR": "cpu"}),
        ).fit()
        assert len(result.all_metrics) == 5
        alike, results[stage] = result.return_value
        assert alike
    assert results[0] == pytest.approx(results[1])
