"""The loop of `TransformersTrainer`: the user's function, with the report callback in every Trainer that it trains."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rtrain import train
from rtrain.train._workers._loop_call import wants_config


class TransformersLoop:
    """Calls `function` in one of its two forms. `function(config)` or `function()` is a loop that trains. The older
    `function(train_dataset, eval_dataset, **config)` returns a Trainer, which is trained here.
    """

    def __init__(self, function: Callable[..., Any], *, makes_trainer: bool) -> None:
        self.function = function
        self.makes_trainer = makes_trainer or _wants_datasets(function)
        if not self.makes_trainer:
            wants_config(function)  # raises ValueError if the function has more required arguments

    def __call__(self, config: Mapping[str, Any]) -> Any:
        from transformers import Trainer  # noqa: PLC0415 - on the worker, not on the driver

        with _reporting(Trainer):
            return_value = self._call_function(dict(config))
            if not isinstance(return_value, Trainer):
                return return_value
            from rtrain.train.huggingface._prepare import prepare_trainer  # noqa: PLC0415

            _train(prepare_trainer(return_value))
            return None

    def _call_function(self, config: dict[str, Any]) -> Any:
        if self.makes_trainer:
            return self.function(_shard("train"), _shard("evaluation"), **config)
        return self.function(config) if wants_config(self.function) else self.function()


def _wants_datasets(function: Callable[..., Any]) -> bool:
    return "train_dataset" in inspect.signature(function).parameters


def _shard(name: str) -> Any:
    try:
        return train.get_dataset_shard(name)
    except KeyError:
        return None


def _train(trainer: Any) -> None:
    checkpoint = train.get_checkpoint()
    if checkpoint is None:
        trainer.train()
        return
    with checkpoint.as_directory() as directory:
        trainer.train(resume_from_checkpoint=os.path.join(directory, "checkpoint"))  # noqa: PTH118 - Transformers wants text


@contextlib.contextmanager
def _reporting(trainers: Any) -> Iterator[None]:
    """Adds a report callback, during the block, to each Trainer that begins to train without one."""
    from rtrain.train.huggingface._report import RTrainReportCallback  # noqa: PLC0415

    plain = trainers.train

    @functools.wraps(plain)
    def training(self: Any, *arguments: Any, **named: Any) -> Any:
        if not any(isinstance(callback, RTrainReportCallback) for callback in self.callback_handler.callbacks):
            self.add_callback(RTrainReportCallback())
        return plain(self, *arguments, **named)

    trainers.train = training
    try:
        yield
    finally:
        trainers.train = plain
