"""Ray's autoscaler from a script, which rtrain does not have. A call raises an error with the reason."""

from rtrain.train._refused import refused_function

__all__ = ["request_resources"]

request_resources = refused_function(
    "request_resources", "the head starts nodes for runs that wait, and gives idle ones back", "rtrain.autoscaler.sdk"
)
