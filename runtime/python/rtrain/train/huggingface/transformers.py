"""Hugging Face Transformers: `prepare_trainer`, the callback that reports each save, and `TransformersTrainer`."""

from rtrain.train.huggingface._prepare import prepare_trainer
from rtrain.train.huggingface._report import RayTrainReportCallback, RTrainReportCallback
from rtrain.train.huggingface._trainer import TransformersTrainer

__all__ = ["RTrainReportCallback", "RayTrainReportCallback", "TransformersTrainer", "prepare_trainer"]
