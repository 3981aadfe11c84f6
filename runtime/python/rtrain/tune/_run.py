"""The older way in: `tune.run(trainable, config=...)`, and what it gives."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NoReturn

from rtrain._lazy import public_in
from rtrain.train._checkpoint import Checkpoint
from rtrain.tune._config import CheckpointConfig, FailureConfig, RunConfig, TuneConfig
from rtrain.tune._errors import TuneError
from rtrain.tune._results import ResultGrid, TrialResult
from rtrain.tune._trainable import with_resources
from rtrain.tune._tuner import Tuner
from rtrain.tune.schedulers._scheduler import TrialScheduler
from rtrain.tune.search._searcher import Searcher


class ExperimentAnalysis:
    """The result of `tune.run`: the Results of the trials, for one metric and mode."""

    def __init__(self, grid: ResultGrid, metric: str | None = None, mode: str | None = None) -> None:
        self.results_grid, self.default_metric, self.default_mode = grid, metric, mode

    @property
    def trials(self) -> list[TrialResult]:
        """The Results of all trials, in the order in which they were made."""
        return list(self.results_grid)

    @property
    def experiment_path(self) -> str:
        """The sweep's directory."""
        return self.results_grid.experiment_path

    def get_best_trial(
        self,
        metric: str | None = None,
        mode: str | None = None,
        scope: str = "last",
        filter_nan_and_inf: bool = True,  # noqa: FBT001, FBT002
    ) -> TrialResult:
        """Returns the best trial, as `ResultGrid.get_best_result`. Left out, metric and mode are those of `tune.run`."""
        return self.results_grid.get_best_result(
            metric or self.default_metric, mode or self.default_mode, scope, filter_nan_and_inf
        )

    @property
    def best_trial(self) -> TrialResult:
        """The best trial by the metric and mode of `tune.run`."""
        return self.get_best_trial()

    def get_best_config(
        self,
        metric: str | None = None,
        mode: str | None = None,
        scope: str = "last",
        filter_nan_and_inf: bool = True,  # noqa: FBT001, FBT002
    ) -> dict[str, Any]:
        """Returns the config of the best trial. Left out, metric and mode are those of `tune.run`."""
        return dict(self.get_best_trial(metric, mode, scope, filter_nan_and_inf).params)

    @property
    def best_config(self) -> dict[str, Any]:
        """The config of the best trial by the metric and mode of `tune.run`."""
        return self.get_best_config()

    @property
    def best_result(self) -> dict[str, Any]:
        """Returns the last report of the best trial; empty if it has none."""
        return dict(self.best_trial.metrics or {})

    @property
    def best_checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint of the best trial; None where it has none."""
        return self.best_trial.checkpoint

    def dataframe(self, metric: str | None = None, mode: str | None = None) -> Any:
        """Returns a pandas DataFrame with a row for each trial, as `ResultGrid.get_dataframe`."""
        return self.results_grid.get_dataframe(metric, mode)

    @property
    def results_df(self) -> Any:
        """A pandas DataFrame with a row for each trial, as `dataframe()`."""
        return self.dataframe()


def run(
    run_or_experiment: Any,
    *,
    name: str | None = None,
    metric: str | None = None,
    mode: str | None = None,
    stop: Any = None,
    time_budget_s: Any = None,
    config: Mapping[str, Any] | None = None,
    resources_per_trial: Any = None,
    num_samples: int = 1,
    storage_path: str | os.PathLike[str] | None = None,
    local_dir: str | None = None,
    search_alg: Searcher | None = None,
    scheduler: TrialScheduler | None = None,
    checkpoint_config: CheckpointConfig | None = None,
    verbose: int | None = None,
    progress_reporter: Any = None,
    max_failures: int = 0,
    fail_fast: bool | str = False,
    callbacks: list[Any] | None = None,
    max_concurrent_trials: int | None = None,
    trial_name_creator: Any = None,
    trial_dirname_creator: Any = None,
    raise_on_failed_trial: bool = True,
    resume: bool = False,
    **others: NoReturn,
) -> ExperimentAnalysis:
    """Runs a sweep in the older shape: as `Tuner(...).fit()`, and returns an ExperimentAnalysis.

    TuneError when trials failed, unless raise_on_failed_trial is False.
    """
    if others:
        raise TypeError(f"tune.run takes no {', '.join(sorted(others))} in this version; see rtrain.tune.Tuner and its configs")
    if resume:
        raise ValueError("tune.run(resume=): use rtrain.tune.Tuner.restore(path, trainable)")
    trainable = with_resources(run_or_experiment, resources_per_trial) if resources_per_trial is not None else run_or_experiment
    tuner = Tuner(
        trainable,
        param_space=config,
        tune_config=TuneConfig(
            metric=metric,
            mode=mode,
            search_alg=search_alg,
            scheduler=scheduler,
            num_samples=num_samples,
            max_concurrent_trials=max_concurrent_trials,
            time_budget_s=time_budget_s,
            trial_name_creator=trial_name_creator,
            trial_dirname_creator=trial_dirname_creator,
        ),
        run_config=RunConfig(
            name=name,
            storage_path=storage_path if storage_path is not None else local_dir,
            stop=stop,
            verbose=verbose,
            progress_reporter=progress_reporter,
            failure_config=FailureConfig(max_failures=max_failures, fail_fast=fail_fast),
            checkpoint_config=checkpoint_config,
            callbacks=callbacks,
        ),
    )
    grid = tuner.fit()
    if raise_on_failed_trial and grid.num_errors:
        names = ", ".join(result.trial_name for result in grid if result.error is not None)
        raise TuneError(f"{grid.num_errors} of {len(grid)} trials failed: {names}. The first: {grid.errors[0]}") from grid.errors[
            0
        ]
    return ExperimentAnalysis(grid, metric, mode)


public_in("rtrain.tune", ExperimentAnalysis, run)
