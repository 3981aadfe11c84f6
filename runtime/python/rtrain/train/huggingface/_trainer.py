"""`TransformersTrainer` of the older API: a TorchTrainer that reports the saves of Transformers trainers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rtrain._lazy import public_in
from rtrain.train.huggingface._loop import TransformersLoop
from rtrain.train.torch._trainer import TorchTrainer


class TransformersTrainer(TorchTrainer):
    """Trains with Transformers on several ranks.

    train_loop_per_worker: a loop that makes a `transformers.Trainer` and trains it; every save is reported. In its
    older form it is a function `init(train_dataset, eval_dataset, **config)` that returns a Trainer. This Trainer is
    trained from the newest checkpoint on. `datasets` contains "train" and "evaluation". trainer_init_per_worker,
    trainer_init_config: the older names of the function and its config.
    options: the other arguments of TorchTrainer.
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any] | None = None,
        *,
        trainer_init_per_worker: Callable[..., Any] | None = None,
        trainer_init_config: Mapping[str, Any] | None = None,
        train_loop_config: Mapping[str, Any] | None = None,
        preprocessor: None = None,
        **options: Any,
    ) -> None:
        function = train_loop_per_worker or trainer_init_per_worker
        if function is None or (train_loop_per_worker and trainer_init_per_worker):
            raise ValueError("TransformersTrainer needs one function: train_loop_per_worker, or trainer_init_per_worker")
        if not callable(function):
            raise ValueError(f"train_loop_per_worker is {function!r}; it is a function")
        if preprocessor is not None:
            raise ValueError("TransformersTrainer(preprocessor=): apply it to the datasets before they are given")
        if not isinstance(function, TransformersLoop):  # restore() passes a TransformersLoop, which needs no wrapper
            function = TransformersLoop(function, makes_trainer=trainer_init_per_worker is not None)
        config = train_loop_config if train_loop_config is not None else trainer_init_config
        super().__init__(function, train_loop_config=config, **options)


public_in("rtrain.train.huggingface", TransformersTrainer)
