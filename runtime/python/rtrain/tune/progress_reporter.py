"""The display of a running sweep: the interface, and the table of trials. A script may derive a reporter of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rtrain._arguments import REPORTER, check, check_named
from rtrain._lazy import public_in
from rtrain.train._driver._submission import say
from rtrain.tune._trial import Trial

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rtrain._argument_types import ReporterArguments

__all__ = ["CLIReporter", "JupyterNotebookReporter", "ProgressReporter"]

_EVERY_S = 5.0
_REPORTS_EVERY_S = 30.0
_ROWS = 20


class ProgressReporter:
    """Shows how a sweep goes. The driver calls it, also a subclass's own methods, unless RunConfig(verbose=0) is given."""

    def setup(
        self,
        start_time: float | None = None,
        total_samples: int | None = None,
        metric: str | None = None,
        mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Called before the first trial. total_samples: how many trials there will be, None when the searcher decides."""

    def should_report(self, trials: list[Trial], done: bool = False) -> bool:  # noqa: FBT001, FBT002
        """Returns whether `report` is called now. done: True in the last call, when the sweep is over."""
        raise NotImplementedError(f"{type(self).__name__} shows nothing: override should_report(trials, done)")

    def report(self, trials: list[Trial], done: bool, *sys_info: str) -> None:  # noqa: FBT001
        """Shows the trials."""
        raise NotImplementedError(f"{type(self).__name__} shows nothing: override report(trials, done, *sys_info)")


class CLIReporter(ProgressReporter):
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

    # A class attribute, because a reporter that version 0.1.0 has pickled has none of its own.
    render: Callable[[bool], list[str]] | None = None
    """What makes the lines of the table; the driver sets it."""
    _shown_at, _reports, _states = 0.0, 0, ""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "render"}

    def should_report(self, trials: list[Trial], done: bool = False) -> bool:  # noqa: FBT001, FBT002
        """Returns whether the table is due: at the end, when the status of a trial has changed, and seldom for reports alone."""
        passed, states = time.monotonic() - self._shown_at, _states(trials)
        due = self.every_s if states != self._states else max(_REPORTS_EVERY_S, self.every_s)
        reports = sum(trial.reports for trial in trials)
        if not done and (passed < due or (states, reports) == (self._states, self._reports)):
            return False
        self._states, self._reports, self._shown_at = states, reports, time.monotonic()
        return True

    def report(self, trials: list[Trial], done: bool, *sys_info: str) -> None:  # noqa: FBT001
        """Shows the table."""
        if self.render is not None:
            say("\n".join(self.render(done)))


class JupyterNotebookReporter(CLIReporter):
    """The same table in a notebook. overwrite: changes nothing; each table stands below the one before.

    The other arguments are those of CLIReporter.
    """

    def __init__(self, overwrite: bool = True, **others: Any) -> None:  # noqa: FBT001, FBT002
        super().__init__(**others)
        check_named("JupyterNotebookReporter", overwrite=overwrite)


def _states(trials: list[Trial]) -> str:
    return "|".join(f"{trial.trial_id}{trial.status}{len(trial.legs)}" for trial in trials)


def _columns(given: Sequence[str] | Mapping[str, str] | None) -> dict[str, str] | None:
    if given is None:
        return None
    return dict(given) if isinstance(given, Mapping) else {name: name for name in given}


public_in("rtrain.tune", CLIReporter, JupyterNotebookReporter, ProgressReporter)
