"""Imports Lightning by its name `lightning.pytorch`, or by the older `pytorch_lightning`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lightning.fabric.plugins.environments.lightning import LightningEnvironment
    from lightning.pytorch import Trainer
    from lightning.pytorch.callbacks import Callback
    from lightning.pytorch.strategies import DDPStrategy, DeepSpeedStrategy, FSDPStrategy
else:
    try:
        from lightning.pytorch import Trainer
        from lightning.pytorch.callbacks import Callback
        from lightning.pytorch.plugins.environments import LightningEnvironment
        from lightning.pytorch.strategies import DDPStrategy, DeepSpeedStrategy, FSDPStrategy
    except ImportError:
        from pytorch_lightning import Trainer
        from pytorch_lightning.callbacks import Callback
        from pytorch_lightning.plugins.environments import LightningEnvironment
        from pytorch_lightning.strategies import DDPStrategy, DeepSpeedStrategy, FSDPStrategy

__all__ = ["Callback", "DDPStrategy", "DeepSpeedStrategy", "FSDPStrategy", "LightningEnvironment", "Trainer"]
