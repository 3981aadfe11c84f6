"""The trainable of a Tuner: a function, a Trainable class, or a trainer; and the trainer of each trial's run."""

from __future__ import annotations

import copy
import difflib
import inspect
import json
import pathlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from rtrain._lazy import public_in
from rtrain.train import _configs
from rtrain.train._archive import _package
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._trainer import DataParallelTrainer
from rtrain.train._workers._loop_call import wants_config
from rtrain.tune._config import of_trial
from rtrain.tune._context import VARIABLE
from rtrain.tune._trial import Trial
from rtrain.tune._trial_loop import EARLIER_CONFIG, PARAMETERS_VARIABLE, ClassTrial, FunctionTrial, TrialStop, takes_config
from rtrain.tune.search._variants import merged
from rtrain.tune.trainable import Trainable

_OF_TRAINER = ("train_loop_config", "scaling_config", "datasets")
_FIXED = (
    "backend_config",
    "dataset_config",
    "metadata",
    "resume_from_checkpoint",
    "run_config",
    "torch_config",
    "validation_config",
)
_KNOWN = {"cpu": "CPU", "gpu": "GPU", "memory": "memory"}
Resources = Mapping[str, float] | Callable[[dict[str, Any]], Any] | _configs.ScalingConfig


@dataclass(frozen=True)
class Wrapped:
    """A trainable with what `with_resources` and `with_parameters` gave it."""

    trainable: Any
    resources: Any = None
    parameters: Mapping[str, Any] | None = None

    @property
    def __name__(self) -> str:  # noqa: A003
        return name_of(self.trainable)


class PlacementGroupFactory:
    """The resources of a trial in the older shape: one bundle, that of the trial's worker."""

    def __init__(self, bundles: list[Mapping[str, float]], strategy: str = "PACK") -> None:
        if len(bundles) != 1:
            raise ValueError(
                f"PlacementGroupFactory has {len(bundles)} bundles; a function trial is one worker, so it takes one. Give Tuner a "
                "TorchTrainer whose ScalingConfig asks for several workers"
            )
        self.bundle, self.strategy = dict(bundles[0]), strategy


def with_resources(trainable: Any, resources: Resources | PlacementGroupFactory) -> Wrapped:
    """Returns the trainable with resources for each trial: {"cpu": 2, "gpu": 0.5, ...}, or a function of the config that returns
    such a dict.
    """
    if isinstance(trainable, DataParallelTrainer):
        raise ValueError(
            "with_resources takes a function or a Trainable class; a trainer has its ScalingConfig(resources_per_worker=)"
        )
    base = trainable if isinstance(trainable, Wrapped) else Wrapped(trainable)
    _check_callable(base.trainable)
    if not callable(resources):
        resources_of(resources, {})  # raises ValueError for invalid resources
    return Wrapped(base.trainable, resources, base.parameters)


def with_parameters(trainable: Any, **parameters: Any) -> Wrapped:
    """Returns the trainable with `parameters` beside the config. They are sent to the cluster once, for all trials."""
    if isinstance(trainable, DataParallelTrainer):
        raise ValueError(
            "with_parameters takes a function or a Trainable class; give a trainer `datasets` or `train_loop_config`"
        )
    base = trainable if isinstance(trainable, Wrapped) else Wrapped(trainable)
    _check_callable(base.trainable)
    return Wrapped(base.trainable, base.resources, {**(base.parameters or {}), **parameters})


def name_of(trainable: Any) -> str:
    """Returns the name of a sweep that has none."""
    if isinstance(trainable, Wrapped):
        return name_of(trainable.trainable)
    if isinstance(trainable, DataParallelTrainer):
        return type(trainable).__name__
    name = getattr(getattr(trainable, "func", trainable), "__name__", type(trainable).__name__)
    return re.sub(r"[^A-Za-z0-9._-]", "", str(name)).lstrip("._-") or "trainable"


def checked(trainable: Any) -> Wrapped:
    """Returns the trainable in the form that Tuner stores. Raises ValueError for anything else."""
    wrapped = trainable if isinstance(trainable, Wrapped) else Wrapped(trainable)
    inner = wrapped.trainable
    if isinstance(inner, str):
        raise ValueError(f"the trainable is the name {inner!r}; give the function or class itself")
    if isinstance(inner, DataParallelTrainer):
        if inner.scaling_config.max_workers == 0:
            raise ValueError(
                "a trial is a run of the cluster, and the trainer's num_workers is 0; call its fit(), or give it workers"
            )
        if inner.run_config.callbacks:
            raise ValueError(
                "the trainer's RunConfig(callbacks=) would hear nothing: give tune.Callback to the Tuner's RunConfig"
            )
        return wrapped
    _check_callable(inner)
    if isinstance(inner, type):
        if not issubclass(inner, Trainable):
            raise ValueError(f"the trainable is the class {inner.__name__}, which is not derived from rtrain.tune.Trainable")
    else:
        takes_config(inner, wrapped.parameters or {})
    return wrapped


def _check_callable(trainable: Any) -> None:
    if not callable(trainable):
        raise ValueError(
            f"the trainable is {trainable!r}; it is a function, a tune.Trainable class, or a trainer such as TorchTrainer"
        )


def resources_of(given: Any, config: dict[str, Any]) -> dict[str, float]:
    """Returns the resources of a function's trial, such as {"CPU": 1}."""
    if given is None:
        return {"CPU": 1.0}
    if isinstance(given, PlacementGroupFactory):
        given = given.bundle
    elif isinstance(given, _configs.ScalingConfig):
        if given.max_workers != 1:
            raise ValueError("with_resources: a function trial is one worker; give Tuner a TorchTrainer for several")
        given = given.total_resources
    elif not isinstance(given, Mapping) and callable(given):
        return resources_of(given(config), config)
    if not isinstance(given, Mapping):
        raise ValueError(f'with_resources takes a dict such as {{"cpu": 2, "gpu": 1}}, not {given!r}')
    amounts: dict[str, float] = {}
    for name, amount in given.items():
        if isinstance(amount, bool) or not isinstance(amount, int | float) or amount < 0:
            raise ValueError(f"with_resources: {name!r} is {amount!r}; amounts are numbers from 0 on")
        amounts[_KNOWN.get(str(name).lower(), str(name))] = float(amount)
    return amounts


SWEEP_LABEL = "rtrain.sweep"  # label by which the page groups the runs of a sweep


@dataclass
class Trials:
    """Makes the trainer of each trial's run. Shared objects are pickled once."""

    wrapped: Wrapped
    run_config: _configs.RunConfig
    experiment: str
    storage_path: str | None
    packed: pathlib.Path | None
    stopper: Any  # the stopper that each worker evaluates
    last_time: tuple[str, float] | None
    loop: _package.Pickled | None = None
    parameters: str = ""  # blob with the values of with_parameters
    reuse: bool = False  # TuneConfig(reuse_actors=)

    def prepare(self) -> None:
        """Pickles what all trials run. PackingError names the variable that cannot be pickled."""
        inner = self.wrapped.trainable
        if isinstance(inner, DataParallelTrainer):
            content = _package.dumps(inner.train_loop_per_worker, "train_loop_per_worker", self.packed)
        else:
            checkpoint = self.run_config.checkpoint_config or _configs.CheckpointConfig()
            trial_loop: Any = FunctionTrial(inner)
            if inspect.isclass(inner):
                trial_loop = ClassTrial(inner, checkpoint.checkpoint_frequency or 0, at_end=bool(checkpoint.checkpoint_at_end))
            try:
                content = _package.dumps(trial_loop, "trainable", self.packed)
            except _package.PackingError:
                _package.dumps(inner, "trainable", self.packed)  # without the wrapper the error names the variable
                raise
        self.loop = _package.Pickled("loop", content)

    def pickled_parameters(self) -> bytes | None:
        given = self.wrapped.parameters
        return _package.dumps(dict(given), "with_parameters", self.packed) if given else None

    def trainer(self, trial: Trial, donor: Checkpoint | None) -> DataParallelTrainer:
        inner = self.wrapped.trainable
        trainer = self._gang(inner, trial) if isinstance(inner, DataParallelTrainer) else self._single(trial)
        facts = {
            "trial_id": trial.trial_id,
            "trial_name": trial.name,
            "experiment": self.experiment,
            "resources": trainer.scaling_config.total_resources,
            "base": trial.leg.base,
        }
        env = {VARIABLE: json.dumps(facts)}
        if self.parameters:
            env[PARAMETERS_VARIABLE] = self.parameters
        trainer.run_config = of_trial(self.run_config, name=trial.leg.run_name, storage_path=self.storage_path, env=env)
        trainer.run_config.labels = {**trainer.run_config.labels, SWEEP_LABEL: self.experiment}
        if self.stopper is not None or self.last_time is not None:
            trainer.run_config.stop = TrialStop(trial.trial_id, self.stopper, self.last_time)
        if donor is not None:
            trainer.resume_from_checkpoint = donor
        return trainer

    def _single(self, trial: Trial) -> DataParallelTrainer:
        assert self.loop is not None
        resources = self._resources(trial.leg.config)
        gpus = resources.get("GPU", 0)
        scaling = _configs.ScalingConfig(
            num_workers=1, use_gpu=gpus > 0, resources_per_worker=resources if gpus else _without(resources)
        )
        config = dict(trial.leg.config)
        if self.reuse and trial.leg.resume_from and _overrides(self.wrapped.trainable, "reset_config"):
            config[EARLIER_CONFIG] = trial.legs[-2].config
        return DataParallelTrainer(self.loop, train_loop_config=config, scaling_config=scaling, run_config=self.run_config)

    def _resources(self, config: dict[str, Any]) -> dict[str, float]:
        """Returns the resources of a trial of one worker: of `with_resources`, else what the Trainable's class requests."""
        given, inner = self.wrapped.resources, self.wrapped.trainable
        if given is None and isinstance(inner, type) and issubclass(inner, Trainable):
            given = inner.default_resource_request(config)
        return resources_of(given, config)

    def resource_help(self, config: dict[str, Any]) -> str:
        """Returns what the Trainable's class adds to the reason why a trial waits."""
        inner = self.wrapped.trainable
        is_class = isinstance(inner, type) and issubclass(inner, Trainable)
        return str(inner.resource_help(config) or "") if is_class else ""

    def _gang(self, trainer: DataParallelTrainer, trial: Trial) -> DataParallelTrainer:
        assert self.loop is not None
        config = trial.leg.config
        trial_trainer = copy.copy(trainer)
        trial_trainer._kept = dict(trainer._kept)
        trial_trainer.train_loop_per_worker = self.loop
        flat = {name: value for name, value in config.items() if name not in _OF_TRAINER}
        if flat or "train_loop_config" in config:
            given = config.get("train_loop_config") or {}
            trial_trainer.train_loop_config = merged(trainer.train_loop_config or {}, {**given, **flat} if flat else given)
            trial_trainer._kept.pop("config", None)
        if "scaling_config" in config:
            trial_trainer.scaling_config = _scaling(trainer.scaling_config, config["scaling_config"])
        if "datasets" in config:
            trial_trainer.datasets = {**trainer.datasets, **config["datasets"]}
        return trial_trainer


def _overrides(trainable: Any, name: str) -> bool:
    """Returns whether the trainable is a class that overrides a method of Trainable."""
    return inspect.isclass(trainable) and getattr(trainable, name) is not getattr(Trainable, name)


def _without(resources: dict[str, float]) -> dict[str, float]:
    return {name: amount for name, amount in resources.items() if name != "GPU"}


def _scaling(base: _configs.ScalingConfig, given: Any) -> _configs.ScalingConfig:
    if isinstance(given, _configs.ScalingConfig):
        return given
    if not isinstance(given, Mapping):
        raise ValueError(f"param_space['scaling_config'] is {given!r}; it is a ScalingConfig, or a dict of its fields")
    names = [field.name for field in fields(_configs.ScalingConfig)]
    if unknown := sorted(set(given) - set(names)):
        raise ValueError(f"param_space['scaling_config'] names {', '.join(unknown)}; a ScalingConfig has {', '.join(names)}")
    return _configs.ScalingConfig(**{**{name: getattr(base, name) for name in names}, **given})


def checked_space(space: Any, wrapped: Wrapped) -> dict[str, Any]:
    """Returns the param_space. Raises ValueError if the trainable cannot take it."""
    if space is None:
        return {}
    if not isinstance(space, Mapping):
        raise ValueError(f"param_space is {space!r}; it is a dict of names and values, or of what draws them")
    if isinstance(wrapped.trainable, DataParallelTrainer):
        _check_flat(wrapped.trainable, space)
    return dict(space)


def _check_flat(trainer: DataParallelTrainer, space: Mapping[Any, Any]) -> None:
    """Keys that are no fields of the trainer belong to its loop's config. Raises ValueError if that cannot be meant."""
    flat = [name for name in space if name not in _OF_TRAINER]
    whole = space.get("train_loop_config")
    wrong = [
        f"{name!r} is the trainer's own argument: give it to the trainer"
        if name in _FIXED
        else f"{name!r} stands in 'train_loop_config' too"
        for name in flat
        if name in _FIXED or (isinstance(whole, Mapping) and name in whole)
    ]
    wrong += [
        f"{name!r} is nearly {near[0]!r}: write that, or put it into 'train_loop_config'"
        for name in flat
        if (near := difflib.get_close_matches(str(name), _OF_TRAINER, 1, 0.8))
    ]
    if (
        flat
        and not isinstance(trainer.train_loop_per_worker, _package.Pickled)
        and not wants_config(trainer.train_loop_per_worker)
    ):
        wrong.append(f"{', '.join(map(repr, flat))} would go into the loop's config, and the training function takes none")
    if flat and whole is not None and not isinstance(whole, Mapping):
        wrong.append(f"'train_loop_config' is drawn as a whole, so {', '.join(map(repr, flat))} must lie in it")
    if wrong:
        raise ValueError(f"param_space: {'; '.join(wrong)}. Of a trainer there are {', '.join(map(repr, _OF_TRAINER))}")


public_in("rtrain.tune", PlacementGroupFactory, with_parameters, with_resources)
