"""The result of Ray's old `air` package: that of `rtrain.train`."""

from rtrain.train import Result

__all__ = ["Result"]
