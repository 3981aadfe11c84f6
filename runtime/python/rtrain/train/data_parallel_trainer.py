"""The place where older scripts look for DataParallelTrainer."""

from rtrain.train._trainer import DataParallelTrainer

__all__ = ["DataParallelTrainer"]
