"""Hugging Face libraries inside a training function. Accelerate needs nothing: it finds the ranks in the environment."""

from rtrain.train.huggingface._trainer import TransformersTrainer

__all__ = ["TransformersTrainer"]
