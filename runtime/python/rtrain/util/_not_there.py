"""Functions of Ray's `util` that rtrain does not have. A call raises an error with the reason."""

from __future__ import annotations

from rtrain.train._refused import refused, refused_function

_GANGS = "a trainer's workers are placed together (ScalingConfig); remote calls have resources and label_selector"
_PICKLE = "values are pickled by cloudpickle: give the class a __reduce__"


def _function(name: str, instead: str) -> object:
    return refused_function(name, instead, "rtrain.util")


placement_group = _function("placement_group", _GANGS)
remove_placement_group = _function("remove_placement_group", _GANGS)
placement_group_table = _function("placement_group_table", _GANGS)
get_placement_group = _function("get_placement_group", _GANGS)
get_current_placement_group = _function("get_current_placement_group", _GANGS)
register_serializer = _function("register_serializer", _PICKLE)
inspect_serializability = _function("inspect_serializability", "the TypeError of a call names what cannot be pickled")

PlacementGroupSchedulingStrategy = refused("PlacementGroupSchedulingStrategy", _GANGS, "rtrain.util.scheduling_strategies")
NodeAffinitySchedulingStrategy = refused(
    "NodeAffinitySchedulingStrategy",
    'label_selector={"hostname": NAME} chooses the node',
    "rtrain.util.scheduling_strategies",
)
NodeLabelSchedulingStrategy = refused(
    "NodeLabelSchedulingStrategy", "label_selector= chooses nodes by labels", "rtrain.util.scheduling_strategies"
)
