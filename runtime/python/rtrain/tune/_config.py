"""The configuration of a Tuner: comparison of trials, their number, and their runs. It is checked before anything is
submitted.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rtrain import _arguments
from rtrain._lazy import public_in
from rtrain.train import _config_types, _configs
from rtrain.tune._trial import Trial
from rtrain.tune.progress_reporter import ProgressReporter
from rtrain.tune.schedulers._scheduler import TrialScheduler
from rtrain.tune.search._searcher import Searcher
from rtrain.tune.stopper import CombinedStopper, DictStopper, FunctionStopper, Stopper


@dataclass
class CheckpointConfig(_configs.CheckpointConfig):
    """Decides which checkpoints of each trial stay, as in rtrain.train.

    checkpoint_frequency: a Trainable class takes one every so many steps; 0: none.
    checkpoint_at_end: a Trainable class takes one at its last step as well.
    """


@dataclass
class FailureConfig(_configs.FailureConfig):
    """How often each trial may fail, and when failures end the sweep.

    max_failures: how often each trial goes on from its last checkpoint; -1: without end.
    fail_fast: True: the first trial that fails for good ends the sweep; "raise": and `fit()` raises its error.
    """

    def __post_init__(self) -> None:
        if self.fail_fast not in (False, True, "raise"):
            raise ValueError(f"fail_fast is {self.fail_fast!r}; it is False, True or 'raise'")
        fast, self.fail_fast = self.fail_fast, False
        super().__post_init__()
        self.fail_fast = fast
        if fast and self.max_failures:
            raise ValueError("fail_fast and max_failures contradict each other; give one")


Stop = Mapping[str, float] | Callable[[str, dict[str, Any]], bool] | Stopper


@dataclass
class RunConfig(_configs.RunConfig):
    """The sweep: its name, where its trials keep their files, how they fail, and what stays.

    storage_path: trials lie below `<storage_path>/<name>`.
    stop: {"metric": value} ends each trial that reaches a value; a function `(trial_id, result) -> bool`; or a tune.Stopper.
    verbose: 0 shows nothing, 1 a table of the trials when it changes, 2 every report as well.
    callbacks: tune.Callback objects.
    progress_reporter: a tune.CLIReporter that chooses the table's columns, or a tune.ProgressReporter of one's own.
    """

    _names_itself = False

    def __post_init__(self) -> None:
        _config_types.check("RunConfig", self)
        if self.progress_reporter is not None and not isinstance(self.progress_reporter, ProgressReporter):
            raise ValueError(f"RunConfig(progress_reporter=) is {self.progress_reporter!r}; it is a rtrain.tune.ProgressReporter")
        kept = {name: getattr(self, name) for name in ("verbose", "stop", "progress_reporter")}
        self.verbose = self.stop = self.progress_reporter = None
        super().__post_init__()
        self.verbose, self.stop, self.progress_reporter = kept["verbose"], kept["stop"], kept["progress_reporter"]
        if isinstance(self.stop, Mapping):
            self._check_stop(self.stop)
        elif self.stop is not None and not callable(self.stop):
            raise TypeError(
                f"stop is {self.stop!r}; it is a dict of metrics and values, a function (trial_id, result), or a Stopper"
            )


@dataclass
class TuneConfig:
    """How trials are compared, and how many there are.

    mode, metric: what is best; mode is "min" or "max".
    search_alg: the searcher that proposes configs; left out, the variants of param_space.
    scheduler: what ends trials early; left out, nothing.
    num_samples: how often the space is drawn, a grid counting once. -1: without end, until time_budget_s or a Stopper ends the
    sweep.
    max_concurrent_trials: how many are submitted at a time; left out, 64. The cluster queues what does not fit.
    trial_name_creator, trial_dirname_creator: functions of the trial. The result of the latter is the end of its run's name, and
    so of its directory's.
    reuse_actors: each trial has processes of its own. With True, a moved trial of a Trainable class that overrides
    `reset_config` starts with the earlier config, and `reset_config` is called with the new one.
    seed: of the draws, which Ray Tune does not have; see BasicVariantGenerator.
    """

    mode: str | None = None
    metric: str | None = None
    search_alg: Searcher | None = None
    scheduler: TrialScheduler | None = None
    num_samples: int = 1
    max_concurrent_trials: int | None = None
    time_budget_s: Any = None
    reuse_actors: bool = False
    trial_name_creator: Callable[[Trial], str] | None = None
    trial_dirname_creator: Callable[[Trial], str] | None = None
    chdir_to_trial_dir: bool | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        _config_types.check("TuneConfig", self)
        _arguments.check_named("TuneConfig", chdir_to_trial_dir=self.chdir_to_trial_dir)
        if self.mode not in (None, "min", "max"):
            more = (
                "; the first argument is the mode, as in Ray, so write metric= and mode=" if self.metric in ("min", "max") else ""
            )
            raise ValueError(f"mode is {self.mode!r}; it is 'min' or 'max'{more}")
        if self.metric is not None and (not isinstance(self.metric, str) or not self.metric):
            raise ValueError(f"metric is {self.metric!r}; it is the name of a metric")
        self._check_numbers()
        if self.search_alg is not None and not isinstance(self.search_alg, Searcher):
            raise ValueError(f"search_alg is {self.search_alg!r}; it is a rtrain.tune.search.Searcher")
        if self.scheduler is not None and not isinstance(self.scheduler, TrialScheduler):
            raise ValueError(f"scheduler is {self.scheduler!r}; it is one of rtrain.tune.schedulers")

    def _check_numbers(self) -> None:
        samples, most = self.num_samples, self.max_concurrent_trials
        if not _config_types.is_whole(samples) or (samples < 1 and samples != -1):
            raise ValueError(f"num_samples is {samples!r}; it is a whole number from 1, or -1 (without end)")
        if most is not None and (not _config_types.is_whole(most) or most < 0):
            raise ValueError(f"max_concurrent_trials is {most!r}; it is a whole number from 1, or None (0 is None as well)")
        if hasattr(self.time_budget_s, "total_seconds"):
            self.time_budget_s = self.time_budget_s.total_seconds()
        budget = self.time_budget_s
        if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int | float) or budget <= 0):
            raise ValueError(f"time_budget_s is {budget!r}; it is a number of seconds above 0, or a timedelta")
        if self.seed is not None and not _config_types.is_whole(self.seed):
            raise ValueError(f"seed is {self.seed!r}; it is a whole number")


def stoppers(stop: Any) -> tuple[Stopper | None, Stopper | None]:
    """Divides RunConfig(stop=) into the part that each trial's worker evaluates, and the part that the driver evaluates."""
    if stop is None:
        return None, None
    if isinstance(stop, Mapping):
        return DictStopper(dict(stop)), None
    stopper = stop if isinstance(stop, Stopper) else FunctionStopper(stop)
    return (stopper, None) if stopper.per_trial and not _ends_all(stopper) else (None, stopper)


def _ends_all(stopper: Stopper) -> bool:
    """Returns true if the stopper, or one inside of it, overrides `stop_all`, which only the driver can evaluate."""
    inner = stopper._stoppers if isinstance(stopper, CombinedStopper) else ()
    return type(stopper).stop_all not in (Stopper.stop_all, CombinedStopper.stop_all) or any(map(_ends_all, inner))


def of_trial(config: _configs.RunConfig, *, name: str, storage_path: str | None, env: Mapping[str, str]) -> _configs.RunConfig:
    """Returns the RunConfig of one trial's run."""
    failure = config.failure_config or _configs.FailureConfig()
    checkpoint = config.checkpoint_config or _configs.CheckpointConfig()
    of_one = _configs.RunConfig(
        name=name,
        storage_path=storage_path,
        storage_filesystem=config.storage_filesystem if storage_path is not None else None,
        failure_config=_configs.FailureConfig(max_failures=failure.max_failures),
        checkpoint_config=_configs.CheckpointConfig(
            checkpoint.num_to_keep,
            checkpoint.checkpoint_score_attribute,
            checkpoint.checkpoint_score_order,
            keep_latest=checkpoint.keep_latest,
        ),
        worker_runtime_env=config.worker_runtime_env,
        logging_config=config.logging_config,
        env={**(config.env or {}), **env},
        queue=config.queue,
        priority=config.priority,
        log_to_file=config.log_to_file,
        labels=config.labels,
        tracking=config.tracking,
        secrets=config.secrets,
    )
    of_one._view = config._view if storage_path is not None else None
    return of_one


def of_tuner(given: _configs.RunConfig | None) -> _configs.RunConfig:
    """Returns a tune.RunConfig, also for one of rtrain.train."""
    if given is None:
        return RunConfig()
    if not isinstance(given, _configs.RunConfig):
        raise ValueError(f"run_config is {given!r}; it is a rtrain.tune.RunConfig")
    if given.elsewhere is not None:
        raise ValueError(
            "RunConfig(storage_filesystem=) of trials is a local one or S3: schedulers and drivers read their checkpoints without it. Give "
            "storage_path as a path that the nodes mount, or as s3://bucket/prefix"
        )
    run_config = replace(given)
    run_config._view = given._view
    if not given.is_named:
        run_config.name = None
    return run_config


public_in("rtrain.tune", CheckpointConfig, FailureConfig, RunConfig, TuneConfig)
