"""XGBoost on several workers: a trainer, its settings, and a callback that reports rounds and checkpoints."""

from rtrain.train.xgboost._checkpoint import XGBoostCheckpoint
from rtrain.train.xgboost._config import XGBoostConfig
from rtrain.train.xgboost._report import RayTrainReportCallback, RTrainReportCallback
from rtrain.train.xgboost._trainer import XGBoostTrainer

__all__ = ["RTrainReportCallback", "RayTrainReportCallback", "XGBoostCheckpoint", "XGBoostConfig", "XGBoostTrainer"]
