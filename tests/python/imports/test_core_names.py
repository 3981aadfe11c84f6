"""The names of Ray's core, `util`, exceptions and jobs: each is there, or refused with its reason when it is used."""

from __future__ import annotations

import importlib

import pytest
from rtrain.train._refused import NotInRtrainError

THERE = {
    "rtrain": """
        ObjectRef ObjectRefGenerator actor air available_resources cancel cluster_resources data exceptions get get_actor get_gpu_ids
        get_runtime_context init is_initialized job_submission kill method nodes put remote shutdown train tune util wait
        __version__""",
    "rtrain.actor": "ActorClass ActorHandle ActorMethod exit_actor",
    "rtrain.air": "Checkpoint CheckpointConfig FailureConfig Result RunConfig ScalingConfig",
    "rtrain.air.checkpoint": "Checkpoint",
    "rtrain.air.config": "CheckpointConfig FailureConfig RunConfig ScalingConfig",
    "rtrain.air.result": "Result",
    "rtrain.air.session": """
        get_checkpoint get_dataset_shard get_experiment_name get_local_rank get_local_world_size get_node_rank get_trial_dir
        get_trial_id get_trial_name get_trial_resources get_world_rank get_world_size report""",
    "rtrain.exceptions": """
        ActorDiedError ActorUnavailableError ActorUnschedulableError GetTimeoutError NodeDiedError ObjectFetchTimedOutError
        ObjectLostError ObjectReconstructionFailedError ObjectStoreFullError OutOfMemoryError OwnerDiedError
        PendingCallsLimitExceeded RayActorError RayError RaySystemError RayTaskError RuntimeEnvSetupError TaskCancelledError
        TaskUnschedulableError WorkerCrashedError""",
    "rtrain.job_submission": "JobDetails JobInfo JobStatus JobSubmissionClient JobType",
    "rtrain.runtime_context": "RuntimeContext get_runtime_context",
    "rtrain.util": "ActorPool get_node_ip_address list_named_actors log_once queue state",
    "rtrain.util.queue": "Empty Full Queue",
    "rtrain.util.state": """
        get_actor get_job get_log get_node get_task list_actors list_jobs list_nodes list_tasks summarize_actors
        summarize_tasks""",
}
REFUSED = {
    "rtrain": """
        ActorID ClientBuilder FunctionID JobID Language LoggingConfig NodeID ObjectID PlacementGroupID TaskID UniqueID WorkerID
        client cpp_function get_dashboard_url java_actor_class java_function timeline""",
    "rtrain.autoscaler.sdk": "request_resources",
    "rtrain.util": """
        get_current_placement_group get_placement_group inspect_serializability placement_group
        placement_group_table register_serializer remove_placement_group""",
    "rtrain.util.collective": """
        allgather allreduce barrier broadcast create_collective_group destroy_collective_group get_collective_group_size
        get_rank init_collective_group is_group_initialized recv reduce reducescatter send""",
    "rtrain.util.scheduling_strategies": """
        NodeAffinitySchedulingStrategy NodeLabelSchedulingStrategy PlacementGroupSchedulingStrategy""",
    "rtrain.util.state": """
        list_objects list_placement_groups list_runtime_envs list_workers summarize_objects""",
}


@pytest.mark.parametrize("module", THERE)
def test_each_name_of_the_core_is_there(module: str) -> None:
    imported = importlib.import_module(module)
    assert [name for name in THERE[module].split() if not hasattr(imported, name)] == []


@pytest.mark.parametrize("module", REFUSED)
def test_each_refused_name_says_why_when_it_is_used(module: str) -> None:
    imported = importlib.import_module(module)
    for name in REFUSED[module].split():
        with pytest.raises(NotInRtrainError, match=f"rtrain has no {name}: ....") as error:
            getattr(imported, name)("an argument")
        assert len(str(error.value)) > len(f"rtrain has no {name}: ") + 20


@pytest.mark.parametrize("module", [*THERE, *REFUSED])
def test_no_public_name_is_in_neither_table(module: str) -> None:
    public = set(importlib.import_module(module).__all__) - {"ActorError", "RemoteError", "TaskError", "collective"}
    listed = {*THERE.get(module, "").split(), *REFUSED.get(module, "").split()}
    states = {"ActorState", "JobState", "NodeState", "State", "TaskState"}
    assert public - listed - (states if module == "rtrain.util.state" else set()) == set()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"lifetime": "detached"}, "lifetime='detached' is not supported"),
        ({"get_if_exists": True}, "get_if_exists finds an actor by its name, and there is no name="),
        ({"concurrency_groups": {"io": 2}}, "max_concurrency counts for all methods"),
        ({"num_returns": "dynamic"}, 'use "streaming"'),
        ({"max_restarts": -2}, "max_restarts is -2; it is a whole number, -1 or more"),
        ({"max_concurrency": 0}, "max_concurrency is 0"),
    ],
)
def test_an_option_that_is_not_carried_out_is_refused(options: dict[str, object], why: str) -> None:
    import rtrain

    class Actor:
        pass

    with pytest.raises(ValueError, match=why):
        rtrain.remote(**options)(Actor)  # type: ignore[arg-type]
