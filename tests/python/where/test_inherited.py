"""Runs that a run's program submits have that run's variables, secrets and code, against a real cluster."""

from __future__ import annotations

import json
import sys

from homes import Home

DRIVER = """
    import json, os
    import rtrain
    from rtrain import train, tune
    from rtrain._http import Head
    from rtrain.train import DataParallelTrainer, RunConfig, ScalingConfig

    import beside

    def seen():
        return [os.environ.get(name, "") for name in ("COLOUR", "SHAPE", "SIZE", "TOKEN")]

    @rtrain.remote(num_cpus=0.1)
    def inner():
        return seen()

    @rtrain.remote(num_cpus=0.1)
    class Actor:
        def seen(self):
            return seen()

        def inner(self):
            return rtrain.get(inner.options(runtime_env={"env_vars": {"SHAPE": "flat"}}).remote())

    @rtrain.remote(num_cpus=0.1)
    def outer():
        return rtrain.get(inner.remote()), rtrain.get(rtrain.remote(num_cpus=0.1)(lambda: rtrain.get(inner.remote())).remote())

    def nested_loop():
        import later
        return seen(), later.NAME

    def loop():
        config = RunConfig(worker_runtime_env={"env_vars": {"SHAPE": "flat"}})
        nested = DataParallelTrainer(nested_loop, scaling_config=ScalingConfig(num_workers=1), run_config=config).fit()
        return seen(), nested.return_value, rtrain.get(inner.remote())

    def trial(config):
        tune.report({"seen": seen()})

    def sweep():
        results = tune.Tuner(trial, param_space={"x": tune.grid_search([1])}).fit()
        return results[0].metrics["seen"]

    if __name__ == "__main__":
        rtrain.init(num_cpus=4, runtime_env={"env_vars": {"COLOUR": "red", "SHAPE": "round"}})
        print(json.dumps(rtrain.get(outer.remote())))
        actor = Actor.remote()
        print(json.dumps([rtrain.get(actor.seen.remote()), rtrain.get(actor.inner.remote())]))
        os.environ["TOKEN"] = "the-secret-value"
        config = RunConfig(secrets=["TOKEN"], worker_runtime_env={"env_vars": {"SIZE": "1"}})
        scaling = ScalingConfig(num_workers=1, resources_per_worker={"CPU": 0.1})
        print(json.dumps(DataParallelTrainer(loop, scaling_config=scaling, run_config=config).fit().return_value))
        print(json.dumps(rtrain.get(rtrain.remote(num_cpus=0.1)(sweep).remote())))
        head = Head.current()
        records = json.dumps([head.get("/v1/runs/" + run["run_id"]) for run in head.items("/v1/runs", {"all": "true"})])
        print("the-secret-value" in records, records.count('"TOKEN"') >= 3)
"""


def test_nested_runs_inherit_variables_secrets_and_code(home: Home) -> None:
    project = home.folder / "project"  # the home directory itself is no project, and is not packed
    project.mkdir()
    (project / "beside.py").write_text("")
    (project / "later.py").write_text("NAME = 'of the project'\n")
    out = home.script(DRIVER, name="project/driver.py")
    outer, actor, fitted, swept, secrets = [line for line in out.splitlines() if line.startswith(("[", "False", "True"))]
    red = ["red", "round", "", ""]
    assert json.loads(outer) == [red, red]
    assert json.loads(actor) == [red, ["red", "flat", "", ""]]
    loop, (nested, name), remote = json.loads(fitted)
    assert loop == ["red", "round", "1", "the-secret-value"]
    assert (nested, name) == (["red", "flat", "1", "the-secret-value"], "of the project")
    assert remote == ["red", "round", "1", "the-secret-value"]
    assert json.loads(swept) == red
    assert secrets == "False True"


def test_a_submitted_driver_s_trainings_have_its_job_s_variables_and_secrets(home: Home) -> None:
    """Ray does the same: tasks inherit the runtime_env of their job."""
    (home.folder / "driver.py").write_text(
        "import os\n"
        "from rtrain.train import DataParallelTrainer, ScalingConfig\n"
        "def loop():\n"
        "    return os.environ.get('COLOUR'), os.environ.get('TOKEN')\n"
        "print('loop saw', *DataParallelTrainer(loop, scaling_config=ScalingConfig(num_workers=1)).fit().return_value)\n"
    )
    (home.folder / "job.yaml").write_text(
        f"version: 1\nname: parent\nentrypoint: [{sys.executable}, driver.py]\ndriver: true\nworking_dir: .\n"
        "scaling: {workers: 1, resources_per_worker: {CPU: 0}}\nenv: {COLOUR: red}\nsecrets: [TOKEN]\n"
    )
    out = home.script(
        """
        import os, subprocess, sys
        import rtrain

        rtrain.init(num_cpus=2)
        os.environ["TOKEN"] = "the-secret-value"
        done = subprocess.run([sys.executable, "-m", "rtrain", "submit", "job.yaml", "-f"], capture_output=True, text=True)
        print(done.stdout, done.stderr)
        shown = subprocess.run([sys.executable, "-m", "rtrain", "runs", "--all", "-o", "json"], capture_output=True, text=True)
        print("the-secret-value" in shown.stdout)
        """,
        name="start.py",
    )
    assert "loop saw red the-secret-value" in out and out.splitlines()[-1] == "False"


def test_the_working_dir_of_init_is_there_in_remote_calls_and_in_what_they_start(home: Home) -> None:
    (home.folder / "project").mkdir()
    (home.folder / "project" / "there.py").write_text("NAME = 'of working_dir'\n")
    out = home.script("""
        import rtrain
        from rtrain.train import DataParallelTrainer, ScalingConfig

        rtrain.init(num_cpus=2, runtime_env={"working_dir": "project"})

        def loop():
            import there
            return there.NAME

        @rtrain.remote(num_cpus=0.1)
        def outer():
            import there
            scaling = ScalingConfig(num_workers=1, resources_per_worker={"CPU": 0.1})
            return there.NAME, open("there.py").read(), DataParallelTrainer(loop, scaling_config=scaling).fit().return_value

        print(rtrain.get(outer.remote()))
    """)
    assert out.splitlines()[-1] == str(("of working_dir", "NAME = 'of working_dir'\n", "of working_dir"))
