"""Tuner.fit(): trials are runs of a real cluster."""

from __future__ import annotations

import json
import pathlib
import re
import threading

import pytest
from local_cluster import wait_for
from rtrain import train, tune
from rtrain.train import DataParallelTrainer, ScalingConfig
from rtrain.tune.schedulers import ASHAScheduler, Exploit, PopulationBasedTraining, TrialScheduler

QUIET = {"verbose": 0}


def sweep(cluster, tmp_path, **options):
    return tune.RunConfig(name=cluster.name("sweep"), storage_path=tmp_path, **{**QUIET, **options})


def test_a_grid_of_functions_runs_beside_each_other_and_becomes_results(cluster, tmp_path, capfd):
    def square(config):
        context = tune.get_context()
        for step in range(3):
            tune.report({"loss": config["x"] ** 2 / (step + 1)})
        return {"loss": config["x"] ** 2, "trial": context.get_trial_id(), "cpus": context.get_trial_resources()["CPU"],
                "sweep": context.get_experiment_name(), "run": context.get_run_path()}  # fmt: skip

    config = sweep(cluster, tmp_path, verbose=1)
    grid = tune.Tuner(
        tune.with_resources(square, {"cpu": 2}),
        param_space={"x": tune.grid_search([3, 1, 2]), "noise": tune.uniform(0, 1)},
        tune_config=tune.TuneConfig(metric="loss", mode="min", seed=7),
        run_config=config,
    ).fit()
    assert [one.config["x"] for one in grid] == [3, 1, 2] and grid.num_errors == 0 and grid.num_terminated == 3
    best = grid.get_best_result()
    assert best.config["x"] == 1 and best.metrics["loss"] == 1 and best.metrics["training_iteration"] == 4
    assert best.metrics["trial"] == best.trial_id and best.metrics["cpus"] == 2 and best.metrics["sweep"] == config.name
    assert best.path == best.metrics["run"] == str(tmp_path / config.name / f"{config.name}-{best.trial_id}")
    assert [row["loss"] for row in best.all_metrics] == [1, 0.5, 1 / 3, 1]
    assert best.metrics["time_total_s"] >= best.metrics["time_this_iter_s"] > 0
    assert cluster.json("describe", f"{config.name}-{best.trial_id}")["state"] == "SUCCEEDED"
    kept = json.loads((tmp_path / config.name / "sweep.json").read_text())
    assert [one["params"]["x"] for one in kept["trials"]] == [3, 1, 2] and grid.experiment_path == str(tmp_path / config.name)
    errors = capfd.readouterr().err
    assert f"sweep {config.name} has ended: 3 TERMINATED" in errors and f"best: {best.trial_id} with loss=1 (x=1, " in errors
    assert errors.count("travels along") <= 1


def test_asha_stops_trials_that_are_behind_and_each_ends_at_max_t_exactly(cluster, tmp_path):
    def slow(config):
        pause = threading.Event()
        for step in range(1, 200):
            tune.report({"acc": config["slope"] * step})
            pause.wait(0.05)

    grid = tune.Tuner(
        slow,
        param_space={"slope": tune.grid_search([4, 1, 2, 3])},
        tune_config=tune.TuneConfig(
            scheduler=ASHAScheduler(metric="acc", mode="max", max_t=30, grace_period=3, reduction_factor=4),
            max_concurrent_trials=1,
        ),
        run_config=sweep(cluster, tmp_path),
    ).fit()
    iterations = [one.metrics["training_iteration"] for one in grid]
    assert iterations[0] == 30 and all(3 <= one < 30 for one in iterations[1:]), iterations
    assert grid.num_terminated == 4 and grid.get_best_result().config["slope"] == 4


def test_a_trainer_makes_one_gang_for_each_trial_and_its_best_checkpoint_can_be_read(cluster, tmp_path):
    def loop(config):
        total = train.get_context().get_world_size() * config["lr"] * config["scale"]
        with train.checkpoint_dir() as folder:
            if train.get_context().get_world_rank() == 0:
                (pathlib.Path(folder) / "model.txt").write_text(str(total))
            train.report({"loss": total, "ranks": train.get_context().get_world_size()}, checkpoint=folder)

    trainer = DataParallelTrainer(
        loop,
        train_loop_config={"lr": 1, "scale": 10},
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 1}),
    )
    grid = tune.Tuner(
        trainer,
        param_space={
            "train_loop_config": {"lr": tune.grid_search([3, 2])},
            "scaling_config": {"num_workers": tune.grid_search([1, 2])},
        },
        tune_config=tune.TuneConfig(metric="loss", mode="min"),
        run_config=sweep(cluster, tmp_path),
    ).fit()
    assert [(one.metrics["ranks"], one.metrics["loss"]) for one in grid] == [(1, 30), (2, 60), (1, 20), (2, 40)]
    best = grid.get_best_result()
    assert best.config == {"train_loop_config": {"lr": 2}, "scaling_config": {"num_workers": 1}}
    with best.checkpoint.as_directory() as folder:
        assert (pathlib.Path(folder) / "model.txt").read_text() == "20"


def test_a_torch_trainer_trains_two_ranks_in_each_trial(cluster, tmp_path):
    from rtrain.train.torch import TorchTrainer

    def loop(config):
        import torch

        total = torch.tensor([config["lr"] * (1 + train.get_context().get_world_rank())])
        torch.distributed.all_reduce(total)
        train.report({"total": total.item()})

    grid = tune.Tuner(
        TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=2), run_config=sweep(cluster, tmp_path)),
        param_space={"train_loop_config": {"lr": tune.choice([10.0])}},
    ).fit()
    assert [one.metrics["total"] for one in grid] == [30] and str(tmp_path) in grid.experiment_path


def test_without_a_storage_path_runs_lie_on_the_head_and_the_sweep_s_file_here(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))

    def saves(config):
        with train.checkpoint_dir() as folder:
            (pathlib.Path(folder) / "x").write_text(str(config["x"]))
            tune.report({"x": config["x"]}, checkpoint=folder)

    name = cluster.name("on-the-head")
    grid = tune.Tuner(saves, param_space={"x": tune.grid_search([1, 2])}, run_config=tune.RunConfig(name=name, **QUIET)).fit()
    assert grid.experiment_path == str(tmp_path / "rtrain_results" / name)
    assert grid[1].path == f"cluster://{name}-{grid[1].trial_id}"
    assert tune.Tuner.can_restore(grid.experiment_path) and not tune.Tuner.can_restore(tmp_path)
    later = tune.Tuner.restore(grid.experiment_path, saves).get_results()
    with later.get_best_result("x", "max").checkpoint.as_directory() as folder:
        assert (pathlib.Path(folder) / "x").read_text() == "2"
    second = tune.Tuner(saves, param_space={"x": 3}, run_config=tune.RunConfig(name=name, **QUIET)).fit()
    assert len(second) == 1 and len(list(pathlib.Path(second.experiment_path).glob("sweep-*.json"))) == 1


def test_a_trial_that_is_stopped_by_hand_is_an_error_and_a_name_may_be_made(cluster, tmp_path):
    def waits(config):
        tune.report({"x": 1})
        if config["x"] == 1:
            threading.Event().wait(60)

    class Stopping(tune.Callback):
        def on_trial_result(self, iteration, trials, trial, result, **info):
            if trial.config["x"] == 1:
                cluster.daemons.rtrain("stop", trial.leg.run_name, "--yes")

    config = sweep(cluster, tmp_path, callbacks=[Stopping()])
    naming = tune.TuneConfig(
        trial_name_creator=lambda trial: f"x={trial.config['x']}", trial_dirname_creator=lambda trial: f"x{trial.config['x']}"
    )
    grid = tune.Tuner(waits, param_space={"x": tune.grid_search([1, 2])}, tune_config=naming, run_config=config).fit()
    assert [one.trial_name for one in grid] == ["x=1", "x=2"] and grid[0].path == str(
        tmp_path / config.name / f"{config.name}-x1"
    )
    assert isinstance(grid[0].error, train.TrainingStoppedError) and grid[1].error is None


def test_a_trial_that_fails_is_recorded_and_goes_on_when_it_may(cluster, tmp_path):
    def fails_once(config):
        checkpoint = tune.get_checkpoint()
        begun = checkpoint.metrics["step"] + 1 if checkpoint else 0
        for step in range(begun, 4):
            with train.checkpoint_dir() as folder:
                tune.report({"step": step, "begun": begun}, checkpoint=folder)
            if step == 1 and config["how"] != "well" and checkpoint is None:
                train.flush()
                raise KeyError("no such column")
            if config["how"] == "always":
                raise KeyError("no such column")

    def run(**failure):
        return tune.Tuner(
            fails_once,
            param_space={"how": tune.grid_search(["well", "once", "always"])},
            run_config=sweep(cluster, tmp_path, failure_config=tune.FailureConfig(**failure)),
        ).fit()

    grid = run()
    assert [one.error is None for one in grid] == [True, False, False] and grid.num_errors == 2
    assert "no such column" in str(grid.errors[0]) and isinstance(grid.errors[0], train.WorkerGroupError)
    grid = run(max_failures=1)
    assert [one.error is None for one in grid] == [True, True, False]
    once = grid[1].metrics
    assert (once["step"], once["begun"], once["training_iteration"]) == (3, 2, 4), "the count goes on from the checkpoint"
    again = tune.Tuner.restore(grid.experiment_path, fails_once, resume_errored=True).fit()
    assert [one.metrics["begun"] for one in again][:2] == [0, 2] and again[2].metrics["begun"] > grid[2].metrics["begun"]
    assert again.num_errors == 1, "it goes on from its checkpoint, and fails there"
    assert len(again[0].all_metrics) == 4, "a finished trial's rows are read from its run's directory"
    anew = tune.Tuner.restore(grid.experiment_path, fails_once, restart_errored=True).fit()
    assert anew[2].path.endswith("-2") and anew.num_errors == 1
    with pytest.raises(train.WorkerGroupError, match="no such column"):
        run(fail_fast="raise")


def test_with_parameters_yielded_metrics_and_stop_at_the_very_report(cluster, tmp_path):
    def yields(config, data):
        for step in range(1000):
            yield {"total": sum(data) + step}

    stop = {"training_iteration": 5}
    grid = tune.Tuner(tune.with_parameters(yields, data=list(range(1000))), run_config=sweep(cluster, tmp_path, stop=stop)).fit()
    assert grid[0].metrics["total"] == 499500 + 4 and len(grid[0].all_metrics) == 5
    grid = tune.Tuner(
        tune.with_parameters(yields, data=[1]),
        run_config=sweep(cluster, tmp_path, stop=lambda trial_id, result: result["total"] >= 3),
    ).fit()
    assert grid[0].metrics["total"] == 3 and grid.num_errors == 0


class Doubling(tune.Trainable):
    def setup(self, config):
        self.value = config["start"]

    def step(self):
        self.value *= 2
        return {"value": self.value, "began_at": self.iteration}

    def save_checkpoint(self, checkpoint_dir):
        return {"value": self.value}

    def load_checkpoint(self, checkpoint):
        self.value = checkpoint["value"]


def test_a_trainable_class_steps_and_is_kept_at_its_last_step(cluster, tmp_path):
    grid = tune.Tuner(
        Doubling,
        param_space={"start": tune.grid_search([1, 3])},
        run_config=sweep(
            cluster,
            tmp_path,
            stop={"training_iteration": 5},
            checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=2, checkpoint_at_end=True),
        ),
    ).fit()
    assert [one.metrics["value"] for one in grid] == [32, 96]
    assert [checkpoint.metrics["training_iteration"] for checkpoint, _ in grid[0].best_checkpoints] == [2, 4, 5]


def test_what_a_trainable_gives_that_is_no_metrics_is_said(cluster, tmp_path):
    class Wrong(tune.Trainable):
        def step(self):
            return 3

    def yields(config):
        yield 3

    for trainable, message in (
        (Wrong, r"what step\(\) gives is of type int"),
        (yields, "what the trainable yields is of type int"),
    ):
        grid = tune.Tuner(trainable, run_config=sweep(cluster, tmp_path)).fit()
        assert re.search(message, str(grid.errors[0])), grid.errors


def test_population_based_training_moves_a_trial_to_another_s_checkpoint(cluster, tmp_path):
    def climb(config):
        checkpoint = tune.get_checkpoint()
        value = 0.0
        if checkpoint:
            with checkpoint.as_directory() as folder:
                value = float((pathlib.Path(folder) / "value").read_text())
        pause = threading.Event()
        for _ in range(60):
            value += config["slope"]
            with train.checkpoint_dir() as folder:
                (pathlib.Path(folder) / "value").write_text(str(value))
                tune.report({"value": value, "slope": config["slope"]}, checkpoint=folder)
            pause.wait(0.05)

    scheduler = PopulationBasedTraining(
        "training_iteration",
        perturbation_interval=20,
        hyperparam_mutations={"slope": [1, 10, 100]},
        resample_probability=0,
        seed=1,
    )
    grid = tune.Tuner(
        climb,
        param_space={"slope": tune.grid_search([1, 100])},
        tune_config=tune.TuneConfig(metric="value", mode="max", scheduler=scheduler),
        run_config=sweep(
            cluster, tmp_path, stop={"training_iteration": 60}, checkpoint_config=tune.CheckpointConfig(num_to_keep=1)
        ),
    ).fit()
    assert scheduler.perturbations >= 1 and grid.num_errors == 0
    weak = grid[0]
    assert weak.config["slope"] in (10, 100) and weak.metrics["value"] > 1000, weak.metrics
    assert weak.path[-2:] in ("-2", "-3") and weak.metrics["training_iteration"] in (60, 61), weak.metrics


class ToTheFirst(TrialScheduler):
    """Moves the other trials to the first one's checkpoint, once, after the first one has one."""

    def on_trial_result(self, tune_controller, trial, result):
        first, *_ = tune_controller.get_trials()
        if trial.trial_id == first.trial_id or trial.config["moved"] or not tune_controller.has_checkpoint(first.trial_id):
            return self.CONTINUE
        return Exploit(first.trial_id, {**trial.config, "moved": True})


def test_a_donor_s_checkpoint_stays_until_every_trial_that_moved_to_it_has_one_of_its_own(cluster, tmp_path):
    """The first moved trial reports at once. The second one reads the checkpoint later, and a third one fails before
    it saves.
    """
    marks = tmp_path / "marks"
    marks.mkdir()

    def loop(config):
        pause, start = threading.Event(), tune.get_checkpoint()
        if config["number"] == 0:
            for step in range(600):
                if len(list(marks.iterdir())) == 3:
                    return
                with train.checkpoint_dir() as folder:
                    (pathlib.Path(folder) / "step").write_text(str(step))
                    tune.report({"step": step}, checkpoint=folder)
                pause.wait(0.05)
            raise RuntimeError("the others did not come through")
        while start is None:
            tune.report({"step": -1})
            pause.wait(0.05)
        name = pathlib.Path(start.path).name
        if config["number"] > 1:
            tune.report({"from": name})
            pause.wait(4)
        if config["number"] == 3 and not (tmp_path / "failed").exists():
            (tmp_path / "failed").touch()
            raise RuntimeError("once")
        with start.as_directory() as folder:
            (marks / str(config["number"])).write_text((pathlib.Path(folder) / "step").read_text())
        with train.checkpoint_dir() as folder:
            (pathlib.Path(folder) / "x").touch()
            tune.report({"from": name}, checkpoint=folder)

    grid = tune.Tuner(
        tune.with_resources(loop, {"cpu": 1}),
        param_space={"number": tune.grid_search([0, 1, 2, 3]), "moved": False},
        tune_config=tune.TuneConfig(scheduler=ToTheFirst()),
        run_config=sweep(
            cluster,
            tmp_path,
            checkpoint_config=tune.CheckpointConfig(num_to_keep=1),
            failure_config=tune.FailureConfig(max_failures=1),
        ),
    ).fit()
    assert grid.num_errors == 0, grid.errors
    assert sorted(mark.name for mark in marks.iterdir()) == ["1", "2", "3"] and (tmp_path / "failed").exists()
    donor = pathlib.Path(grid[0].path)
    wait_for("what was held to be gone", lambda: len(list(donor.glob("checkpoint_*/.manifest.json"))) == 1)


def test_a_trainer_inside_of_a_trial_reports_for_it(cluster, tmp_path):
    def driver(config):
        from rtrain.tune.integration.ray_train import TuneReportCallback

        def loop(given):
            for step in range(2):
                with train.checkpoint_dir() as folder:
                    train.report({"loss": given["lr"] * step}, checkpoint=folder)

        DataParallelTrainer(
            loop,
            train_loop_config={"lr": config["lr"]},
            scaling_config=ScalingConfig(num_workers=2),
            run_config=train.RunConfig(
                name=f"inner-{tune.get_context().get_trial_id()}", storage_path=config["path"], callbacks=[TuneReportCallback()]
            ),
        ).fit()

    grid = tune.Tuner(
        driver,
        param_space={"lr": tune.grid_search([2, 4]), "path": str(tmp_path)},
        tune_config=tune.TuneConfig(metric="loss", mode="min"),
        run_config=sweep(cluster, tmp_path),
    ).fit()
    assert grid.num_errors == 0, grid.errors
    assert [one.metrics["loss"] for one in grid] == [2, 4] and [row["loss"] for row in grid[0].all_metrics][:2] == [0, 2]
    newest = pathlib.Path(grid[0].metrics["checkpoint_path"])
    assert newest.parent == tmp_path / f"inner-{grid[0].trial_id}" and newest.name.startswith("checkpoint_000002")


def test_a_metric_that_nobody_reports_ends_the_sweep_with_the_names_there_are(cluster, tmp_path):
    def reports(config):
        tune.report({"Loss": 1, "acc": 2})

    with pytest.raises(tune.TuneError, match="the metric 'loss' was never reported: .* reported: Loss, acc"):
        tune.Tuner(reports, tune_config=tune.TuneConfig(metric="loss", mode="min"), run_config=sweep(cluster, tmp_path)).fit()


def test_what_the_cluster_refuses_is_raised_by_the_first_trial_and_callbacks_hear_of_all(cluster, tmp_path):
    def quick(config):
        return {"x": config["x"]}

    with pytest.raises(Exception, match="nowhere"):
        tune.Tuner(quick, param_space={"x": 1}, run_config=sweep(cluster, tmp_path, queue="nowhere")).fit()

    class Heard(tune.Callback):
        def __init__(self):
            self.calls = []

        def on_trial_start(self, iteration, trials, trial, **info):
            self.calls.append(("start", trial.config["x"]))

        def on_trial_result(self, iteration, trials, trial, result, **info):
            self.calls.append(("result", result["x"]))

        def on_trial_complete(self, iteration, trials, trial, **info):
            self.calls.append(("complete", trial.config["x"]))

        def on_experiment_end(self, trials, **info):
            self.calls.append(("end", len(trials)))

    heard = Heard()
    tune.Tuner(quick, param_space={"x": 5}, run_config=sweep(cluster, tmp_path, callbacks=[heard])).fit()
    assert heard.calls == [("start", 5), ("result", 5), ("complete", 5), ("end", 1)]


def test_the_older_run_and_a_searcher_of_one_s_own(cluster, tmp_path):
    class Halving(tune.search.Searcher):
        def __init__(self):
            super().__init__(metric="loss", mode="min")
            self.x = 8.0

        def suggest(self, trial_id):
            return {"x": self.x}

        def on_trial_complete(self, trial_id, result=None, error=False):
            self.x = result["x"] / 2

    def f(config):
        tune.report(loss=config["x"] - config["base"], x=config["x"])

    analysis = tune.run(
        f, name=cluster.name("older"), storage_path=tmp_path, config={"base": 1}, num_samples=3, metric="loss", mode="min",
        search_alg=tune.search.ConcurrencyLimiter(Halving(), 1), verbose=0,
    )  # fmt: skip
    assert [one.config["x"] for one in analysis.trials] == [8, 4, 2] and analysis.best_trial.last_result["x"] == 2
    assert analysis.best_config == {"base": 1, "x": 2.0} and analysis.best_result["loss"] == 1


def test_a_time_budget_ends_a_sweep(cluster, tmp_path):
    def endless(config):
        for step in range(10**6):
            tune.report({"step": step})
            threading.Event().wait(0.05)

    tuner = tune.Tuner(
        endless,
        tune_config=tune.TuneConfig(num_samples=-1, time_budget_s=1.5, max_concurrent_trials=2),
        run_config=sweep(cluster, tmp_path),
    )
    grid = tuner.fit()
    assert len(grid) == 2 and grid.num_terminated == 2 and tuner.get_results() is grid


def test_a_head_that_is_away_for_a_while_ends_no_sweep(cluster, tmp_path):
    def waits(config):
        tune.report({"x": config["x"]})
        while not pathlib.Path(config["gate"]).exists():
            threading.Event().wait(0.05)
        tune.report({"x": config["x"] + 10})

    class Restarting(tune.Callback):
        seen = 0

        def on_trial_result(self, iteration, trials, trial, result, **info):
            self.seen += 1
            if self.seen == 2:
                cluster.daemons.kill("head")
                cluster.daemons.restart("head")
                (tmp_path / "gate").touch()

    config = sweep(cluster, tmp_path, callbacks=[Restarting()])
    grid = tune.Tuner(waits, param_space={"x": tune.grid_search([1, 2]), "gate": str(tmp_path / "gate")}, run_config=config).fit()
    assert [one.metrics["x"] for one in grid] == [11, 12] and [len(one.all_metrics) for one in grid] == [2, 2]
