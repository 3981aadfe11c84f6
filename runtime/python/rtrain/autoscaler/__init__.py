"""Ray's autoscaler, whose functions rtrain does not have: the head starts nodes for what waits (docs/autoscaling.md)."""

from rtrain.autoscaler import sdk

__all__ = ["sdk"]
