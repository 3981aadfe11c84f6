"""Hugging Face libraries inside a training function. Accelerate finds the ranks by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtrain._lazy import lazy_names
from rtrain.train.huggingface._trainer import TransformersTrainer

if TYPE_CHECKING:
    from rtrain.train.huggingface import transformers as transformers
else:
    __getattr__, __dir__, _ = lazy_names(__name__)

__all__ = ["TransformersTrainer"]
