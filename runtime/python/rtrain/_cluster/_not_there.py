"""Core functions of Ray that rtrain does not have. A call raises an error with the reason."""

from __future__ import annotations

from rtrain.train._refused import refused, refused_function

_CPP = "remote calls run Python; a job of `rtrain submit` runs any program"


def _function(name: str, instead: str) -> object:
    return refused_function(name, instead, "rtrain")


client = _function("client", "init(address) connects to a head, from any machine that has its context")
get_dashboard_url = _function("get_dashboard_url", "`rtrain dashboard` opens the head's page")
timeline = _function("timeline", "the head's page has a timeline, and GET /v1/timeline its data")
java_function = _function("java_function", _CPP)
java_actor_class = _function("java_actor_class", _CPP)
cpp_function = _function("cpp_function", _CPP)

ClientBuilder = refused("ClientBuilder", "init(address) connects to a head, from any machine that has its context", "rtrain")
Language = refused("Language", _CPP, "rtrain")
LoggingConfig = refused(
    "LoggingConfig", "Python's logging in the script has its settings; `rtrain logs` has what runs print", "rtrain"
)

_IDS = "ids of runs, nodes and workers are texts: get_runtime_context() returns them"
ActorID = refused("ActorID", _IDS, "rtrain")
FunctionID = refused("FunctionID", _IDS, "rtrain")
JobID = refused("JobID", _IDS, "rtrain")
NodeID = refused("NodeID", _IDS, "rtrain")
ObjectID = refused("ObjectID", _IDS, "rtrain")
PlacementGroupID = refused("PlacementGroupID", _IDS, "rtrain")
TaskID = refused("TaskID", _IDS, "rtrain")
UniqueID = refused("UniqueID", _IDS, "rtrain")
WorkerID = refused("WorkerID", _IDS, "rtrain")
