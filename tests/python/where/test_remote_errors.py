"""Exceptions and values of remote calls that only their worker can read, against a real cluster."""

from __future__ import annotations

from homes import Home


def test_an_exception_that_only_the_worker_can_read_brings_its_text_and_the_cluster_shows_it(home: Home) -> None:
    out = home.script("""
        import subprocess, sys, types
        import rtrain
        from rtrain._http import Head

        rtrain.init(num_cpus=4)

        def only_there():
            module = types.ModuleType("only_there")
            exec("class Shaped(ValueError):\\n    def __init__(self, a, b):\\n        super().__init__(f'bad shape ({a}, {b})')", vars(module))
            sys.modules["only_there"] = module
            return module.Shaped(3, 4)

        @rtrain.remote
        def fails():
            raise only_there()

        @rtrain.remote
        def gives():
            return only_there()

        @rtrain.remote
        class Actor:
            def fails(self):
                raise only_there()

            def works(self):
                return 1

        try:
            rtrain.get(fails.options(name="fails-alone").remote())
        except rtrain.exceptions.TaskError as error:
            print("only_there.Shaped: bad shape (3, 4)" in str(error), "raise only_there()" in str(error), error.cause)
            print(str(error).splitlines()[-1])
        try:
            rtrain.get(gives.remote())
        except rtrain.exceptions.RemoteError as error:
            print("what gives() returned cannot be read here: ModuleNotFoundError" in str(error))
        actor = Actor.remote()
        try:
            rtrain.get(actor.fails.remote())
        except rtrain.exceptions.TaskError as error:
            print("bad shape (3, 4)" in str(error), rtrain.get(actor.works.remote()))

        def failing():
            return next(one for one in Head.current().items("/v1/runs", {"all": "true"}) if one["name"].startswith("fails-"))

        while (run := failing())["state"] not in ("FAILED", "SUCCEEDED", "STOPPED"):
            pass
        for verb in (["runs", "--all"], ["describe", run["run_id"]]):
            shown = subprocess.run([sys.executable, "-m", "rtrain", *verb], capture_output=True, text=True).stdout
            line = next((line for line in shown.splitlines() if "only_there.Shaped: bad shape (3, 4)" in line), shown)
            print("Traceback" not in line, verb[0] == "runs" or "driver.py" in line)  # the table of runs is cut at its width
    """)
    assert out.splitlines() == [
        "True True None",
        "(the exception itself cannot be read here: ModuleNotFoundError: No module named 'only_there')",
        "True",
        "True 1",
        "True True",
        "True True",
    ]
