"""XGBoostTrainer and LightGBMTrainer: both shapes, checkpoints, a kill in the middle, early stopping, mistakes."""

from __future__ import annotations

import os
import signal

import numpy as np
import pandas as pd
import pytest
from rtrain import train
from rtrain.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig

pytest.importorskip("xgboost")
pytest.importorskip("lightgbm")
import lightgbm
import rtrain.data
import xgboost
from rtrain.train.lightgbm import LightGBMTrainer, get_network_params, normalize_pandas_for_lightgbm
from rtrain.train.xgboost import RayTrainReportCallback, XGBoostCheckpoint, XGBoostConfig, XGBoostTrainer

ROUNDS = 12
XGBOOST = {"objective": "binary:logistic", "eval_metric": ["error", "logloss"], "max_depth": 3, "nthread": 1}
LIGHTGBM = {"objective": "binary", "metric": ["binary_logloss", "binary_error"], "max_depth": 3, "num_threads": 1}
TRAINERS = {"xgboost": (XGBoostTrainer, XGBOOST), "lightgbm": (LightGBMTrainer, LIGHTGBM)}


def frame(rows, seed):
    draw = np.random.default_rng(seed)
    numbers = draw.normal(size=(rows, 5))
    hidden = numbers[:, 0] * numbers[:, 1] + numbers[:, 2] + draw.normal(size=rows)
    return pd.DataFrame({**{f"x{at}": numbers[:, at] for at in range(5)}, "y": (hidden > 0).astype("float64"), "w": 1.0})


@pytest.fixture(params=TRAINERS)
def library(request):
    return request.param


@pytest.fixture(scope="module")
def rows():
    return {"train": rtrain.data.from_pandas(frame(600, 1)), "valid": rtrain.data.from_pandas(frame(301, 2))}


def trainer(library, rows, cluster, tmp_path, *, workers=2, params=None, failures=0, every=5, name=None, **arguments):
    kind, usual = TRAINERS[library]
    beside = "dmatrix_params" if library == "xgboost" else "dataset_params"
    return kind(
        params={**usual, **(params or {})},
        label_column="y",
        num_boost_round=ROUNDS,
        datasets=rows,
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=RunConfig(
            name=name or cluster.name(library),
            storage_path=str(tmp_path),
            failure_config=FailureConfig(max_failures=failures),
            checkpoint_config=CheckpointConfig(checkpoint_frequency=every, checkpoint_at_end=True),
        ),
        **{beside: {dataset: {"weight": "w"} for dataset in rows}},
        **arguments,
    )


def rounds_of(model):
    return model.num_boosted_rounds() if isinstance(model, xgboost.Booster) else model.current_iteration()


def text_of(model):
    """Returns the trees of a model. LightGBM's text has the parameters of the last training, too."""
    if isinstance(model, xgboost.Booster):
        return bytes(model.save_raw("json"))
    return model.model_to_string(num_iteration=-1).partition("\nparameters:\n")[0]


def dying(library, marker, at):
    """Returns a callback that ends rank 1 in round `at` of the first attempt."""

    def die(rounds):
        if rounds == at and train.get_context().get_world_rank() == 1 and not os.path.exists(marker):
            open(marker, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)

    if library == "lightgbm":
        return lambda env: die(env.iteration + 1)

    class Dying(xgboost.callback.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            die(model.num_boosted_rounds())
            return False

    return Dying()


# -- without a loop ----------------------------------------------------------------------------------------------------
def test_two_workers_train_on_all_rows(library, rows, cluster, tmp_path):
    result = trainer(library, rows, cluster, tmp_path).fit()
    kind, _ = TRAINERS[library]
    model = kind.get_model(result.checkpoint)
    assert rounds_of(model) == ROUNDS
    loss = "logloss" if library == "xgboost" else "binary_logloss"
    assert {f"train-{loss}", f"valid-{loss}"} <= set(result.metrics)
    held = frame(301, 2)
    features = held.drop(columns=["y", "w"])
    predicted = model.predict(xgboost.DMatrix(features)) if library == "xgboost" else model.predict(features)
    wrong = float(np.mean((predicted > 0.5) != held["y"]))
    error = result.metrics["valid-error" if library == "xgboost" else "valid-binary_error"]
    assert wrong == pytest.approx(error, abs=1e-6)  # the metric is of all rows of both workers
    assert wrong < 0.35
    names = [checkpoint.name for checkpoint, _ in result.best_checkpoints]
    assert len(names) == 3  # after 5, 10 and 12 rounds


def test_local_mode(library, rows, cluster, tmp_path):
    result = trainer(library, rows, cluster, tmp_path, workers=0).fit()
    assert rounds_of(TRAINERS[library][0].get_model(result.checkpoint)) == ROUNDS


def test_a_model_after_a_kill_equals_the_undisturbed_one(library, rows, cluster, tmp_path):
    plain = trainer(library, rows, cluster, tmp_path / "plain").fit()
    marker = str(tmp_path / "died")
    disturbed = trainer(library, rows, cluster, tmp_path / "disturbed", failures=1, callbacks=[dying(library, marker, 8)]).fit()
    assert os.path.exists(marker)
    kind, _ = TRAINERS[library]
    models = [kind.get_model(result.checkpoint) for result in (plain, disturbed)]
    assert rounds_of(models[1]) == ROUNDS
    assert text_of(models[1]) == text_of(models[0])
    assert disturbed.metrics == plain.metrics


def test_early_stopping_counts_rounds_before_the_kill(library, rows, cluster, tmp_path):
    patience = {"early_stopping_rounds": 4}
    eager = {"eta": 1.0, "max_depth": 6} if library == "xgboost" else {"learning_rate": 1.0}
    last = "valid-error" if library == "xgboost" else "valid-binary_error"

    def fit(name, failures, callbacks):
        arguments = {**patience, "params": eager} if library == "xgboost" else {"params": {**eager, **patience}}
        return trainer(
            library, rows, cluster, tmp_path / name, failures=failures, every=2, callbacks=callbacks, **arguments
        ).fit()

    kind, _ = TRAINERS[library]
    plain = fit("plain", 0, None)
    stopped = rounds_of(kind.get_model(plain.checkpoint))
    assert stopped < ROUNDS
    marker = str(tmp_path / "died")
    disturbed = fit("disturbed", 1, [dying(library, marker, stopped - 1 if library == "xgboost" else stopped + 1)])
    assert os.path.exists(marker)
    assert rounds_of(kind.get_model(disturbed.checkpoint)) == stopped
    assert disturbed.metrics[last] == plain.metrics[last]


def test_another_number_of_workers_goes_on(rows, cluster, tmp_path):
    name = cluster.name("xgboost")
    first = trainer("xgboost", rows, cluster, tmp_path, name=name)
    first.train_loop_per_worker._rounds.__dict__["num_boost_round"] = 6
    assert rounds_of(XGBoostTrainer.get_model(first.fit().checkpoint)) == 6
    again = trainer("xgboost", rows, cluster, tmp_path, name=name, workers=3).fit()
    assert rounds_of(XGBoostTrainer.get_model(again.checkpoint)) == ROUNDS


def test_a_run_is_restored_from_its_directory(library, rows, cluster, tmp_path):
    result = trainer(library, rows, cluster, tmp_path).fit()
    kind, _ = TRAINERS[library]
    assert kind.can_restore(result.path)
    again = kind.restore(result.path).fit()
    assert rounds_of(kind.get_model(again.checkpoint)) == ROUNDS


# -- with a loop -------------------------------------------------------------------------------------------------------
def test_a_loop_of_xgboost(rows, cluster, tmp_path):
    def loop(config):
        part = train.get_dataset_shard("train").materialize().to_pandas()
        matrix = xgboost.DMatrix(part.drop(columns=["y", "w"]), part["y"])
        report = RayTrainReportCallback(metrics={"loss": "train-logloss"}, frequency=2, filename="model.json")
        xgboost.train(XGBOOST, matrix, config["rounds"], evals=[(matrix, "train")], callbacks=[report], verbose_eval=False)
        assert xgboost.collective.get_world_size() == 2
        assert xgboost.collective.get_rank() == train.get_context().get_world_rank()

    result = XGBoostTrainer(
        loop,
        train_loop_config={"rounds": 4},
        datasets={"train": rows["train"]},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name=cluster.name("loop"), storage_path=str(tmp_path)),
    ).fit()
    assert set(result.metrics) == {"loss"}
    assert rounds_of(RayTrainReportCallback.get_model(result.checkpoint, "model.json")) == 4
    with pytest.raises(FileNotFoundError, match="has no file 'model.ubj'; it has evaluations.json, model.json"):
        XGBoostTrainer.get_model(result.checkpoint)


def test_a_loop_of_lightgbm(rows, cluster, tmp_path):
    def loop():
        from rtrain.train.lightgbm import RayTrainReportCallback as Report

        part = train.get_dataset_shard("train").materialize().to_pandas()
        part = lightgbm.Dataset(part.drop(columns=["y", "w"]), part["y"])
        params = {**LIGHTGBM, **get_network_params(), "tree_learner": "data", "pre_partition": True, "verbosity": -1}
        assert params["num_machines"] == 2
        lightgbm.train(params, part, 4, valid_sets=[part], valid_names=["train"], callbacks=[Report(frequency=2)])

    result = LightGBMTrainer(
        loop,
        datasets={"train": rows["train"]},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name=cluster.name("loop"), storage_path=str(tmp_path)),
    ).fit()
    assert set(result.metrics) == {"train-binary_logloss", "train-binary_error"}
    assert rounds_of(LightGBMTrainer.get_model(result.checkpoint)) == 4


# -- pieces ------------------------------------------------------------------------------------------------------------
def test_a_checkpoint_of_a_model():
    part = frame(50, 3)
    booster = xgboost.train(XGBOOST, xgboost.DMatrix(part.drop(columns=["y"]), part["y"]), 2)
    assert text_of(XGBoostCheckpoint.from_model(booster).get_model()) == text_of(booster)


def test_frames_of_arrow_types():
    part = pd.DataFrame(
        {"a": pd.array([1, None], "int32[pyarrow]"), "b": pd.array([True, None], "bool[pyarrow]"), "c": [1.0, 2.0]}
    )
    part["d"] = pd.array([1.5, None], "double[pyarrow]")
    assert [str(kind) for kind in normalize_pandas_for_lightgbm(part).dtypes] == ["Int32", "boolean", "float64", "Float64"]


def test_mistakes(rows):
    loop = {"train_loop_per_worker": lambda: None}
    shape = {"params": XGBOOST, "label_column": "y", "datasets": rows}
    cases = [
        (XGBoostTrainer, {}, ValueError, "takes a train_loop_per_worker, or params="),
        (XGBoostTrainer, {**shape, "datasets": {"valid": rows["valid"]}}, ValueError, "datasets has no 'train'"),
        (XGBoostTrainer, {**shape, "preprocessor": object()}, TypeError, "no argument 'preprocessor'; those of `train`"),
        (XGBoostTrainer, {**shape, "num_boost_round": 0}, ValueError, "num_boost_round is 0"),
        (XGBoostTrainer, {**loop, "label_column": "y"}, ValueError, "both a train_loop_per_worker and label_column"),
        (LightGBMTrainer, {**loop, "dataset_params": {"train": {}}}, ValueError, "and dataset_params"),
        (LightGBMTrainer, {**shape, "early_stopping_rounds": 3}, TypeError, "no argument 'early_stopping_rounds'"),
    ]
    for kind, arguments, error, text in cases:
        with pytest.raises(error, match=text):
            kind(**arguments)
    with pytest.raises(ValueError, match="it is 'rabit'"):
        XGBoostConfig(xgboost_communicator="federated")
    with pytest.raises(ValueError, match="frequency is -1"):
        RayTrainReportCallback(frequency=-1)
    with pytest.warns(UserWarning, match="outside of a loop of LightGBMTrainer"):
        import rtrain.train.lightgbm._config as config

        config._network.clear()
        assert get_network_params() == {}


def test_a_column_that_is_not_there(rows, cluster, tmp_path):
    wrong = trainer("xgboost", rows, cluster, tmp_path, workers=0)
    wrong.train_loop_per_worker._rounds.__dict__["label_column"] = "target"
    with pytest.raises(ValueError, match="has no column 'target'; it has x0, x1, x2, x3, x4, y, w"):
        wrong.fit()
