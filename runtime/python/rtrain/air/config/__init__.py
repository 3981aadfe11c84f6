"""The configs of Ray's old `air` package: each is that of `rtrain.train`."""

from rtrain.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig

__all__ = ["CheckpointConfig", "FailureConfig", "RunConfig", "ScalingConfig"]
