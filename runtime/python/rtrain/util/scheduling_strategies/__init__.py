"""Ray's scheduling strategies, which rtrain does not have. Making one raises an error that names the replacement."""

from rtrain.util._not_there import (
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)

__all__ = ["NodeAffinitySchedulingStrategy", "NodeLabelSchedulingStrategy", "PlacementGroupSchedulingStrategy"]
