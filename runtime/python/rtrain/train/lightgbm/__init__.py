"""LightGBM on several workers: a trainer, its settings, and a callback that reports rounds and checkpoints."""

from rtrain.train.lightgbm._config import LightGBMConfig, get_network_params
from rtrain.train.lightgbm._frames import normalize_pandas_for_lightgbm
from rtrain.train.lightgbm._report import RayTrainReportCallback, RTrainReportCallback
from rtrain.train.lightgbm._trainer import LightGBMTrainer

__all__ = [
    "LightGBMConfig",
    "LightGBMTrainer",
    "RTrainReportCallback",
    "RayTrainReportCallback",
    "get_network_params",
    "normalize_pandas_for_lightgbm",
]
