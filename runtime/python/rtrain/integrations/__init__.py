"""Other people's tools, imported only when they are named: `rtrain.integrations.mlflow`, `rtrain.integrations.wandb`."""

from __future__ import annotations

import importlib
from types import ModuleType

_MODULES = ("mlflow", "wandb")


def __getattr__(name: str) -> ModuleType:
    if name in _MODULES:
        return importlib.import_module(f"rtrain.integrations.{name}")
    raise AttributeError(f"module 'rtrain.integrations' has no attribute {name!r}")
