"""A Lightning trainer that would train on one rank alone is refused. The strategies use the run's ranks."""

import lightning.pytorch as pl
import pytest
from rtrain.train.lightning import (
    RayDDPStrategy,
    RayDeepSpeedStrategy,
    RayFSDPStrategy,
    RayLightningEnvironment,
    RayTrainReportCallback,
    RTrainReportCallback,
    prepare_trainer,
)


@pytest.fixture
def second_of_two(monkeypatch):
    ranks = {"RANK": 1, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "NODE_RANK": 1}
    for name, value in ranks.items():
        monkeypatch.setenv(name, str(value))


def plain_trainer():
    return pl.Trainer(accelerator="cpu", devices=1, logger=False, enable_checkpointing=False)


def test_a_trainer_of_its_own_ranks_is_refused_with_the_way_to_go(second_of_two):
    with pytest.raises(RuntimeError, match=r"this run has 2 workers.*RayDDPStrategy"):
        prepare_trainer(plain_trainer())


def test_one_worker_takes_any_trainer(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    made = plain_trainer()
    assert prepare_trainer(made) is made
    assert RayTrainReportCallback is RTrainReportCallback


@pytest.mark.parametrize("strategy", [RayDDPStrategy, RayFSDPStrategy])
def test_the_strategies_take_the_runs_ranks(second_of_two, strategy):
    made = strategy(cluster_environment=RayLightningEnvironment())
    assert str(made.root_device) == "cpu" and made.distributed_sampler_kwargs == {"num_replicas": 2, "rank": 1}
    environment = made.cluster_environment
    environment.set_world_size(7)
    environment.set_global_rank(7)
    assert (environment.world_size(), environment.global_rank(), environment.node_rank()) == (2, 1, 1)
    assert environment.creates_processes_externally


def test_deepspeed_names_the_package_that_it_needs():
    with pytest.raises(Exception, match="pip install -U deepspeed"):
        RayDeepSpeedStrategy()
