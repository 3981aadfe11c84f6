"""The checkpoint of Ray's old `air` package: that of `rtrain.train`."""

from rtrain.train import Checkpoint

__all__ = ["Checkpoint"]
