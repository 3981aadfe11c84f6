"""Every public method that a script may override is called in a sweep, with the documented arguments."""

from __future__ import annotations

import json
import pathlib
import threading

import pytest
from local_cluster import wait_for
from rtrain import tune
from rtrain.tune.logger import LoggerCallback
from rtrain.tune.schedulers import Exploit, TrialScheduler
from rtrain.tune.search import ConcurrencyLimiter, Searcher
from rtrain.tune.stopper import Stopper

QUIET = {"verbose": 0}


def public_methods(kind: type) -> set[str]:
    """Returns the functions that a class of the package defines or inherits, without properties."""
    return {name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))}


def recording(kind: type, path: pathlib.Path, *skipped: str) -> type:
    """Returns a class derived from `kind`. Its public methods write their names to a file, then call those of
    `kind`.
    """

    def recorded(name: str):
        original = getattr(kind, name)

        def method(self, *given, **named):
            with path.open("a") as out:
                out.write(name + "\n")
            return original(self, *given, **named)

        return method

    def of_class(name: str):
        original = getattr(kind, name).__func__

        def method(cls, *given, **named):
            with path.open("a") as out:
                out.write(name + "\n")
            return original(cls, *given, **named)

        return classmethod(method)

    names = public_methods(kind) - set(skipped)
    body = {name: (of_class if hasattr(getattr(kind, name), "__self__") else recorded)(name) for name in names}
    return type(f"Recording{kind.__name__}", (kind,), body)


def called(path: pathlib.Path) -> set[str]:
    return set(path.read_text().split())


class Counting(tune.Trainable):
    def setup(self, config):
        self.value, self.rate = 0, config["rate"]

    def step(self):
        threading.Event().wait(0.1)
        self.value += self.rate
        if self.iteration == 2 and self.config.get("flag") and not pathlib.Path(self.config["flag"]).exists():
            pathlib.Path(self.config["flag"]).touch()
            raise RuntimeError("once")
        return {"value": self.value, "rate": self.rate, "done": self.iteration >= 14}

    def save_checkpoint(self, checkpoint_dir):
        return {"value": self.value}

    def load_checkpoint(self, checkpoint):
        self.value = checkpoint["value"]

    def reset_config(self, new_config):
        self.rate = new_config["rate"]
        return True

    def get_auto_filled_metrics(self, **named):
        assert named["time_this_iter"] > 0 and named["timestamp"] > 0
        return {"filled": 1, "value": -1}

    @classmethod
    def default_resource_request(cls, config):
        return tune.PlacementGroupFactory([{"CPU": 2}])


class MovesOnce(TrialScheduler):
    """Moves the second trial to the first one's checkpoint, and starts the trials in the reverse order."""

    def on_trial_result(self, tune_controller, trial, result):
        first = tune_controller.get_trials()[0]
        if trial.config["number"] != 1 or trial.config["rate"] != 2 or not tune_controller.has_checkpoint(first.trial_id):
            return self.CONTINUE
        return Exploit(first.trial_id, {**trial.config, "rate": 100})

    def choose_trial_to_run(self, tune_controller):
        waiting = [trial for trial in tune_controller.get_trials() if trial.status == trial.PENDING and not trial.started]
        return waiting[-1]


def test_every_hook_is_called_and_a_trainable_s_requests_are_carried_out(cluster, tmp_path):
    files = {name: tmp_path / name for name in ("callback", "logger", "trainable", "scheduler", "reporter")}
    calls = tmp_path / "calls"
    kind = recording(tune.Callback, files["callback"])

    class RecordsOrder(kind):
        def setup(self, stop=None, num_samples=None, total_num_samples=None, **info):
            super().setup(stop=stop, num_samples=num_samples, total_num_samples=total_num_samples)
            self.order = []
            assert (num_samples, total_num_samples) == (1, 2)

        def on_checkpoint(self, iteration, trials, trial, checkpoint, **info):
            super().on_checkpoint(iteration, trials, trial, checkpoint)
            assert trial in trials and trial.checkpoint is checkpoint and pathlib.Path(checkpoint.path).is_dir()
            self.order.append(("checkpoint", trial.config["number"], checkpoint.metrics["training_iteration"]))

        def on_trial_recover(self, trial, **info):
            super().on_trial_recover(trial=trial, **info)
            self.order.append(("recover", trial.config["number"], 0))

        def on_trial_restore(self, iteration, trials, trial, **info):
            super().on_trial_restore(iteration, trials, trial)
            self.order.append(("restore", trial.config["number"], len(trial.legs)))

        def on_trial_result(self, iteration, trials, trial, result, **info):
            super().on_trial_result(iteration, trials, trial, result)
            assert iteration > 0 and result is trial.last_result
            self.order.append(("result", trial.config["number"], result["training_iteration"]))

        def on_experiment_end(self, trials, **info):
            super().on_experiment_end(trials)
            calls.write_text(json.dumps(self.order))

        def get_state(self):
            super().get_state()
            return {"rounds": getattr(self, "rounds", 0) + 1}

        def set_state(self, state):
            super().set_state(state)
            self.rounds = state["rounds"]
            assert state["rounds"] >= 1 and self.order == [], "it is called after setup"

    class Shown(tune.ProgressReporter):
        def setup(self, start_time=None, total_samples=None, metric=None, mode=None, **kwargs):
            files["reporter"].write_text(f"setup {total_samples} {metric} {mode}\n")

        def should_report(self, trials, done=False):
            return done

        def report(self, trials, done, *sys_info):
            with files["reporter"].open("a") as out:
                out.write(f"report {done} {len(trials)}\n")

    def fails(config):
        raise RuntimeError("always")

    config = tune.RunConfig(
        name=cluster.name("hooks"),
        storage_path=tmp_path / "runs",
        callbacks=[RecordsOrder(), recording(LoggerCallback, files["logger"])()],
        progress_reporter=Shown(),
        checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1),
        failure_config=tune.FailureConfig(max_failures=1),
    )
    trainable = recording(Counting, files["trainable"])
    grid = tune.Tuner(
        trainable,
        param_space={"number": tune.grid_search([0, 1]), "rate": tune.sample_from(lambda spec: 1 + spec.config.number),
                     "flag": str(tmp_path / "failed")},
        tune_config=tune.TuneConfig("max", "value", None, recording(MovesOnce, files["scheduler"])(), reuse_actors=True),
        run_config=config,
    ).fit()  # fmt: skip
    assert grid.num_errors == 0, grid.errors
    assert grid[1].metrics["rate"] == 100 and grid[1].metrics["filled"] == 1 and grid[1].metrics["value"] > 100
    assert cluster.json("describe", grid[0].path.rpartition("/")[2])["needs"] == "1 x {CPU: 2}"

    order = [tuple(one) for one in json.loads(calls.read_text())]
    assert [name for name, *_ in order].count("recover") == 1
    (failed,) = [number for name, number, _ in order if name == "recover"]
    assert ("restore", failed, 1) in order and ("restore", 1, 2) in order
    assert order.index(("recover", failed, 0)) < order.index(("restore", failed, 1))
    moved = order.index(("restore", 1, 2))
    assert order[moved + 1 :].count(("restore", 1, 2)) == 0
    for number in (0, 1):
        kept = [iteration for name, one, iteration in order if name == "checkpoint" and one == number]
        results = [iteration for name, one, iteration in order if name == "result" and one == number]
        assert set(results) <= set(kept), "each report brought one"
    assert files["reporter"].read_text().splitlines() == ["setup 2 value max", "report True 2"]

    again = tune.Tuner.restore(tmp_path / "runs" / config.name, trainable)
    again._run_config.callbacks.append(recording(tune.Callback, files["callback"])())
    again.fit()
    with pytest.raises(RuntimeError, match="always"):
        tune.Tuner(
            fails,
            run_config=tune.RunConfig(
                name=cluster.name("hooks"), storage_path=tmp_path / "runs", callbacks=[kind()],
                failure_config=tune.FailureConfig(fail_fast="raise"), **QUIET,
            ),
        ).fit()  # fmt: skip
    assert called(files["callback"]) == public_methods(tune.Callback)
    assert called(files["logger"]) >= {name for name in public_methods(LoggerCallback) if name.startswith("log_")}
    assert called(files["trainable"]) >= public_methods(tune.Trainable) - {"resource_help"}, "that of a trial which waits is"
    scheduler = public_methods(TrialScheduler) - {"save", "restore", "on_trial_remove", "on_trial_error", "score"}
    assert called(files["scheduler"]) >= scheduler - {"debug_string"}


@pytest.mark.parametrize("limited", [False, True])
def test_a_searcher_s_own_state_survives_its_driver(cluster, tmp_path, driver, limited):
    """The driver is killed after two of four trials. The restored sweep proposes the other two, and the searcher has
    the results of all four.
    """
    script = """
    import json, pathlib, threading
    from rtrain import tune
    from rtrain.tune.search import BasicVariantGenerator, ConcurrencyLimiter

    class Learning(BasicVariantGenerator):
        # It keeps its state in its own file, and cannot be pickled once it has begun.

        def __init__(self, folder):
            super().__init__()
            self.folder, self.results = folder, []

        def suggest(self, trial_id):
            self.lock = threading.Lock()
            return super().suggest(trial_id)

        def on_trial_complete(self, trial_id, result=None, error=False):
            self.results.append(result["x"])

        def save(self, checkpoint_path):
            pathlib.Path(checkpoint_path).write_text(json.dumps({{"at": self._at, "seed": self.seed, "results": self.results}}))
            (self.folder / "saved").touch()

        def restore(self, checkpoint_path):
            state = json.loads(pathlib.Path(checkpoint_path).read_text())
            self._at, self.seed, self.results = state["at"], state["seed"], state["results"]
            (self.folder / "restored").write_text(json.dumps(self.results))

    folder = pathlib.Path({folder!r})

    def trial(config):
        while config["x"] > 1 and not (folder / "gate").exists():
            threading.Event().wait(0.05)
        tune.report({{"x": config["x"]}})

    searcher = Learning(folder)
    tune.Tuner(
        trial,
        param_space={{"x": tune.grid_search([0, 1, 2, 3])}},
        tune_config=tune.TuneConfig(search_alg=ConcurrencyLimiter(searcher, 1) if {limited} else searcher, max_concurrent_trials=1),
        run_config=tune.RunConfig(name={name!r}, storage_path=folder / "runs", verbose=0),
    ).fit()
    """
    name = cluster.name("learning")
    given = {"folder": str(tmp_path), "limited": limited, "name": name}
    process = driver(script.format(**given))
    file = tmp_path / "runs" / name / "sweep.json"

    def third_runs() -> bool:
        return file.is_file() and len(json.loads(file.read_text())["trials"]) == 3

    wait_for("the third trial", third_runs, 60)
    wait_for("its state", (tmp_path / "saved").exists)
    process.kill()
    process.wait()
    (tmp_path / "gate").touch()

    def trial(config):
        tune.report({"x": config["x"]})

    tuner = tune.Tuner.restore(file.parent, trial)
    grid = tuner.fit()
    assert json.loads((tmp_path / "restored").read_text()) == [0, 1]
    assert [one.metrics["x"] for one in grid] == [0, 1, 2, 3]
    searcher = tuner._config.search_alg
    inner = searcher.searcher if isinstance(searcher, ConcurrencyLimiter) else searcher
    assert inner.results == [0, 1, 2, 3]


class EndsAll(Stopper):
    per_trial = True

    def __init__(self, path):
        self.path = path

    def __call__(self, trial_id, result):
        self.path.write_text(f"{self.path.read_text()}called\n")
        return False

    def stop_all(self):
        return self.path.read_text().count("called") > 2


def test_the_other_hooks_of_searchers_schedulers_and_stoppers(cluster, tmp_path, capfd):
    """A stopper ends the sweep while one trial fails, another one runs and others wait."""

    class Proposes(Searcher):
        def suggest(self, trial_id):
            return {"n": int(trial_id[-1])} if trial_id[-1] < "4" else Searcher.FINISHED

    def trial(config):
        if config["n"] == 0:
            raise RuntimeError("at once")
        while True:
            tune.report({"n": config["n"]})
            threading.Event().wait(0.1)

    class Waiting(TrialScheduler):
        def choose_trial_to_run(self, tune_controller):
            trials = tune_controller.get_trials()
            alone = not any(one.live for one in trials)
            return next((one for one in trials if alone and one.status == one.PENDING and not one.started), None)

    files = {name: tmp_path / name for name in ("searcher", "scheduler", "stopper")}
    files["stopper"].touch()
    searcher = recording(Proposes, files["searcher"])()
    grid = tune.Tuner(
        tune.with_resources(trial, {"cpu": 1}),
        tune_config=tune.TuneConfig(
            metric="n",
            mode="max",
            search_alg=ConcurrencyLimiter(searcher, 2),
            scheduler=recording(Waiting, files["scheduler"])(),
            num_samples=4,
            max_concurrent_trials=2,
        ),
        run_config=tune.RunConfig(
            name=cluster.name("others"), storage_path=tmp_path / "runs", stop=EndsAll(files["stopper"]), verbose=1
        ),
    ).fit()
    assert grid.num_errors == 1 and files["stopper"].read_text().count("called") == 3, "the driver is asked at each report"
    assert called(files["searcher"]) >= public_methods(Searcher) - {"restore"}
    assert called(files["scheduler"]) >= public_methods(TrialScheduler) - {"restore", "score", "on_trial_complete"}
    assert "RecordingWaiting" in capfd.readouterr().err, "the table shows what debug_string returns"
