"""Functions of Ray's state API about things that rtrain does not have. A call raises an error with the reason."""

from __future__ import annotations

from rtrain.train._refused import refused_function


def _function(name: str, instead: str) -> object:
    return refused_function(name, instead, "rtrain.util.state")


_NO_STORE = "there is no object store: the process that holds a ref has its value"
list_objects = _function("list_objects", _NO_STORE)
summarize_objects = _function("summarize_objects", _NO_STORE)
list_placement_groups = _function("list_placement_groups", "there are no placement groups")
list_runtime_envs = _function("list_runtime_envs", "the job of each run has its environment (rtrain describe)")
list_workers = _function("list_workers", "each run has its workers (rtrain describe, GET /v1/runs/RUN/attempts)")
