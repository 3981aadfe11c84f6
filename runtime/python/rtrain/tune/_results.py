"""The results of a sweep: a Result for each trial, and the grid of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rtrain._lazy import public_in
from rtrain._nested import flatten
from rtrain.train._result import Result, best, score
from rtrain.train._run_directory import _reading, _views
from rtrain.train._values._metrics import nested
from rtrain.tune._trial import ERROR, TERMINATED, Trial

_SCOPES = ("last", "all", "avg", "last-5-avg", "last-10-avg")


@dataclass(repr=False)
class TrialResult(Result):
    """A trial's Result: as rtrain.train's, with the trial's config. `error` is what it failed by; `metrics["config"]` is the
    config too."""

    trial_id: str = ""
    trial_name: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    status: str = TERMINATED

    @property
    def config(self) -> Any:
        return self.params

    @property
    def last_result(self) -> dict[str, Any]:
        """An older name of `metrics`."""
        return self.metrics or {}


def trial_result(trial: Trial, run_results: list[Result], checkpoint_rules: Mapping[str, Any]) -> TrialResult:
    """Joins the Results of the trial's runs, in their order. `wanted`: `checkpoint` of their jobs. For a trial without a result:
    its last report."""
    rows = [row for run_result in run_results for row in run_result.all_metrics]
    last = run_results[-1] if run_results else _without_result(trial)
    metrics = dict(last.metrics or trial.last_result)
    return TrialResult(
        metrics={**metrics, "config": trial.config},
        checkpoint=next(
            (run_result.checkpoint for run_result in reversed(run_results) if run_result.checkpoint is not None), None
        ),
        error=trial.error if trial.status == ERROR else None,
        path=last.path,
        best_checkpoints=best(
            [checkpoint for run_result in run_results for checkpoint, _ in run_result.best_checkpoints],
            checkpoint_rules,
        ),
        return_value=last.return_value,
        all_metrics=rows or ([trial.last_result] if trial.last_result else []),
        _filesystem=last._filesystem,
        _run_path=last._run_path,
        trial_id=trial.trial_id,
        trial_name=trial.name,
        params=trial.config,
        status=trial.status,
    )


def _without_result(trial: Trial) -> Result:
    if not trial.leg.run_path:
        return Result()
    path, filesystem = _views.shown_run(trial.leg.run_path)
    return Result(path=path, _filesystem=filesystem, _run_path=trial.leg.run_path)


class ResultGrid:
    """The Results of the trials, in the order in which they were started. It is a sequence."""

    def __init__(
        self, results: list[TrialResult], experiment_path: str, metric: str | None = None, mode: str | None = None
    ) -> None:
        self._results, self._path, self._metric, self._mode = results, experiment_path, metric, mode

    def __len__(self) -> int:
        return len(self._results)

    def __getitem__(self, place: int) -> TrialResult:
        return self._results[place]

    def __iter__(self) -> Iterator[TrialResult]:
        return iter(self._results)

    @property
    def errors(self) -> list[Exception]:
        """The errors of the trials that failed, in the order of the trials."""
        return [result.error for result in self._results if result.error is not None]

    @property
    def num_errors(self) -> int:
        """How many trials failed."""
        return len(self.errors)

    @property
    def num_terminated(self) -> int:
        """How many trials have ended without an error."""
        return sum(1 for result in self._results if result.status == TERMINATED)

    @property
    def experiment_path(self) -> str:
        """The sweep's directory, which Tuner.restore takes."""
        return self._path

    @property
    def filesystem(self) -> Any:
        """pyarrow's LocalFileSystem where the sweep's directory is a path; None for a URI (s3://, cluster://), and without pyarrow."""
        return _reading.filesystem_of(self._path)

    def get_best_result(
        self,
        metric: str | None = None,
        mode: str | None = None,
        scope: str = "last",
        filter_nan_and_inf: bool = True,  # noqa: FBT001, FBT002
    ) -> TrialResult:
        """Returns the Result of the trial whose metric is the "max" or "min".

        scope: "last" compares the last reports, "all" each trial's best one. "avg", "last-5-avg" and "last-10-avg" take means.
        metric, mode: left out, those of TuneConfig.

        ValueError where metric or mode is missing. RuntimeError where no trial has reported such a metric.
        """
        name, order = metric or self._metric, mode or self._mode
        if len(self._results) == 1 and name is None and order is None:
            return self._results[0]
        if name is None or order is None:
            raise ValueError("get_best_result needs a metric and a mode ('min' or 'max'); TuneConfig has none either")
        if order not in ("min", "max"):
            raise ValueError(f"mode is {order!r}; it is 'min' or 'max'")
        if scope not in _SCOPES:
            raise ValueError(f"scope is {scope!r}; it is one of {', '.join(_SCOPES)}")
        scored = [
            (value, -place)
            for place, result in enumerate(self._results)
            if (value := _value(result, name, order, scope)) is not None
        ]
        if filter_nan_and_inf:
            scored = [candidate for candidate in scored if math.isfinite(candidate[0])]
        if not scored:
            there = sorted({key for result in self._results for row in result.all_metrics for key in row})
            raise RuntimeError(f"no trial has reported a number as {name!r}; reported were: {', '.join(there) or 'none'}")
        return self._results[-max(scored)[1]]

    def get_dataframe(self, filter_metric: str | None = None, filter_mode: str | None = None) -> Any:
        """Returns a pandas DataFrame with a row for each trial: its last report.

        filter_metric, filter_mode: take the report in which that metric is the "min" or "max" instead.

        Nested names are joined as "a/b"; those of the config begin with "config/".
        """
        if (filter_metric is None) != (filter_mode is None) or filter_mode not in (None, "min", "max"):
            raise ValueError(
                f"get_dataframe(filter_metric={filter_metric!r}, filter_mode={filter_mode!r}): give both, the mode 'min' or 'max', or neither"
            )
        try:
            import pandas  # type: ignore[import-untyped,import-not-found,unused-ignore]
        except ImportError as error:
            raise ImportError(
                "get_dataframe needs pandas (pip install pandas); each result has .metrics and .all_metrics"
            ) from error
        return pandas.DataFrame([_row(result, filter_metric, filter_mode) for result in self._results])

    def __repr__(self) -> str:
        return "ResultGrid<[\n" + "".join(f"  {result!r},\n" for result in self._results) + "]>"


def _value(result: TrialResult, name: str, order: str, scope: str) -> float | None:
    """Larger is better; None where there is no number."""
    values = [score(row, name, order) for row in result.all_metrics if _is_number(nested(row, name))]
    if not values:
        return None
    if scope == "last":
        last = nested(result.metrics or {}, name)
        return score(result.metrics or {}, name, order) if _is_number(last) else values[-1]
    if scope == "all":
        return max(values)
    count = {"avg": len(values), "last-5-avg": 5, "last-10-avg": 10}[scope]
    chosen = values[-count:]
    return statistics.fmean(chosen) if all(math.isfinite(value) for value in chosen) else -math.inf


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _row(result: TrialResult, metric: str | None, mode: str | None) -> dict[str, Any]:
    chosen: Mapping[str, Any] = {key: value for key, value in (result.metrics or {}).items() if key != "config"}
    if metric is not None and mode is not None:
        rows = [row for row in result.all_metrics if _is_number(nested(row, metric))]
        chosen = max(rows, key=lambda row: score(row, metric, mode), default={})
    return {
        **flatten(dict(chosen)),
        "trial_id": result.trial_id,
        "logdir": result.path,
        **{f"config/{key}": value for key, value in flatten(result.params).items()},
    }


def stored_results(trial: Trial, known: list[Result], read_run: Callable[[str, str], Result | None]) -> list[Result]:
    """One Result for each of the trial's runs, in their order. The Result of a run that ended under an
    earlier driver is read from its directory, else from the cluster; the last run of a trial that is not over has none yet."""
    ended = {
        result._run_path or result.path: result for result in known
    }  # a run that went on has a later one, with all that it reported
    results: list[Result] = []
    for leg in trial.legs:
        if leg.run_path in ended:
            results.append(ended.pop(leg.run_path))
            continue
        if not leg.run_path or (leg is trial.leg and not trial.finished):
            continue
        try:
            results.append(Result.from_path(leg.run_path))
        except (RuntimeError, OSError, ValueError):
            leg_results = read_run(leg.run_id, leg.run_path)
            if leg_results is not None:
                results.append(leg_results)
    return [*results, *ended.values()]


public_in("rtrain.tune", ResultGrid)
