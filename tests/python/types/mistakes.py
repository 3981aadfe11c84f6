# ruff: noqa
# pyright: reportUnusedExpression=none
"""Mistakes in calls of the public API. Each line with the comment `# wrong` must be an error for mypy and for pyright, and no other line.

test_types.py checks this file; nothing runs it.
"""

import rtrain
import rtrain.data
import rtrain.train
import rtrain.train.torch
from rtrain import train, tune
from rtrain.train import (
    CheckpointConfig,
    DataParallelTrainer,
    FailureConfig,
    RunConfig,
    ScalingConfig,
)
from rtrain.train import RunConfg  # wrong
from rtrain.train.torch import TorchTrainer, prepare_data_loader
from rtrain.tune.schedulers import ASHAScheduler
from rtrain.tune.stopper import MaximumIterationStopper
from torch.utils.data import DataLoader, TensorDataset


def loop(config: dict[str, float]) -> None:
    train.report({"loss": 1.0}, checkpoint_dir="here")  # wrong
    train.report(1.0)  # wrong
    train.should_checkpoint(now=True)  # wrong
    train.get_context().get_world_rnk()  # wrong
    train.get_checkpoint().path  # wrong
    train.collective.broadcast(1)  # wrong
    train.no_such_function()  # wrong


def two(first: int, second: int) -> None: ...


# Configs
RunConfig(nmae=1)  # wrong
RunConfig(name=1)  # wrong
ScalingConfig(num_worker=2)  # wrong
ScalingConfig(num_workers="2")  # wrong
FailureConfig(max_failure=3)  # wrong
CheckpointConfig(num_to_keep="3")  # wrong
train.ValidationConfig()  # wrong
train.LoggingConfig(level="INFO")  # wrong
rtrain.train.DataConfig(dataset_to_split="all")  # wrong

# Trainers and results
TorchTrainer(loop, scaling=ScalingConfig())  # wrong
TorchTrainer(two)  # wrong
TorchTrainer(loop, run_config=ScalingConfig())  # wrong
DataParallelTrainer(loop, torch_config=None)  # wrong
TorchTrainer.restore("run", storage_path="there")  # wrong
result = TorchTrainer(loop).fit()
result.metric  # wrong
result.get_best_checkpoint("loss")  # wrong
train.Result.from_path(1)  # wrong
train.attach(1)  # wrong
rtrain.train.torch.get_device(1)  # wrong
rtrain.train.torch.prepare_modl()  # wrong
loader = prepare_data_loader(DataLoader(TensorDataset(), batch_size=2))
prepare_data_loader(loader, shuffle=True)  # wrong
loader.sampler.set_epoch("1")  # wrong

# Tune
tuner = tune.Tuner(loop)
tune.Tuner(loop, params={"lr": 1})  # wrong
tune.Tuner(loop, tune_config=tune.TuneConfig(num_sample=3))  # wrong
tune.Tuner(loop, tune_config=tune.RunConfig())  # wrong
tune.uniform(1)  # wrong
tune.loguniform("1", 2)  # wrong
tune.choice()  # wrong
tune.CLIReporter(columns=["loss"])  # wrong
tune.run(loop, sample=3)  # wrong
tuner.fitt()  # wrong
tuner.fit().get_best_result(metrics="loss")  # wrong
ASHAScheduler(max_time=3)  # wrong
MaximumIterationStopper("3")  # wrong

# Remote calls and clusters
rtrain.init(adress="auto")  # wrong
rtrain.init(num_cpus="2")  # wrong
rtrain.remote(num_gpu=1)(two)  # wrong
rtrain.remote(two).options(num_cpu=1)  # wrong
rtrain.remote(two).remotes(1, 2)  # wrong
rtrain.get(1)  # wrong
rtrain.wait([], num_return=1)  # wrong
rtrain.shutdwn()  # wrong

# Data
dataset = rtrain.data.read_parquet("here")
rtrain.data.read_parquet("here", column=["x"])  # wrong
dataset.map(loop, concurency=3)  # wrong
dataset.map_batchs(loop)  # wrong
dataset.write_csv("there", rows=3)  # wrong
dataset.iterator().iter_torch_batches(batchsize=3)  # wrong
rtrain.data.read_cvs("here")  # wrong
rtrain.data.mix({dataset: 0.5}, seed=1, stopping_strategy="all_exhausted", schedule={300: {dataset: 1}}).pack(2048, "tokens")
rtrain.data.mix({"here": 0.5})  # wrong
rtrain.data.mix({dataset: 0.5}, stopping_strategy="never")  # wrong
dataset.pack("2048")  # wrong
dataset.pack(2048, split=True)  # wrong
rtrain.integrations.wandbb  # wrong
rtrain.integrations.mlflow.setup_mlflw()  # wrong
