"""The names of Ray's old `air` package: each is that of `rtrain.train`."""

from rtrain.train import Checkpoint, CheckpointConfig, FailureConfig, Result, RunConfig, ScalingConfig

__all__ = ["Checkpoint", "CheckpointConfig", "FailureConfig", "Result", "RunConfig", "ScalingConfig"]
