"""The state of the cluster as lists: runs of remote calls as tasks and actors, nodes, jobs, and counts of them."""

from rtrain.util.state._lists import (
    ActorState,
    JobState,
    NodeState,
    State,
    TaskState,
    get_actor,
    get_job,
    get_node,
    get_task,
    list_actors,
    list_jobs,
    list_nodes,
    list_tasks,
    summarize_actors,
    summarize_tasks,
)
from rtrain.util.state._logs import get_log
from rtrain.util.state._not_there import (
    list_objects,
    list_placement_groups,
    list_runtime_envs,
    list_workers,
    summarize_objects,
)

__all__ = [
    "ActorState",
    "JobState",
    "NodeState",
    "State",
    "TaskState",
    "get_actor",
    "get_job",
    "get_log",
    "get_node",
    "get_task",
    "list_actors",
    "list_jobs",
    "list_nodes",
    "list_objects",
    "list_placement_groups",
    "list_runtime_envs",
    "list_tasks",
    "list_workers",
    "summarize_actors",
    "summarize_objects",
    "summarize_tasks",
]
