"""Hugging Face libraries inside a training function. Accelerate needs nothing: it finds the ranks by itself."""

from rtrain.train.huggingface._trainer import TransformersTrainer

__all__ = ["TransformersTrainer"]
