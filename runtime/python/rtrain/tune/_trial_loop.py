"""The loops that trials run: a function, or a Trainable class, as the training function of a one-worker run."""

from __future__ import annotations

import datetime
import inspect
import os
import pickle
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rtrain.train import _loop
from rtrain.tune.stopper import Stopper

PARAMETERS_VARIABLE = "RTRAIN_TUNE_PARAMETERS_SHA256"
EARLIER_CONFIG = "__rtrain_earlier_config__"  # key in the config of a moved trial whose object is reused
_HEAD_AWAY_S = 120.0


class FunctionTrial:
    """Runs a function of the config, which reports, returns its final metrics, or yields metrics."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func

    def __call__(self, config: dict[str, Any]) -> Any:
        named = given_parameters()
        value = self.func(config, **named) if takes_config(self.func, named) else self.func(**named)
        if inspect.isgenerator(value):
            for metrics in value:
                _loop.report(_metrics_of(metrics, "what the trainable yields"))
            return None
        if isinstance(value, Mapping):
            _loop.report(value)
        return value


class ClassTrial:
    """Runs a Trainable step by step until `done`, the sweep's stop, or its end."""

    def __init__(self, func: type, frequency: int, *, at_end: bool) -> None:
        self.func, self.frequency, self.at_end = func, frequency, at_end

    def __call__(self, config: dict[str, Any]) -> None:
        from rtrain.tune.trainable import Trainable

        trainable: Trainable = self._begun(config)
        try:
            trainable._load(_loop.get_checkpoint())
            for metrics in self._results(trainable):
                directory = trainable._checkpoint_due(metrics, self.frequency, at_end=self.at_end)
                with directory as folder:
                    _loop.report(metrics, folder)
        finally:
            trainable.cleanup()

    def _begun(self, given: dict[str, Any]) -> Any:
        """Returns the object, set up: one of an earlier config that `reset_config` has changed, where the trial was moved so."""
        config, parameters = dict(given), given_parameters()
        earlier = config.pop(EARLIER_CONFIG, None)
        trainable = self.func()
        if earlier is not None:
            trainable._begin(earlier, parameters)
            if trainable.reset_config(config):
                trainable.config = config
                return trainable
            trainable.cleanup()
            trainable = self.func()
        trainable._begin(config, parameters)
        return trainable

    @staticmethod
    def _results(trainable: Any) -> Iterator[dict[str, Any]]:
        while True:
            began = time.monotonic()
            step = dict(_metrics_of(trainable.step(), "what step() gives"))
            now = datetime.datetime.now()
            filled = trainable.get_auto_filled_metrics(
                now=now, time_this_iter=time.monotonic() - began, timestamp=int(now.timestamp())
            )
            metrics = {**_metrics_of(filled, "what get_auto_filled_metrics() gives"), **step}
            trainable.iteration += 1
            trainable.log_result(metrics)
            yield metrics
            if metrics.get("done"):
                return


class TrialStop:
    """The stop condition that a worker evaluates for its run: the sweep's stopper, and the scheduler's last time."""

    def __init__(self, trial_id: str, stopper: Stopper | None, last: tuple[str, float] | None) -> None:
        self.trial_id, self.stopper, self.last = trial_id, stopper, last

    def __call__(self, _run_name: str, metrics: dict[str, Any]) -> bool:
        from rtrain.train._values._metrics import nested

        if self.last is not None:
            value = nested(metrics, self.last[0])
            if isinstance(value, int | float) and value >= self.last[1]:
                return True
        return self.stopper is not None and bool(self.stopper(self.trial_id, metrics))


def given_parameters() -> dict[str, Any]:
    """Returns the objects of `with_parameters`, from the head."""
    digest = os.environ.get(PARAMETERS_VARIABLE, "")
    if not digest:
        return {}
    from rtrain._http import Head, part

    head = Head.current()
    head.patience_s = _HEAD_AWAY_S
    parameters: dict[str, Any] = pickle.loads(head.content(f"/v1/blobs/{part(digest)}"))
    return parameters


def takes_config(func: Callable[..., Any], named: Mapping[str, Any]) -> bool:
    """Returns true if the function takes a config beside the named parameters. Raises ValueError if it requires more
    arguments.
    """
    try:
        parameters = list(inspect.signature(func).parameters.values())
    except (TypeError, ValueError):
        return True
    several = [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) and p.name not in named]
    needed = [p.name for p in several if p.default is p.empty]
    if "checkpoint_dir" in (p.name for p in several) or "reporter" in needed:
        raise ValueError(
            "the trainable takes `checkpoint_dir` or `reporter`, an older shape that is not here: call rtrain.tune.get_checkpoint() "
            "and rtrain.tune.report() in it"
        )
    if len(needed) > 1:
        raise ValueError(
            f"the trainable takes one argument, the config, and this one needs {len(needed)}: {', '.join(needed)}; put the others into "
            "param_space, or give them by tune.with_parameters"
        )
    unknown = sorted(set(named) - {p.name for p in parameters})
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in parameters):
        raise ValueError(f"with_parameters gives {', '.join(unknown)}, which the trainable does not take")
    return bool(needed) or bool(several and several[0].kind is not several[0].KEYWORD_ONLY)


def _metrics_of(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{what} is of type {type(value).__name__}; it is a dict of metrics")
    return value
