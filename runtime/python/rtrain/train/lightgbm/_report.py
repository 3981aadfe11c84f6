"""Reports each round of LightGBM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lightgbm import Booster

from rtrain import train
from rtrain._lazy import public_in
from rtrain.train._trees._reports import Metric, Metrics, Reports, model_of


class RTrainReportCallback:
    """Reports the metrics of each round as `<dataset>-<metric>`, and rank 0's model as a checkpoint.

    Use it by `lightgbm.train(..., callbacks=[RTrainReportCallback(frequency=10)])`, on every rank.

    metrics: which metrics are reported: a name, a list, or a dict from the names to report to those of LightGBM; None: all.
    filename: name of the model's file in a checkpoint. frequency: rounds between checkpoints; 0: none before the end.
    checkpoint_at_end: True: the last round is reported with a checkpoint too. LightGBM does not tell its callbacks of an
    early stop; `finish(model)` after
    `lightgbm.train` reports the model that it returned.
    results_postprocessing_fn: a function that changes the dict that is reported.
    """

    CHECKPOINT_NAME = "model.txt"
    order = 25  # runs before LightGBM's early stopping (30), after which no further callback is called

    def __init__(
        self,
        metrics: Metric = None,
        filename: str = CHECKPOINT_NAME,
        frequency: int = 0,
        checkpoint_at_end: bool = True,  # noqa: FBT001, FBT002  as in Ray Train
        results_postprocessing_fn: Callable[[Metrics], Metrics] | None = None,
    ) -> None:
        self._reports = Reports(metrics, filename, frequency, checkpoint_at_end, results_postprocessing_fn)
        self._has_begun = self._saved = False

    @classmethod
    def get_model(cls, checkpoint: train.Checkpoint, filename: str = CHECKPOINT_NAME) -> Booster:
        """Returns the model of a checkpoint that this callback reported. FileNotFoundError names the checkpoint's files."""
        model: Booster = model_of(checkpoint, filename, lambda path: Booster(model_file=path))
        return model

    def __call__(self, env: Any) -> None:
        """Reports a round. LightGBM calls it."""
        if not self._has_begun:
            self._reports.begin()
            self._has_begun = True
        metrics = metrics_of(env.evaluation_result_list or [])
        self._reports.history.append(metrics)
        rounds = env.iteration + 1
        is_due = self._reports.frequency > 0 and rounds % self._reports.frequency == 0
        is_last = self._reports.at_end and rounds == env.end_iteration
        self._saved = is_due or is_last
        self._reports.report(metrics, env.model.save_model if self._saved else None)

    def finish(self, model: Booster) -> None:
        """Reports the model that training returned, with a checkpoint, unless the last round had one of all its trees."""
        was_stopped = 0 < model.best_iteration < model.current_iteration()
        if self._reports.at_end and self._reports.history and (was_stopped or not self._saved):
            self._reports.report(self._reports.history[-1], model.save_model)


def metrics_of(results: Any) -> Metrics:
    """Returns LightGBM's results of a round by name. For `cv`, these are the mean and the deviation of each metric."""
    metrics: Metrics = {}
    for dataset, metric, value, _, *deviation in results:
        metrics[f"{dataset}-{metric}{'-mean' if deviation else ''}"] = float(value)
        metrics.update({f"{dataset}-{metric}-stdv": float(each) for each in deviation})
    return metrics


RayTrainReportCallback = RTrainReportCallback

public_in("rtrain.train.lightgbm", RTrainReportCallback)
