"""TensorFlow on several workers: a trainer whose ranks are the workers of MultiWorkerMirroredStrategy."""

from rtrain.train.tensorflow._checkpoint import TensorflowCheckpoint
from rtrain.train.tensorflow._config import TensorflowConfig, prepare_dataset_shard
from rtrain.train.tensorflow._trainer import TensorflowTrainer

__all__ = ["TensorflowCheckpoint", "TensorflowConfig", "TensorflowTrainer", "prepare_dataset_shard"]
