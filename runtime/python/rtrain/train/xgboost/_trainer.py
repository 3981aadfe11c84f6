"""XGBoostTrainer: a DataParallelTrainer whose ranks grow the same trees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import xgboost
from xgboost.callback import EarlyStopping, TrainingCallback

from rtrain import train
from rtrain._lazy import public_in
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._configs import DataConfig, RunConfig, ScalingConfig
from rtrain.train._trainer import DataParallelTrainer, Loop
from rtrain.train._trees._reports import history_of
from rtrain.train._trees._rounds import TRAIN, Rounds, nested, rounds_of
from rtrain.train.xgboost._config import XGBoostConfig
from rtrain.train.xgboost._report import RTrainReportCallback

_ARGUMENTS = ("obj", "custom_metric", "maximize", "early_stopping_rounds", "verbose_eval", "callbacks")


class XGBoostTrainer(DataParallelTrainer):
    """Trains a model of XGBoost on several ranks, each with its part of the rows.

    train_loop_per_worker: a function of no argument or one, `train_loop_config`. It runs on every rank and calls `xgboost.train` with
    its part of the rows; a `RTrainReportCallback` among its callbacks reports rounds and checkpoints.

    Without it, XGBoostTrainer trains by itself: `num_boost_round` rounds of `params` on `datasets["train"]`; the other datasets are
    evaluated each round. label_column: the column to predict. dmatrix_params: by dataset, arguments of `xgboost.DMatrix`; a text names
    a column (`{"train": {"weight": "w"}}`). `obj`, `custom_metric`, `maximize`, `early_stopping_rounds`, `verbose_eval` and `callbacks` are
    those of `xgboost.train`. `CheckpointConfig(checkpoint_frequency=)` is the number of rounds between checkpoints, 10 without one. An
    attempt resumes from the last checkpoint, and early stopping counts the rounds before it.

    `fit()` returns a Result, or raises a TrainingFailedError.
    """

    _config_argument = "xgboost_config"

    def __init__(
        self,
        train_loop_per_worker: Loop | None = None,
        *,
        train_loop_config: Mapping[str, Any] | None = None,
        xgboost_config: XGBoostConfig | None = None,
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: Mapping[str, Any] | None = None,
        dataset_config: DataConfig | None = None,
        metadata: Mapping[str, Any] | None = None,
        resume_from_checkpoint: Checkpoint | None = None,
        label_column: str | None = None,
        params: Mapping[str, Any] | None = None,
        num_boost_round: int | None = None,
        dmatrix_params: Mapping[str, Mapping[str, Any]] | None = None,
        **train_arguments: Any,
    ) -> None:
        given = {"label_column": label_column, "params": params, "num_boost_round": num_boost_round, "of_columns": dmatrix_params}
        if train_loop_per_worker is None:
            rounds = rounds_of("XGBoostTrainer", given, datasets, run_config, _ARGUMENTS, train_arguments)
            train_loop_per_worker = _Loop(rounds)
            self._makes_checkpoints = True
            # ranks may have unequal numbers of rows, so that every row is part of the model
            dataset_config = dataset_config or DataConfig(equal=False)
        elif unused := [name for name, value in {**given, **train_arguments}.items() if value is not None]:
            name = "dmatrix_params" if unused[0] == "of_columns" else unused[0]
            raise ValueError(
                f"XGBoostTrainer has both a train_loop_per_worker and {name}; the loop passes that to xgboost itself"
            )
        super().__init__(
            train_loop_per_worker,
            train_loop_config=train_loop_config,
            backend_config=xgboost_config or XGBoostConfig(),
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=datasets,
            dataset_config=dataset_config,
            metadata=metadata,
            resume_from_checkpoint=resume_from_checkpoint,
        )

    @classmethod
    def get_model(cls, checkpoint: Checkpoint) -> xgboost.Booster:
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
        done = 0 if model is None else model.num_boosted_rounds()
        if done >= rounds.num_boost_round:
            print(f"the checkpoint has {done} rounds already", flush=True)
            return
        matrices = {name: self._matrix(name) for name in rounds.names}
        past = nested(history_of(checkpoint), rounds.names)
        callbacks = list(arguments.pop("callbacks", None) or [])
        if patience := arguments.pop("early_stopping_rounds", None):
            callbacks.append(EarlyStopping(rounds=patience, maximize=arguments.get("maximize")))
        callbacks = [_AfterPast(each, past) if past and isinstance(each, EarlyStopping) else each for each in callbacks]
        if not any(isinstance(each, RTrainReportCallback) for each in callbacks):
            callbacks.append(RTrainReportCallback(frequency=rounds.frequency, checkpoint_at_end=rounds.at_end))
        evals = [(matrix, name) for name, matrix in matrices.items()]
        arguments.setdefault("verbose_eval", False)
        xgboost.train(
            rounds.params,
            matrices[TRAIN],
            rounds.num_boost_round - done,
            evals=evals,
            xgb_model=model,
            callbacks=callbacks,
            **arguments,
        )

    def _matrix(self, name: str) -> xgboost.DMatrix:
        features, labels, beside = self._rounds.split(name)
        return xgboost.DMatrix(features, labels, **beside)


class _AfterPast(TrainingCallback):
    """Early stopping that has seen the rounds before the checkpoint, too. past: their metrics by dataset and metric."""

    def __init__(self, stopping: EarlyStopping, past: dict[str, dict[str, list[float]]]) -> None:
        super().__init__()
        self._stopping, self._past = stopping, past

    def before_training(self, model: Any) -> Any:
        model = self._stopping.before_training(model)
        rounds = max((len(values) for metrics in self._past.values() for values in metrics.values()), default=0)
        for number in range(rounds):
            log = {
                dataset: {metric: values[: number + 1] for metric, values in metrics.items() if len(values) > number}
                for dataset, metrics in self._past.items()
            }
            self._stopping.after_iteration(model, number - self._stopping.starting_round, log)
        return model

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        return bool(self._stopping.after_iteration(model, epoch, evals_log))

    def after_training(self, model: Any) -> Any:
        return self._stopping.after_training(model)


public_in("rtrain.train.xgboost", XGBoostTrainer)
