"""The grid of results, and the errors before a submission."""

from __future__ import annotations

import math
import threading

import pytest
from rtrain import train, tune
from rtrain.train import DataParallelTrainer, ScalingConfig
from rtrain.tune import _config, _trainable
from rtrain.tune._results import ResultGrid, TrialResult
from rtrain.tune._trial_loop import takes_config


def result(name, losses, status="TERMINATED", error=None, **config):
    rows = [{"loss": loss, "nested": {"acc": -loss}, "training_iteration": place + 1} for place, loss in enumerate(losses)]
    last = {**rows[-1], "config": config} if rows else {"config": config}
    return TrialResult(
        metrics=last,
        all_metrics=rows,
        trial_id=name,
        trial_name=name,
        params=config,
        status=status,
        error=error,
        path=f"/r/{name}",
    )


@pytest.fixture
def grid():
    return ResultGrid(
        [
            result("a", [5, 1, 4], lr=0.1),
            result("b", [3, 3, 3], lr=0.2),
            result("c", [math.nan, math.inf], lr=0.3),
            result("d", [], "ERROR", ValueError("bad"), lr=0.4),
        ],
        "/r",
        "loss",
        "min",
    )


def test_a_grid_is_a_sequence_of_results(grid):
    assert len(grid) == 4 and grid[0].config == {"lr": 0.1} and [one.trial_id for one in grid] == list("abcd")
    assert (grid.num_errors, grid.num_terminated, str(grid.errors[0]), grid.experiment_path) == (1, 3, "bad", "/r")
    assert "loss=4" in repr(grid[0])


def test_the_best_by_scope(grid):
    assert grid.get_best_result().trial_id == "b"
    assert grid.get_best_result(scope="all").trial_id == "a"
    assert grid.get_best_result(scope="avg").trial_id == "b"
    assert grid.get_best_result(mode="max").trial_id == "a"
    assert grid.get_best_result("nested/acc", "max").trial_id == "b"
    assert grid.get_best_result("loss", "max", filter_nan_and_inf=False).trial_id == "c"


def test_a_metric_that_is_not_there_is_named_with_those_that_are(grid):
    with pytest.raises(
        RuntimeError, match="no trial has reported a number as 'los'; reported were: loss, nested, training_iteration"
    ):
        grid.get_best_result("los", "min")
    with pytest.raises(ValueError, match="needs a metric and a mode"):
        ResultGrid(grid._results, "/r").get_best_result()
    with pytest.raises(ValueError, match="mode is 'best'"):
        grid.get_best_result(mode="best")
    with pytest.raises(ValueError, match="scope is 'first'"):
        grid.get_best_result(scope="first")


def test_a_dataframe_has_a_row_for_each_trial(grid):
    pytest.importorskip("pandas")
    frame = grid.get_dataframe()
    assert list(frame["trial_id"]) == list("abcd") and list(frame["config/lr"]) == [0.1, 0.2, 0.3, 0.4]
    assert list(frame["loss"])[:2] == [4, 3] and list(frame["nested/acc"])[:2] == [-4, -3]
    best = grid.get_dataframe("loss", "min")
    assert list(best["loss"])[:2] == [1, 3] and list(best["training_iteration"])[:1] == [2]
    with pytest.raises(ValueError, match="give both"):
        grid.get_dataframe("loss")


def nothing(config):
    pass


def trainer(**options):
    return DataParallelTrainer(nothing, scaling_config=ScalingConfig(num_workers=2), **options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tune.TuneConfig(mode="best"), "mode is 'best'"),
        (lambda: tune.TuneConfig(num_samples=0), "num_samples is 0"),
        (lambda: tune.TuneConfig(time_budget_s=-1), "time_budget_s is -1"),
        (lambda: tune.TuneConfig(scheduler="asha"), "scheduler is 'asha'"),
        (lambda: tune.TuneConfig(search_alg="random"), "search_alg is 'random'"),
        (lambda: tune.FailureConfig(max_failures=1, fail_fast=True), "contradict each other"),
        (lambda: tune.FailureConfig(fail_fast="now"), "fail_fast is 'now'"),
        (lambda: tune.RunConfig(stop=3), "stop is 3"),
        (lambda: tune.RunConfig(stop={"loss": "low"}), r"stop\['loss'\] is 'low'"),
        (lambda: tune.CheckpointConfig(checkpoint_frequency=-1), "checkpoint_frequency is -1"),
        (lambda: tune.Tuner("fn"), "the trainable is the name 'fn'"),
        (lambda: tune.Tuner(3), "the trainable is 3; it is a function"),
        (lambda: tune.Tuner(dict), "the class dict, which is not derived from rtrain.tune.Trainable"),
        (lambda: tune.Tuner(lambda a, b: 1), "this one needs 2: a, b"),
        (lambda: tune.Tuner(lambda config, reporter: 1), "an older shape"),
        (lambda: tune.Tuner(nothing, param_space=[1]), r"param_space is \[1\]"),
        (lambda: tune.Tuner(nothing, tune_config={}), "tune_config is {}"),
        (lambda: tune.Tuner(nothing, run_config=3), "run_config is 3"),
        (lambda: tune.Tuner(nothing, run_config=tune.RunConfig(callbacks=[3])), "3 is not a rtrain.tune.Callback"),
        (
            lambda: tune.Tuner(trainer(), param_space={"scaling": {}, "metadata": {}}),
            "'metadata' is the trainer's own argument: give it to the trainer. Of a trainer there are 'train_loop_config'",
        ),
        (lambda: tune.Tuner(DataParallelTrainer(nothing, scaling_config=ScalingConfig(num_workers=0))), "num_workers is 0"),
        (lambda: tune.Tuner(trainer(run_config=train.RunConfig(callbacks=[train.UserCallback()]))), "would hear nothing"),
        (lambda: tune.with_resources(trainer(), {"cpu": 1}), "a trainer has its ScalingConfig"),
        (lambda: tune.with_resources(nothing, {"cpu": -1}), "'cpu' is -1"),
        (lambda: tune.PlacementGroupFactory([{"CPU": 1}, {"CPU": 1}]), "has 2 bundles"),
        (
            lambda: tune.Tuner(tune.with_parameters(nothing, data=1)),
            "with_parameters gives data, which the trainable does not take",
        ),
        (
            lambda: tune.Tuner(nothing, tune_config=tune.TuneConfig(scheduler=tune.schedulers.ASHAScheduler())),
            "AsyncHyperBandScheduler compares trials: it needs a metric and a mode",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_submitted(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_outside_of_a_trial_report_says_so():
    for call in (lambda: tune.report({"a": 1}), tune.get_context, tune.get_checkpoint):
        with pytest.raises(RuntimeError, match="cannot be used outside of a trial"):
            call()
    with pytest.raises(RuntimeError, match="there are no results yet"):
        tune.Tuner(nothing).get_results()


def test_resources_in_every_shape():
    take = _trainable.resources_of
    assert take(None, {}) == {"CPU": 1} and take({"cpu": 2, "GPU": 0.5, "tpu": 1}, {}) == {"CPU": 2, "GPU": 0.5, "tpu": 1}
    assert take(lambda config: {"cpu": config["n"]}, {"n": 3}) == {"CPU": 3}
    assert take(tune.PlacementGroupFactory([{"CPU": 4}]), {}) == {"CPU": 4}
    both = tune.with_resources(tune.with_parameters(lambda config, data: 1, data=[1]), {"cpu": 2})
    assert both.resources == {"cpu": 2} and both.parameters == {"data": [1]}


def test_which_functions_take_a_config():
    assert takes_config(nothing, {}) and takes_config(lambda c=None: 1, {}) and takes_config(lambda config, data: 1, {"data": 1})
    assert not takes_config(lambda: 1, {}) and not takes_config(lambda data: 1, {"data": 1})


def test_a_trainable_that_cannot_be_pickled_names_the_variable():
    lock = threading.Lock()

    def locked(config):
        return lock

    trials = _trainable.Trials(_trainable.checked(locked), tune.RunConfig(), "s", None, None, None, None)
    with pytest.raises(ValueError, match=r"trainable -> variable lock \(lock\) cannot be sent to the workers"):
        trials.prepare()


def test_a_trainer_is_merged_with_each_trial_s_config():
    from rtrain.tune._trial import Leg, Trial

    base = trainer(train_loop_config={"opt": {"lr": 1, "wd": 2}, "epochs": 3})
    trials = _trainable.Trials(_trainable.checked(base), tune.RunConfig(), "s", "/r", None, None, None)
    trials.prepare()
    config = {"train_loop_config": {"opt": {"lr": 9}}, "scaling_config": {"num_workers": 3}}
    made = trials.trainer(Trial("t", "t", config, {}, [Leg("s-t", config)]), None)
    assert made.train_loop_config == {"opt": {"lr": 9, "wd": 2}, "epochs": 3}
    assert made.scaling_config.num_workers == 3 and base.scaling_config.num_workers == 2
    assert (made.run_config.name, made.run_config.storage_path) == ("s-t", "/r")
    assert '"resources": {"CPU": 3' in made.run_config.env["RTRAIN_TUNE_TRIAL"]
    with pytest.raises(ValueError, match="names workers; a ScalingConfig has num_workers"):
        bad = {"scaling_config": {"workers": 3}}
        trials.trainer(Trial("t", "t", bad, {}, [Leg("s-t", bad)]), None)


def test_a_run_of_a_trial_has_no_settings_of_the_sweep():
    given = tune.RunConfig(name="s", verbose=0, stop={"a": 1}, failure_config=tune.FailureConfig(fail_fast=True), queue="q")
    made = _config.of_trial(given, name="s-1", storage_path="/r/s", env={"A": "1"})
    assert (made.name, made.stop, made.verbose, made.queue, made.env) == ("s-1", None, None, "q", {"A": "1"})
    assert made.failure_config.fail_fast is False
    worker, driver = _config.stoppers(given.stop)
    assert worker.limits == {"a": 1} and driver is None
    assert _config.stoppers(tune.stopper.TimeoutStopper(5))[0] is None


def test_the_package_is_lazy_and_complete():
    for name in tune.__all__:
        assert getattr(tune, name) is not None, name
    with pytest.raises(AttributeError, match="no attribute 'magic'"):
        _ = tune.magic


def run_of(path, *scores, num_to_keep=2):
    from rtrain.train._result import best

    kept = [train.Checkpoint(f"{path}/checkpoint_{place}", metrics={"acc": score}) for place, score in enumerate(scores)]
    rules = {"num_to_keep": num_to_keep, "score_attribute": "acc", "score_order": "max"}
    rows = [{"acc": score} for score in scores]
    return train.Result(metrics=rows[-1], checkpoint=kept[-1], path=path, best_checkpoints=best(kept, rules), all_metrics=rows)


def test_the_best_checkpoints_of_a_trial_are_those_of_all_its_runs():
    from rtrain.tune._results import stored_results, trial_result
    from rtrain.tune._trial import Leg, Trial

    legs = [Leg("s-t", {}, run_path="/nowhere/s-t"), Leg("s-t-2", {}, run_path="/nowhere/s-t-2")]
    trial = Trial("t", "t", {}, {}, legs, status="TERMINATED")
    runs = {"/nowhere/s-t": run_of("/nowhere/s-t", 5, 1, 4), "/nowhere/s-t-2": run_of("/nowhere/s-t-2", 2, 4, 3)}
    rules = train.CheckpointConfig(2, checkpoint_score_attribute="acc").job()

    def stored_run(run_id, run_path):
        return runs[run_path]

    # Results known to this driver, to an earlier one, to both.
    for known in (list(runs.values()), [], [runs["/nowhere/s-t-2"]]):
        result = trial_result(trial, stored_results(trial, known, stored_run), rules)
        assert [(one.path, metrics["acc"]) for one, metrics in result.best_checkpoints] == [
            ("/nowhere/s-t-2/checkpoint_1", 4),
            ("/nowhere/s-t/checkpoint_0", 5),
        ]
        assert [row["acc"] for row in result.all_metrics] == [5, 1, 4, 2, 4, 3]
        assert (result.checkpoint.path, result.metrics["acc"]) == ("/nowhere/s-t-2/checkpoint_2", 3)


def test_the_best_checkpoint_is_the_last_and_without_a_score_the_newest_is():
    from rtrain.train._result import best

    kept = [
        train.Checkpoint(f"/nowhere/{place}", metrics=metrics) for place, metrics in enumerate([{"a": 2}, {"a": 3}, {}, {"a": 2}])
    ]

    def names(**rules):
        return [checkpoint.name for checkpoint, _ in best(kept, rules)]

    assert names() == ["0", "1", "2", "3"] and names(num_to_keep=2) == ["2", "3"]
    assert names(score_attribute="a") == ["2", "0", "3", "1"] and names(score_attribute="a", num_to_keep=2) == ["3", "1"]
    assert names(score_attribute="a", score_order="min", num_to_keep=3) == ["1", "0", "3"]
    assert names(score_attribute="none", num_to_keep=1) == ["0", "1", "2", "3"], "none of them was deleted"
    result = train.Result(best_checkpoints=best(kept, {"score_attribute": "a"}))
    assert [result.get_best_checkpoint("a", mode).name for mode in ("max", "min")] == ["1", "3"], "of equals the newer one"
    assert "best: 1 a=3; 3 a=2; 0 a=2" in " ".join(repr(result).split())


def test_a_run_that_went_on_counts_once_and_a_trial_that_is_not_over_has_its_earlier_runs():
    from rtrain.tune._results import stored_results
    from rtrain.tune._trial import Leg, Trial

    legs = [Leg("s-t", {}, run_path="/nowhere/s-t"), Leg("s-t-2", {}, run_path="/nowhere/s-t-2")]
    failed, later = run_of("/nowhere/s-t", 1), run_of("/nowhere/s-t", 1, 2)
    assert stored_results(Trial("t", "t", {}, {}, legs[:1], status="TERMINATED"), [failed, later], run_of) == [later]
    assert (
        stored_results(Trial("t", "t", {}, {}, legs, status="RUNNING"), [], lambda run_id, path: run_of(path, 1))[0].path
        == "/nowhere/s-t"
    )


def test_a_sweep_is_found_by_the_path_of_its_trials_on_their_file_system(tmp_path, monkeypatch):
    import json

    fs = pytest.importorskip("pyarrow.fs")
    monkeypatch.setenv("HOME", str(tmp_path))
    here, there = tmp_path / "sweep", tmp_path / "rtrain_results" / "sweep"
    for folder, place in ((here, str(here)), (there, "s3://bucket/prefix/sweep")):
        folder.mkdir(parents=True)
        (folder / "sweep.json").write_text(json.dumps({"version": 1, "storage_path": place}))
        (folder / "tuner.pkl").write_bytes(b"")
    s3 = fs.S3FileSystem(access_key="id", secret_key="secret", region="eu-west-1")
    assert tune.Tuner.can_restore(here) and tune.Tuner.can_restore(
        "sweep", fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    )
    assert tune.Tuner.can_restore("bucket/prefix/sweep", s3) and tune.Tuner.can_restore("s3://bucket/prefix/sweep")
    assert not tune.Tuner.can_restore("bucket/other/sweep", s3) and not tune.Tuner.can_restore("sweep", s3)
    with pytest.raises(tune.TuneError, match="has none whose trials lie there"):
        tune.Tuner.restore("bucket/other/sweep", nothing, storage_filesystem=s3)
