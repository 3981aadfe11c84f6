"""Reports each round of XGBoost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xgboost import Booster
from xgboost.callback import TrainingCallback

from rtrain import train
from rtrain._lazy import public_in
from rtrain.train._trees._reports import Metric, Metrics, Reports, model_of


class RTrainReportCallback(TrainingCallback):
    """Reports the metrics of each round as `<dataset>-<metric>`, and rank 0's model as a checkpoint.

    Use it by `xgboost.train(..., callbacks=[RTrainReportCallback(frequency=10)])`, on every rank.

    metrics: which metrics are reported: a name, a list, or a dict from the names to report to those of XGBoost; None: all.
    filename: name of the model's file in a checkpoint; its ending is the format, `.ubj` or `.json`.
    frequency: rounds between checkpoints; 0: none before the end.
    checkpoint_at_end: True: the last round is reported with a checkpoint too.
    results_postprocessing_fn: a function that changes the dict that is reported.
    """

    CHECKPOINT_NAME = "model.ubj"

    def __init__(
        self,
        metrics: Metric = None,
        filename: str = CHECKPOINT_NAME,
        frequency: int = 0,
        checkpoint_at_end: bool = True,  # noqa: FBT001, FBT002  as in Ray Train
        results_postprocessing_fn: Callable[[Metrics], Metrics] | None = None,
    ) -> None:
        super().__init__()
        self._reports = Reports(metrics, filename, frequency, checkpoint_at_end, results_postprocessing_fn)
        self._saved_round = -1
        self._last: Metrics = {}

    @classmethod
    def get_model(cls, checkpoint: train.Checkpoint, filename: str = CHECKPOINT_NAME) -> Booster:
        """Returns the model of a checkpoint that this callback reported. FileNotFoundError names the checkpoint's files."""
        model: Booster = model_of(checkpoint, filename, lambda path: Booster(model_file=path))
        return model

    def before_training(self, model: Any) -> Any:
        """Takes the history of the checkpoint that the attempt resumes from. XGBoost calls it."""
        self._reports.begin()
        return model

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Reports a round. XGBoost calls it."""
        self._last = {
            f"{dataset}-{metric}": _latest(values) for dataset, metrics in evals_log.items() for metric, values in metrics.items()
        }
        self._reports.history.append(self._last)
        rounds = model.num_boosted_rounds()
        is_due = self._reports.frequency > 0 and rounds % self._reports.frequency == 0
        if is_due:
            self._saved_round = rounds
        self._reports.report(self._last, model.save_model if is_due else None)
        return False

    def after_training(self, model: Any) -> Any:
        """Reports the last model with a checkpoint. XGBoost calls it."""
        if self._reports.at_end and model.num_boosted_rounds() != self._saved_round:
            self._reports.report(self._last, model.save_model)
        return model


def _latest(values: Any) -> float:
    value = values[-1]
    return float(value[0] if isinstance(value, tuple) else value)


RayTrainReportCallback = RTrainReportCallback

public_in("rtrain.train.xgboost", RTrainReportCallback)
