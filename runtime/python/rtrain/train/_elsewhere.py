"""Where driver.pkl of earlier versions finds its class: `Elsewhere` lies in `_checkpoints._elsewhere`."""

from rtrain.train._checkpoints._elsewhere import Elsewhere

__all__ = ["Elsewhere"]
