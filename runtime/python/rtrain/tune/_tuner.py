"""`Tuner`: runs many trials of one trainable, each as a run of the cluster."""

from __future__ import annotations

import datetime
import os
import pathlib
import random
import re
from collections.abc import Mapping
from typing import Any

from rtrain import _runtime_env, _where
from rtrain._http import Head, HeadError, part
from rtrain._lazy import public_in
from rtrain.train import _configs
from rtrain.train._archive import _package
from rtrain.train._driver._outcome import result_of
from rtrain.train._driver._submission import HEAD_AWAY_S, project_of
from rtrain.train._result import Result
from rtrain.train._run_directory import _filesystems
from rtrain.train._trainer import DataParallelTrainer
from rtrain.train._values import _names
from rtrain.tune import _file, _trainable, callback
from rtrain.tune._config import RunConfig, TuneConfig, of_tuner, stoppers
from rtrain.tune._driver import Beginning, SweepDriver
from rtrain.tune._errors import TuneError
from rtrain.tune._results import ResultGrid, stored_results, trial_result
from rtrain.tune._runs import TrialRuns
from rtrain.tune._sweep import Limits, Sweep, variants_of
from rtrain.tune._table import Table
from rtrain.tune._trial import ERROR, PENDING, Leg, Trial
from rtrain.tune.progress_reporter import CLIReporter
from rtrain.tune.schedulers._scheduler import FIFOScheduler
from rtrain.tune.search._searcher import Searcher
from rtrain.tune.search._variants import leaves
from rtrain.tune.search.basic_variant import BasicVariantGenerator

RESULTS = "~/rtrain_results"
_LIVE = 64  # trials submitted at a time; a thread follows each
_NAME_MAX = 90
_END = re.compile(r"[A-Za-z0-9._-]{1,30}")


class Tuner:
    """Runs a trainable with the configs of a search space: one trial for each.

    trainable: a function of the config (see tune.report), a tune.Trainable class, or a trainer such as TorchTrainer. The first
    two may be wrapped by tune.with_resources and tune.with_parameters. Each trial of a trainer is a gang of its own.
    param_space: for a trainer {"train_loop_config": {...}, "scaling_config": {...}}; its other names go into the loop's config.

    A trial that fails is one of the errors of the ResultGrid, and the others go on.
    """

    def __init__(
        self,
        trainable: Any = None,
        *,
        param_space: Mapping[str, Any] | None = None,
        tune_config: TuneConfig | None = None,
        run_config: _configs.RunConfig | None = None,
    ) -> None:
        self._wrapped = _trainable.checked(trainable)
        self._space = _trainable.checked_space(param_space, self._wrapped)
        self._config = tune_config if tune_config is not None else TuneConfig()
        if not isinstance(self._config, TuneConfig):
            raise ValueError(f"tune_config is {tune_config!r}; it is a rtrain.tune.TuneConfig")
        inner = self._wrapped.trainable
        self._run_config = of_tuner(
            inner.run_config if run_config is None and isinstance(inner, DataParallelTrainer) else run_config
        )
        callback.checked(self._run_config.callbacks)
        self._restored: pathlib.Path | None = None
        self._resume = {"unfinished": True, "errored": False, "restart": False}
        self._grid: ResultGrid | None = None
        if self._config.scheduler is not None:
            self._config.scheduler.set_search_properties(self._config.metric, self._config.mode)
        list(leaves(self._space))  # raises SpaceError for an invalid grid

    # -- taking a sweep up again --------------------------------------------------------------------------------------
    @classmethod
    def restore(
        cls,
        path: str | os.PathLike[str],
        trainable: Any = None,
        resume_unfinished: bool = True,  # noqa: FBT001, FBT002
        resume_errored: bool = False,  # noqa: FBT001, FBT002
        restart_errored: bool = False,  # noqa: FBT001, FBT002
        param_space: Mapping[str, Any] | None = None,
        storage_filesystem: Any = None,
    ) -> Tuner:
        """Returns the Tuner of the sweep in the directory `path`; its `fit()` goes on.

        Finished trials are kept. The others go on from their last checkpoints, and runs that are alive are followed again.
        resume_errored: trials that failed go on too. restart_errored: they begin anew.
        storage_filesystem: as in RunConfig, of the trials; `path` is then a path on it.

        TuneError where `path` is no sweep's directory.
        """
        folder = _folder_of(path, storage_filesystem)
        if resume_errored and restart_errored:
            raise ValueError("resume_errored and restart_errored contradict each other; give one")
        settings = _file.read_tuner(folder)
        state = _file.read(folder)
        if trainable is None:
            raise ValueError("Tuner.restore needs the trainable: it is not kept with the sweep")
        tuner = cls(
            trainable,
            param_space=param_space if param_space is not None else settings["param_space"],
            tune_config=settings["tune_config"],
            run_config=settings["run_config"],
        )
        tuner._restored = folder
        tuner._run_config.name = state["name"]
        tuner._run_config.storage_filesystem = storage_filesystem
        tuner._resume = {"unfinished": resume_unfinished, "errored": resume_errored, "restart": restart_errored}
        return tuner

    @classmethod
    def can_restore(cls, path: str | os.PathLike[str], storage_filesystem: Any = None) -> bool:
        """Returns whether `restore(path, storage_filesystem=)` finds a sweep on this machine.

        ValueError for a file system that trials cannot be given.
        """
        try:
            return _file.exists(_folder_of(path, storage_filesystem))
        except TuneError:
            return False

    def get_results(self) -> ResultGrid:
        """Returns the result of `fit()`; for a restored sweep its stored trials. Raises RuntimeError before either."""
        if self._grid is not None:
            return self._grid
        if self._restored is None:
            raise RuntimeError(
                "there are no results yet: call fit(), or Tuner.restore(path, trainable) for those of an earlier sweep"
            )
        state = _file.read(self._restored)
        return self._grid_of([_file.trial_of(record) for record in state["trials"]], {}, self._restored)

    # -- running ------------------------------------------------------------------------------------------------------
    def fit(self) -> ResultGrid:
        """Runs the trials and returns their Results.

        TuneError when the sweep itself cannot go on. A trial's error is in its Result; FailureConfig(fail_fast="raise") raises the
        first one.
        """
        file = _file.SweepFile(pathlib.Path(), self._name(), None)
        info = _where.ensure()
        head = Head(Head.current().place, patience_s=HEAD_AWAY_S)
        _package.check_cluster(str(head.get("/healthz")["version"]))
        if self._restored is not None:
            file.folder, file.storage_path = self._restored, _file.read(self._restored)["storage_path"]
        else:
            file.folder, file.storage_path = _place(self._run_config, file.name, info)
        with file.held():
            self._grid = self._run(head, file)
        failure = self._run_config.failure_config
        if failure is not None and failure.fail_fast == "raise" and self._grid.errors:
            raise self._grid.errors[0]
        return self._grid

    def _run(self, head: Head, file: _file.SweepFile) -> ResultGrid:
        sweep, states = self._sweep_of(self._limits()), []
        if self._restored is not None:
            kept_state = _file.read(self._restored)
            states = _file.callback_states(kept_state)
            self._take_over(sweep, kept_state)
        sweep.run_name = lambda trial: self._run_name(file.name, trial)
        runs = self._runs(head, sweep, file)
        runs.prepare()
        if self._restored is None:
            kept = _file.without_unpicklable(of_tuner(self._run_config))
            kept.name = file.name
            kept.storage_filesystem = None  # it may contain keys
            file.kept_callbacks = kept.callbacks or []
            file.save_tuner({"param_space": self._space, "tune_config": self._config, "run_config": kept})
        self._announce(file)
        reporter = self._run_config.progress_reporter
        verbose = self._run_config.verbose
        table = Table(file.name, 1 if verbose is None else int(verbose), CLIReporter() if reporter is None else reporter)
        begin = Beginning(self._restored is not None, states, self._run_config.stop, self._total_samples(sweep))
        driver = SweepDriver(sweep, runs, file, table, callback.Callbacks(callback.checked(self._run_config.callbacks)), begin)
        driver.run()
        return self._grid_of(sweep.trials, driver.results, file.folder, head)

    def _total_samples(self, sweep: Sweep) -> int | None:
        """Returns how many trials the sweep has. None: its searcher decides, or they are without end."""
        variants, samples = variants_of(sweep.searcher), self._config.num_samples
        if variants is not None:
            return variants.total
        return samples if samples != -1 else None

    def _announce(self, file: _file.SweepFile) -> None:
        from rtrain.train._driver._submission import say

        if self._run_config.verbose != 0:
            say(f"sweep {file.name} is kept in {file.folder}; Tuner.restore({str(file.folder)!r}, trainable) goes on with it")

    # -- what it is made of -------------------------------------------------------------------------------------------
    def _name(self) -> str:
        if self._run_config.name is None:
            stamp = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
            return f"{_trainable.name_of(self._wrapped)[:50]}_{stamp}"
        name = _names.run_name(self._run_config.name)
        if len(name) > _NAME_MAX:
            raise ValueError(
                f"the sweep's name {name!r} has {len(name)} letters; {_NAME_MAX} at most, since each trial's run adds its own"
            )
        return name

    @property
    def _metric_and_mode(self) -> tuple[str | None, str | None]:
        """Returns the metric and mode of TuneConfig, or those of its scheduler."""
        config, scheduler = self._config, self._config.scheduler
        return config.metric or (scheduler.metric if scheduler else None), config.mode or (scheduler.mode if scheduler else None)

    def _limits(self) -> Limits:
        config, failure = self._config, self._run_config.failure_config
        variants = variants_of(config.search_alg) if config.search_alg is not None else None
        most = [limit for limit in (config.max_concurrent_trials, variants.max_concurrent if variants else 0) if limit]
        return Limits(
            metric=self._metric_and_mode[0],
            mode=self._metric_and_mode[1],
            num_samples=config.num_samples,
            max_live=min(most, default=_LIVE),
            time_budget_s=config.time_budget_s,
            fail_fast=bool(failure.fail_fast) if failure is not None else False,
        )

    def _sweep_of(self, limits: Limits) -> Sweep:
        """Returns the sweep. Raises ValueError for a scheduler or searcher that does not work with the TuneConfig."""
        config = self._config
        searcher: Searcher = config.search_alg if config.search_alg is not None else BasicVariantGenerator()
        scheduler = config.scheduler if config.scheduler is not None else FIFOScheduler()
        scheduler.set_search_properties(config.metric, config.mode)
        taken = searcher.set_search_properties(
            config.metric, config.mode, self._space, num_samples=config.num_samples, seed=config.seed
        )
        if not taken and any(True for _ in leaves(self._space)):
            raise ValueError(
                f"{type(searcher).__name__} brings its own space, and takes no grids or draws of param_space; leave them out"
            )
        return Sweep(
            limits,
            searcher,
            scheduler,
            stoppers(self._run_config.stop)[1],
            self._space,
            f"{random.SystemRandom().getrandbits(20):05x}",
            run_name=lambda trial: trial.trial_id,
            trial_name=config.trial_name_creator,
        )

    def _runs(self, head: Head, sweep: Sweep, file: _file.SweepFile) -> TrialRuns:
        kept = getattr(self._wrapped.trainable, "_code", None)
        project = project_of(self._run_config, kept, _runtime_env.inherited_code())
        trials = _trainable.Trials(
            self._wrapped,
            self._run_config,
            file.name,
            file.storage_path,
            project.directory,
            stoppers(self._run_config.stop)[0],
            sweep.scheduler.last_time(),
            reuse=self._config.reuse_actors,
        )
        return TrialRuns(head, project, trials)

    def _run_name(self, sweep_name: str, trial: Trial) -> str:
        make = self._config.trial_dirname_creator
        if make is None:
            return f"{sweep_name}-{trial.trial_id}"
        end = make(trial)
        if not isinstance(end, str) or not _END.fullmatch(end):
            raise ValueError(
                f"trial_dirname_creator gave {end!r} for trial {trial.trial_id}; it gives the end of the run's name: letters, digits, "
                "'.', '_' and '-', at most 30"
            )
        return f"{sweep_name}-{end}"

    def _take_over(self, sweep: Sweep, state: dict[str, Any]) -> None:
        _file.take_over(sweep, state)
        if sweep.over in ("interrupted", "the driver failed") or "(fail_fast)" in sweep.over:
            sweep.over = ""
        for trial in sweep.trials:
            if trial.status == ERROR and (self._resume["errored"] or self._resume["restart"]):
                trial.status, trial.error, trial.why, trial.again = PENDING, None, "", True
                if self._resume["restart"]:
                    trial.legs.append(Leg(f"{trial.legs[0].run_name}-{len(trial.legs) + 1}", trial.config))
            elif not trial.finished:
                trial.status = PENDING if self._resume["unfinished"] else "TERMINATED"
        if not self._resume["unfinished"]:
            sweep.exhausted = True

    # -- results ------------------------------------------------------------------------------------------------------
    def _grid_of(
        self, trials: list[Trial], results: dict[str, list[Result]], folder: pathlib.Path, head: Head | None = None
    ) -> ResultGrid:
        def read_run(run_id: str, run_path: str) -> Result | None:
            try:
                head_in_use = head or Head.current()
                run = head_in_use.get(f"/v1/runs/{part(run_id)}")
                return result_of(head_in_use, run) if run["run_path"] == run_path else None
            except HeadError:
                return None

        checkpoint_rules = self._run_config.checkpoint_config.job() if self._run_config.checkpoint_config is not None else {}
        trial_results = [
            trial_result(trial, stored_results(trial, results.get(trial.trial_id, []), read_run), checkpoint_rules)
            for trial in trials
        ]
        return ResultGrid(trial_results, str(folder), *self._metric_and_mode)


def _folder_of(path: str | os.PathLike[str], filesystem: Any) -> pathlib.Path:
    """Returns the folder of a sweep with trials at `path` on the file system. Raises TuneError if this machine has no such
    folder, ValueError for a file system that trials cannot use.
    """
    text = _filesystems.place_of(path, filesystem).path.rstrip("/")
    if "://" not in text:
        return pathlib.Path(text).expanduser().absolute()
    kept = pathlib.Path(RESULTS).expanduser() / text.rpartition("/")[2]
    if _file.exists(kept) and str(_file.read(kept)["storage_path"]).rstrip("/") == text:
        return kept
    raise TuneError(
        f"{text}: a sweep's own files lie on the driver's machine, in {RESULTS}/<name> where its trials are in a bucket or on the head; "
        f"here {kept} has none whose trials lie there"
    )


def _place(config: _configs.RunConfig, name: str, info: _where.ClusterInfo) -> tuple[pathlib.Path, str | None]:
    """Returns the sweep's directory on this machine, and the storage path of its trials' runs. Both are the same if
    possible.
    """
    given = None if config.storage_path == "cluster://" else config.storage_path
    if given is None and not info.local:
        return pathlib.Path(RESULTS).expanduser() / name, None  # the head stores the runs
    text = str(given) if given is not None else info.storage
    if "://" in text:
        return pathlib.Path(RESULTS).expanduser() / name, f"{text.rstrip('/')}/{name}"
    folder = pathlib.Path(text) / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # only nodes mount the path
        return pathlib.Path(RESULTS).expanduser() / name, str(folder)
    return folder, str(folder)


__all__ = ["RunConfig", "Tuner"]


public_in("rtrain.tune", Tuner)
