"""LightGBMTrainer: a DataParallelTrainer whose ranks grow the same trees."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import lightgbm

from rtrain import train
from rtrain._lazy import public_in
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._configs import DataConfig, RunConfig, ScalingConfig
from rtrain.train._trainer import DataParallelTrainer, Loop
from rtrain.train._trees._reports import Metrics, history_of
from rtrain.train._trees._rounds import TRAIN, Rounds, rounds_of
from rtrain.train.lightgbm._config import LightGBMConfig, get_network_params
from rtrain.train.lightgbm._report import RTrainReportCallback

_ARGUMENTS = ("feval", "callbacks")
# the names of LightGBM's parameter for early stopping
_PATIENCE = ("early_stopping_round", "early_stopping_rounds", "early_stopping", "n_iter_no_change")


class LightGBMTrainer(DataParallelTrainer):
    """Trains a model of LightGBM on several ranks, each with its part of the rows.

    train_loop_per_worker: a function of no argument or one, `train_loop_config`. It runs on every rank and calls `lightgbm.train` with its
    part of the rows and `{**params, **get_network_params(), "tree_learner": "data", "pre_partition": True}`; a `RTrainReportCallback`
    among its callbacks reports rounds and checkpoints.

    Without it, LightGBMTrainer trains by itself: `num_boost_round` rounds of `params` on `datasets["train"]`; the other datasets are
    evaluated each round, whole on every rank. Metrics of "train" are those of rank 0's part. label_column: the column to predict. dataset_params: by dataset, arguments of `lightgbm.Dataset`; a text names a
    column (`{"train": {"weight": "w"}}`). `feval` and `callbacks` are those of `lightgbm.train`. `CheckpointConfig(checkpoint_frequency=)`
    is the number of rounds between checkpoints, 10 without one. An attempt resumes from the last checkpoint, and the early stopping of
    `params` counts the rounds before it.

    `fit()` returns a Result, or raises a TrainingFailedError.
    """

    _config_argument = "lightgbm_config"

    def __init__(
        self,
        train_loop_per_worker: Loop | None = None,
        *,
        train_loop_config: Mapping[str, Any] | None = None,
        lightgbm_config: LightGBMConfig | None = None,
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: Mapping[str, Any] | None = None,
        dataset_config: DataConfig | None = None,
        metadata: Mapping[str, Any] | None = None,
        resume_from_checkpoint: Checkpoint | None = None,
        label_column: str | None = None,
        params: Mapping[str, Any] | None = None,
        num_boost_round: int | None = None,
        dataset_params: Mapping[str, Mapping[str, Any]] | None = None,
        **train_arguments: Any,
    ) -> None:
        given = {"label_column": label_column, "params": params, "num_boost_round": num_boost_round, "of_columns": dataset_params}
        if train_loop_per_worker is None:
            rounds = rounds_of("LightGBMTrainer", given, datasets, run_config, _ARGUMENTS, train_arguments)
            train_loop_per_worker = _Loop(rounds)
            self._makes_checkpoints = True
            # Each rank evaluates by itself. All ranks must stop in the same round, so they evaluate the same rows.
            dataset_config = dataset_config or DataConfig(datasets_to_split=[TRAIN], equal=False)
        elif unused := [name for name, value in {**given, **train_arguments}.items() if value is not None]:
            name = "dataset_params" if unused[0] == "of_columns" else unused[0]
            raise ValueError(
                f"LightGBMTrainer has both a train_loop_per_worker and {name}; the loop passes that to lightgbm itself"
            )
        super().__init__(
            train_loop_per_worker,
            train_loop_config=train_loop_config,
            backend_config=lightgbm_config or LightGBMConfig(),
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=datasets,
            dataset_config=dataset_config,
            metadata=metadata,
            resume_from_checkpoint=resume_from_checkpoint,
        )

    @classmethod
    def get_model(cls, checkpoint: Checkpoint) -> lightgbm.Booster:
        """Returns the model of a checkpoint of this trainer, or of a `RTrainReportCallback` with its usual file name."""
        return RTrainReportCallback.get_model(checkpoint)


class _Loop:
    """The loop of a trainer to which the user gives no loop."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds

    def __call__(self) -> None:
        rounds, arguments = self._rounds, dict(self._rounds.arguments)
        checkpoint = train.get_checkpoint()
        model = None if checkpoint is None else RTrainReportCallback.get_model(checkpoint)
        done = 0 if model is None else model.current_iteration()
        if done >= rounds.num_boost_round:
            print(f"the checkpoint has {done} rounds already", flush=True)
            return
        params = {"tree_learner": "data", "pre_partition": True, "verbosity": -1, **rounds.params, **get_network_params()}
        patience = next((int(params.pop(name)) for name in _PATIENCE if name in params), 0)
        parts = {name: self._part(name, params) for name in rounds.names}
        for name, part in parts.items():
            if name != TRAIN:
                part.reference = parts[TRAIN]
        callbacks = list(arguments.pop("callbacks", None) or [])
        if patience > 0:
            stopping = lightgbm.early_stopping(patience, bool(params.get("first_metric_only", False)), verbose=False)
            callbacks.append(_AfterPast(stopping, history_of(checkpoint)[:done]))
        reports = next((each for each in callbacks if isinstance(each, RTrainReportCallback)), None)
        if reports is None:
            reports = RTrainReportCallback(frequency=rounds.frequency, checkpoint_at_end=rounds.at_end)
            callbacks.append(reports)
        trained = lightgbm.train(
            params,
            parts[TRAIN],
            rounds.num_boost_round - done,
            valid_sets=list(parts.values()),
            valid_names=list(parts),
            init_model=model,
            callbacks=callbacks,
            **arguments,
        )
        reports.finish(trained)

    def _part(self, name: str, params: dict[str, Any]) -> lightgbm.Dataset:
        features, labels, beside = self._rounds.split(name)
        return lightgbm.Dataset(features, labels, params=params, **beside)


class _AfterPast:
    """Early stopping of LightGBM that also counts the rounds before the checkpoint. past: the metrics of these rounds."""

    order = 30  # the position of LightGBM's own early stopping among the callbacks

    def __init__(self, stopping: Callable[[Any], None], past: Sequence[Metrics]) -> None:
        self._stopping, self._past, self._has_past = stopping, past, bool(past)

    def __call__(self, env: Any) -> None:
        past, self._past = self._past, []
        for number, metrics in enumerate(past):
            results = [_with_value(result, metrics) for result in env.evaluation_result_list]
            self._stopping(_changed(env, iteration=number, begin_iteration=0, evaluation_result_list=results))
        self._stopping(_changed(env, begin_iteration=0) if self._has_past else env)


def _with_value(result: Any, metrics: Metrics) -> Any:
    """Returns a result of this round with the value of an earlier round."""
    dataset, metric, _, maximize = result
    values = dataset, metric, metrics[f"{dataset}-{metric}"], maximize
    # before LightGBM 4.7 a result is a plain tuple
    return type(result)(*values) if hasattr(result, "_fields") else values


def _changed(env: Any, **changes: Any) -> Any:
    return env._replace(**changes) if hasattr(env, "_replace") else dataclasses.replace(env, **changes)


public_in("rtrain.train.lightgbm", LightGBMTrainer)
