"""Integrations of other tools, imported only when they are used: `rtrain.integrations.mlflow`, `rtrain.integrations.wandb`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtrain._lazy import lazy_names

if TYPE_CHECKING:
    from rtrain.integrations import mlflow as mlflow, wandb as wandb
else:
    __getattr__, __dir__, _ = lazy_names(__name__)

__all__ = ["mlflow", "wandb"]
