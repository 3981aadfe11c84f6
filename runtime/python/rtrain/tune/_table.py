"""The trials on the driver's terminal: a table when something changed, every few seconds at most; at the end the best."""

from __future__ import annotations

import collections
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rtrain._arguments import REPORTER, check, check_named
from rtrain._lazy import public_in
from rtrain.train._driver._submission import say
from rtrain.train._result import nested, score
from rtrain.tune._sweep import AUTOMATIC, Sweep
from rtrain.tune._trial import ERROR, RUNNING, STATES, TERMINATED, Trial

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rtrain._argument_types import ReporterArguments

_EVERY_S = 5.0
_REPORTS_EVERY_S = 30.0
_ROWS, _PARAMETERS, _METRICS, _WIDTH = 20, 4, 3, 18


class CLIReporter:
    """Chooses the columns of the table that `fit()` shows.

    metric_columns, parameter_columns: lists of names, or dicts from names to what is shown.
    metric, mode: by which the best trial is chosen.
    max_progress_rows: how many rows the table has.
    max_error_rows: changes nothing; every trial that failed is shown.
    max_report_frequency: seconds between two tables.
    """

    def __init__(
        self,
        *,
        metric_columns: Sequence[str] | Mapping[str, str] | None = None,
        parameter_columns: Sequence[str] | Mapping[str, str] | None = None,
        max_progress_rows: int = _ROWS,
        max_error_rows: int = _ROWS,
        max_report_frequency: float = _EVERY_S,
        metric: str | None = None,
        mode: str | None = None,
        **others: Unpack[ReporterArguments],
    ) -> None:
        self.metric_columns, self.parameter_columns = _columns(metric_columns), _columns(parameter_columns)
        self.rows, self.every_s = max_progress_rows, float(max_report_frequency)
        self.metric, self.mode = metric, mode
        check("CLIReporter", others, REPORTER)
        check_named("CLIReporter", max_error_rows=max_error_rows)


JupyterNotebookReporter = CLIReporter


def _columns(given: Sequence[str] | Mapping[str, str] | None) -> dict[str, str] | None:
    if given is None:
        return None
    return dict(given) if isinstance(given, Mapping) else {name: name for name in given}


@dataclass
class Table:
    name: str
    verbose: int
    reporter: CLIReporter
    _shown_at: float = 0.0
    _states: str = ""
    _reports: int = 0

    def show(self, sweep: Sweep, *, final: bool = False) -> None:
        """Shows the table at the end, when a trial's status has changed (every few seconds at most), and when there were reports
        (seldom)."""
        if self.verbose < 1:
            return
        passed, states = time.monotonic() - self._shown_at, _states(sweep)
        due = self.reporter.every_s if states != self._states else max(_REPORTS_EVERY_S, self.reporter.every_s)
        reports = sum(trial.reports for trial in sweep.trials)
        if not final and (passed < due or (states, reports) == (self._states, self._reports)):
            return
        self._states, self._reports, self._shown_at = states, reports, time.monotonic()
        say("\n".join(lines(self.name, sweep, self.reporter, final=final)))

    def report(self, trial: Trial, metrics: Mapping[str, Any]) -> None:
        if self.verbose >= 2:
            own = {name: value for name, value in metrics.items() if name not in AUTOMATIC or name == "training_iteration"}
            say(f"{trial.name}: " + ", ".join(f"{name}={shown(value)}" for name, value in own.items()))


def _states(sweep: Sweep) -> str:
    return "|".join(f"{trial.trial_id}{trial.status}{len(trial.legs)}" for trial in sweep.trials)


def lines(name: str, sweep: Sweep, reporter: CLIReporter, *, final: bool) -> list[str]:
    """The table. Errors and what runs come first, then by the metric."""
    counts = collections.Counter(trial.status for trial in sweep.trials)
    states = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state]) or "no trials yet"
    head = f"sweep {name}: {states}; {sweep.elapsed_s:.0f} s"
    if final:
        head = f"sweep {name} has ended: {states}; {sweep.elapsed_s:.0f} s" + (f" ({sweep.over})" if sweep.over else "")
    metric, mode = sweep.limits.metric or reporter.metric, sweep.limits.mode or reporter.mode
    order = sorted(sweep.trials, key=lambda trial: _place(trial, metric, mode))
    rows = [head, *(f"  {line}" for line in _rows(order[: reporter.rows], _headings(sweep, reporter, metric)))]
    if len(order) > reporter.rows:
        rows.append(f"  ... and {len(order) - reporter.rows} more trials")
    rows += [f"  {trial.name} failed: {trial.why}" for trial in order if final and trial.status == ERROR][: reporter.rows]
    best = best_trial(sweep.trials, metric, mode)
    if final and best is not None and metric:
        parameters = ", ".join(f"{key}={shown(value)}" for key, value in best.drawn.items())
        rows.append(
            f"  best: {best.name} with {metric}={shown(nested(best.last_result, metric))}"
            + (f" ({parameters})" if parameters else "")
        )
    return rows


def best_trial(trials: list[Trial], metric: str | None, mode: str | None) -> Trial | None:
    scored = [trial for trial in trials if metric and mode and score(trial.last_result, metric, mode) > float("-inf")]
    return max(scored, key=lambda trial: score(trial.last_result, str(metric), str(mode)), default=None)


def _place(trial: Trial, metric: str | None, mode: str | None) -> tuple[int, float, str]:
    group = {ERROR: 0, RUNNING: 1, TERMINATED: 2}.get(trial.status, 3)
    return group, -score(trial.last_result, metric, mode) if metric and mode else 0.0, trial.trial_id


def _headings(sweep: Sweep, reporter: CLIReporter, metric: str | None) -> tuple[dict[str, str], dict[str, str]]:
    parameters = reporter.parameter_columns
    if parameters is None:
        names = list(dict.fromkeys(name for trial in sweep.trials for name in trial.drawn))
        parameters = {name: name.rpartition("/")[2] for name in names[:_PARAMETERS]}
    metrics = reporter.metric_columns
    if metrics is None:
        own = [name for name in sweep.names_seen if name not in AUTOMATIC and name != metric][:_METRICS]
        chosen = [*([metric] if metric else []), *own]
        metrics = {name: name for name in chosen} | {"training_iteration": "iter", "time_total_s": "total s"}
    return parameters, metrics


def _rows(trials: list[Trial], headings: tuple[dict[str, str], dict[str, str]]) -> list[str]:
    parameters, metrics = headings
    table = [["trial", "status", *parameters.values(), *metrics.values()]]
    for trial in trials:
        cells = [shown(trial.drawn[name] if name in trial.drawn else nested(trial.config, name)) for name in parameters]
        table.append([trial.name, trial.status, *cells, *(shown(nested(trial.last_result, name)) for name in metrics)])
    widths = [max(len(row[place]) for row in table) for place in range(len(table[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]


def shown(value: Any) -> str:
    if value is None:
        return ""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."


public_in("rtrain.tune", CLIReporter)
