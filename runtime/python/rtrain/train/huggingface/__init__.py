"""Hugging Face libraries inside a training function. Accelerate needs nothing: it finds the ranks by itself."""

from __future__ import annotations

import importlib
from typing import Any

from rtrain.train.huggingface._trainer import TransformersTrainer

__all__ = ["TransformersTrainer"]


def __getattr__(name: str) -> Any:
    if name == "transformers":
        return importlib.import_module("rtrain.train.huggingface.transformers")
    raise AttributeError(f"module 'rtrain.train.huggingface' has no attribute {name!r}")
