"""Core functions of Ray that rtrain does not have. A call raises an error with the reason."""

from __future__ import annotations

from rtrain.train._refused import refused_function

_CPP = "remote calls run Python; a job of `rtrain submit` runs any program"


def _function(name: str, instead: str) -> object:
    return refused_function(name, instead, "rtrain")


get_actor = _function(
    "get_actor",
    "the head keeps no keys of actors, so none is found by its name. Pass the handle in arguments of remote calls: it works in "
    "every process that it reaches",
)
client = _function("client", "init(address) connects to a head, from any machine that has its context")
get_dashboard_url = _function("get_dashboard_url", "`rtrain dashboard` opens the head's page")
timeline = _function("timeline", "the head's page has a timeline, and GET /v1/timeline its data")
java_function = _function("java_function", _CPP)
java_actor_class = _function("java_actor_class", _CPP)
