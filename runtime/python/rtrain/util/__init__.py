"""Tools of scripts beside calls and actors: pools of actors, queues, the state of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtrain._lazy import lazy_names

if TYPE_CHECKING:
    from rtrain._cluster._view import get_node_ip_address as get_node_ip_address
    from rtrain._remote._actors._names import list_named_actors as list_named_actors
    from rtrain.util import (
        collective as collective,
        queue as queue,
        scheduling_strategies as scheduling_strategies,
        state as state,
    )
    from rtrain.util._actor_pool import ActorPool as ActorPool
    from rtrain.util._log_once import log_once as log_once
    from rtrain.util._not_there import (
        get_current_placement_group as get_current_placement_group,
        get_placement_group as get_placement_group,
        inspect_serializability as inspect_serializability,
        placement_group as placement_group,
        placement_group_table as placement_group_table,
        register_serializer as register_serializer,
        remove_placement_group as remove_placement_group,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
