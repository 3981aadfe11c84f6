"""The cluster seen from a script: resources, nodes, the context of a process, the state API and jobs."""

from __future__ import annotations

from homes import Home


def test_resources_nodes_and_the_context_of_each_process(home: Home) -> None:
    out = home.script("""
        import rtrain as ray

        ray.init(num_cpus=4, resources={"custom": 2})
        whole = ray.cluster_resources()
        print(whole["CPU"], whole["custom"], whole["memory"] > 0, whole["node:127.0.0.1"])
        node, = ray.nodes()
        print(node["NodeID"], node["Alive"], node["NodeManagerAddress"], node["Resources"]["CPU"], node["NodeManagerPort"] > 0)
        context = ray.get_runtime_context()
        print(context.get_node_id(), context.get_task_id(), context.get_actor_id(), context.get_assigned_resources())
        print(ray.util.get_node_ip_address(), ray.get_gpu_ids(), ray.is_initialized(), context.gcs_address.startswith("127.0.0.1:"))

        @ray.remote(num_cpus=3)
        def inside():
            context = ray.get_runtime_context()
            free = ray.available_resources()
            return context.get_job_id(), context.get_task_name(), context.get_assigned_resources(), free["CPU"], free["custom"]

        @ray.remote
        class Actor:
            def __init__(self, number):
                self.number = number

            def myself(self):
                context = ray.get_runtime_context()
                return context.current_actor, context.get_actor_name(), context.get_task_name(), context.was_current_actor_reconstructed

            def more(self):
                return self.number + 1

        job, *rest = ray.get(inside.remote())
        print(job == context.get_job_id(), rest)
        actor = Actor.options(name="named").remote(1)
        itself, *rest = ray.get(actor.myself.remote())
        print(itself == actor, ray.get(itself.more.remote()), rest)
        try:
            context.current_actor
        except RuntimeError as error:
            print(error)
    """)
    assert out.splitlines() == [
        "4.0 2.0 True 1.0",
        "node-1 True 127.0.0.1 4.0 True",
        "node-1 None None {}",
        "127.0.0.1 [] True True",
        "True ['inside', {'CPU': 3.0}, 1.0, 2.0]",
        "True 2 ['named', 'Actor.myself', False]",
        "this process is no actor",
    ]


def test_gpus_of_a_worker_are_listed(home: Home) -> None:
    home.rtrain("up", "--pass-env", "PYTHONPATH", "--port", "0", "--resources", "CPU=2", "--fake-gpus", "2xA100")
    try:
        out = home.script("""
            import rtrain
            rtrain.init("auto")

            @rtrain.remote(num_gpus=1)
            def inside():
                return rtrain.get_gpu_ids(), rtrain.get_runtime_context().get_accelerator_ids(), rtrain.available_resources()["GPU"]

            whole = rtrain.cluster_resources()
            print(whole["GPU"], whole["accelerator_type:A100"])
            print(rtrain.get(inside.remote()))
        """)
        assert out.splitlines() == ["2.0 1.0", "([0], {'GPU': ['0']}, 1.0)"]
    finally:
        home.rtrain("down", "--yes")


def test_tasks_actors_and_nodes_are_listed_and_counted(home: Home) -> None:
    out = home.script("""
        import os
        import rtrain
        from rtrain.util import state

        rtrain.init(num_cpus=2)

        @rtrain.remote(max_calls=1)
        def fails():
            print("a line")
            raise ValueError("no")

        @rtrain.remote
        class Actor:
            def pid(self):
                return os.getpid()

        actor = Actor.options(name="named").remote()
        pid = rtrain.get(actor.pid.remote())
        try:
            rtrain.get(fails.options(name="named-task").remote())
        except ValueError:
            pass
        while not state.list_tasks(filters=[("state", "=", "FAILED")]):
            pass
        task, = state.list_tasks(detail=True)
        print(task.name, task["func_or_class_name"], task.state, "ValueError: no" in task.error_message, task.get("nothing", 7))
        print(state.get_task(task.task_id).end_time_ms >= task.start_time_ms, state.get_task("r-nothing"))
        listed, = state.list_actors(filters=[("state", "!=", "DEAD")], detail=True)
        print(listed.class_name, listed.name, listed.state, listed.pid == pid, listed.node_id)
        print(state.get_actor(listed.actor_id).asdict()["state"], state.get_actor(task.task_id))
        print(state.summarize_tasks()["cluster"]["summary"]["fails"]["state_counts"], state.summarize_actors()["cluster"]["total_actors"])
        print([node.state for node in state.list_nodes()], state.get_node("node-1").node_ip, state.list_jobs())
        print("a line\\n" in list(state.get_log(task_id=task.task_id)))
        for wrong in (lambda: state.list_tasks("10.0.0.1:1"), lambda: state.list_tasks(filters=[("state", ">", 1)])):
            try:
                wrong()
            except ValueError as error:
                print(error)
    """)
    *lines, other, wrong = out.splitlines()
    lines = [line for line in lines if not line.startswith("(")]  # printed by the function
    assert lines == [
        "named-task fails FAILED True 7",
        "True None",
        "Actor named ALIVE True node-1",
        "ALIVE None",
        "{'FAILED': 1} 1",
        "['ALIVE'] 127.0.0.1 []",
        "True",
    ]
    assert other.endswith("call rtrain.shutdown() and rtrain.init('10.0.0.1:1') before") and wrong.startswith("a filter is a tuple")


def test_a_client_submits_jobs_and_follows_them(home: Home) -> None:
    (home.folder / "work").mkdir()
    (home.folder / "work" / "job.py").write_text("import os\nprint('value', os.environ['VALUE'])\nprint('end')\n")
    out = home.script("""
        import asyncio
        import rtrain
        from rtrain.job_submission import JobStatus, JobSubmissionClient

        rtrain.init(num_cpus=2)
        client = JobSubmissionClient("http://" + rtrain.get_runtime_context().gcs_address)
        first = client.submit_job(
            entrypoint="python job.py",
            runtime_env={"working_dir": "work", "env_vars": {"VALUE": "7"}},
            metadata={"team": "nlp"},
            entrypoint_num_cpus=1,
        )

        async def tail():
            return "".join([line async for line in client.tail_job_logs(first)])

        print(repr(asyncio.run(tail())))
        while not client.get_job_status(first).is_terminal():
            pass
        info = client.get_job_info(first)
        print(info.status == JobStatus.SUCCEEDED == "SUCCEEDED", info.entrypoint, info.metadata, info.runtime_env, info.driver_exit_code)
        print(repr(client.get_job_logs(first)), [job.submission_id for job in client.list_jobs()] == [first])
        second = client.submit_job(entrypoint="sleep 1000", submission_id="sleeps")
        for wrong in (
            lambda: client.submit_job(entrypoint="true", submission_id="sleeps"),
            lambda: client.delete_job(second),
            lambda: client.get_job_status("nothing"),
            lambda: JobSubmissionClient(headers={"a": "b"}),
        ):
            try:
                wrong()
            except (ValueError, RuntimeError) as error:
                print(type(error).__name__)
        print(client.stop_job(second))
        while not client.get_job_status(second).is_terminal():
            pass
        print(client.get_job_status(second), client.stop_job(second), client.delete_job(second), len(client.list_jobs()))
        try:
            JobSubmissionClient("127.0.0.1:9")
        except ConnectionError as error:
            print("no context has the address 127.0.0.1:9" in str(error))
    """)
    assert out.splitlines() == [
        "'value 7\\nend\\n'",
        "True python job.py {'team': 'nlp'} {'env_vars': {'VALUE': '7'}} 0",
        "'value 7\\nend\\n' True",
        "ValueError",
        "RuntimeError",
        "NotFound",
        "ValueError",
        "True",
        "STOPPED False True 1",
        "True",
    ]
