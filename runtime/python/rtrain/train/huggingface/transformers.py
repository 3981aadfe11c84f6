"""Hugging Face Transformers: `prepare_trainer` and the callback that reports each save; `TransformersTrainer` on
demand."""

from rtrain.train.huggingface._prepare import prepare_trainer
from rtrain.train.huggingface._report import RayTrainReportCallback, RTrainReportCallback

__all__ = ["RTrainReportCallback", "RayTrainReportCallback", "prepare_trainer"]
