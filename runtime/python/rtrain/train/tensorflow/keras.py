"""A callback of Keras that reports metrics and checkpoints."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from rtrain import train
from rtrain.train.tensorflow._checkpoint import TensorflowCheckpoint

__all__ = ["RTrainReportCallback", "ReportCheckpointCallback"]

_EVENTS = (
    *("epoch_begin", "epoch_end", "train_batch_begin", "train_batch_end", "test_begin", "test_end"),
    *("test_batch_begin", "test_batch_end", "train_begin", "train_end"),
)
_SHORT = {"batch_begin": "train_batch_begin", "batch_end": "train_batch_end"}


class ReportCheckpointCallback(tf.keras.callbacks.Callback):
    """Reports Keras' metrics, and rank 0's model as a checkpoint (`model.keras`). Use it on every rank.

    checkpoint_on, report_metrics_on: an event or a list of events, such as "epoch_end" or "train_batch_end".
    metrics: which ones are reported: a list of names, or a dict from the names to report to those of Keras; None: all.

    A later attempt begins with the model of `TensorflowCheckpoint(get_checkpoint().path).get_model()`. ValueError for an unknown
    event, KeyError for a metric that Keras does not have at the event.
    """

    def __init__(
        self,
        checkpoint_on: str | Sequence[str] = "epoch_end",
        report_metrics_on: str | Sequence[str] = "epoch_end",
        metrics: str | Sequence[str] | Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._checkpoint_on = _events("checkpoint_on", checkpoint_on)
        self._report_on = _events("report_metrics_on", report_metrics_on)
        named = [metrics] if isinstance(metrics, str) else metrics
        self._names = named if named is None or isinstance(named, Mapping) else {name: name for name in named}

    def _happened(self, event: str, logs: Mapping[str, Any] | None) -> None:
        if event not in self._report_on and event not in self._checkpoint_on:
            return
        metrics = self._chosen(dict(logs or {})) if event in self._report_on else {}
        if event not in self._checkpoint_on:
            train.report(metrics)
            return
        # Each rank saves, since the strategy may read variables of all ranks for it. Rank 0's file is the checkpoint.
        with train.checkpoint_dir() as folder:
            self.model.save(str(pathlib.Path(folder) / TensorflowCheckpoint.MODEL_FILENAME))
            train.report(metrics, checkpoint=folder if train.get_context().get_world_rank() == 0 else None)

    def _chosen(self, logs: dict[str, Any]) -> dict[str, Any]:
        if self._names is None:
            return logs
        missing = [name for name in self._names.values() if name not in logs]
        if missing:
            raise KeyError(f"the callback reports {missing[0]!r}, and Keras has {', '.join(logs) or 'no metrics'} here")
        return {shown: logs[name] for shown, name in self._names.items()}


def _events(argument: str, given: str | Sequence[str]) -> frozenset[str]:
    names = [given] if isinstance(given, str) else list(given)
    names = [_SHORT.get(name, name) for name in names]
    unknown = [name for name in names if name not in _EVENTS]
    if unknown:
        raise ValueError(f"{argument} is {unknown[0]!r}; the events of Keras are {', '.join(_EVENTS)}")
    return frozenset(names)


def _method_of(event: str) -> Any:
    if "batch" in event or "epoch" in event:

        def at_a_number(self: ReportCheckpointCallback, _number: int, logs: Mapping[str, Any] | None = None) -> None:
            self._happened(event, logs)

        return at_a_number

    def at(self: ReportCheckpointCallback, logs: Mapping[str, Any] | None = None) -> None:
        self._happened(event, logs)

    return at


for _event in _EVENTS:
    setattr(ReportCheckpointCallback, f"on_{_event}", _method_of(_event))

RTrainReportCallback = ReportCheckpointCallback
