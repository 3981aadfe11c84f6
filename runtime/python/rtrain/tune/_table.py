"""Shows the trials on the driver's terminal: a table after changes, at limited rate, and finally the best trial."""

from __future__ import annotations

import collections
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rtrain.train._driver._submission import say
from rtrain.train._result import score
from rtrain.train._values._metrics import nested
from rtrain.tune._sweep import AUTOMATIC, Sweep
from rtrain.tune._trial import ERROR, RUNNING, STATES, TERMINATED, Trial
from rtrain.tune.progress_reporter import CLIReporter, ProgressReporter
from rtrain.tune.schedulers._scheduler import TrialScheduler

_PARAMETERS, _METRICS, _WIDTH = 4, 3, 18


@dataclass
class Table:
    name: str
    verbose: int
    reporter: ProgressReporter

    def begin(self, sweep: Sweep, total_samples: int | None) -> None:
        """Calls the reporter's `setup`, before the first trial starts."""
        if isinstance(self.reporter, CLIReporter):
            self.reporter.render = lambda done: lines(self.name, sweep, self.reporter, final=done)  # type: ignore[arg-type]
        metric, mode = sweep.limits.metric, sweep.limits.mode
        self.reporter.setup(start_time=time.time() - sweep.elapsed_s, total_samples=total_samples, metric=metric, mode=mode)

    def show(self, sweep: Sweep, *, final: bool = False) -> None:
        """Calls the reporter's `report` when its `should_report` returns True."""
        if self.verbose >= 1 and self.reporter.should_report(sweep.trials, done=final):
            self.reporter.report(sweep.trials, final)

    def report(self, trial: Trial, metrics: Mapping[str, Any]) -> None:
        if self.verbose >= 2:
            own = {name: value for name, value in metrics.items() if name not in AUTOMATIC or name == "training_iteration"}
            say(f"{trial.name}: " + ", ".join(f"{name}={shown(value)}" for name, value in own.items()))


def lines(name: str, sweep: Sweep, reporter: CLIReporter, *, final: bool) -> list[str]:
    """Returns the lines of the table. Failed and running trials are first; the others are sorted by the metric."""
    counts = collections.Counter(trial.status for trial in sweep.trials)
    states = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state]) or "no trials yet"
    head = f"sweep {name}: {states}; {sweep.elapsed_s:.0f} s"
    if final:
        head = f"sweep {name} has ended: {states}; {sweep.elapsed_s:.0f} s" + (f" ({sweep.over})" if sweep.over else "")
    metric, mode = sweep.limits.metric or reporter.metric, sweep.limits.mode or reporter.mode
    order = sorted(sweep.trials, key=lambda trial: _place(trial, metric, mode))
    rows = [
        head,
        *_about(sweep.scheduler),
        *(f"  {line}" for line in _rows(order[: reporter.rows], _headings(sweep, reporter, metric))),
    ]
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


def _about(scheduler: TrialScheduler) -> list[str]:
    """Returns the line about a scheduler whose class has a `debug_string` of its own."""
    has_one = type(scheduler).debug_string is not TrialScheduler.debug_string
    return [f"  {scheduler.debug_string()}"] if has_one else []


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
