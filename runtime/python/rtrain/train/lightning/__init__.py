"""PyTorch Lightning inside a training function: strategies, environment, report callback."""

from rtrain.train.lightning._environment import RayLightningEnvironment
from rtrain.train.lightning._prepare import prepare_trainer
from rtrain.train.lightning._report import RayTrainReportCallback, RTrainReportCallback
from rtrain.train.lightning._strategies import RayDDPStrategy, RayDeepSpeedStrategy, RayFSDPStrategy

__all__ = [
    "RTrainReportCallback",
    "RayDDPStrategy",
    "RayDeepSpeedStrategy",
    "RayFSDPStrategy",
    "RayLightningEnvironment",
    "RayTrainReportCallback",
    "prepare_trainer",
]
