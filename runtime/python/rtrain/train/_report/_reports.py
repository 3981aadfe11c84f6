"""Checks, stages and commits the reports of one rank of a cluster's run, in the order of their calls."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
from collections.abc import Callable

from rtrain.train import _worker
from rtrain.train._report import _bring, _check, _commit, _place
from rtrain.train._report._call import ReportCall
from rtrain.train._run_directory import _elsewhere
from rtrain.train._run_directory._elsewhere import Elsewhere
from rtrain.train._values import _names
from rtrain.train._values._facts import Facts
from rtrain.train._worker import _behind
from rtrain.train._worker._library import library


class Reports:
    def __init__(self) -> None:
        self.count = 0  # number of calls of `make`
        self.taken_over: set[str] = set()  # directories of checkpoint_dir() that reports have moved or will move
        # directories that reports may move although `owned` is not set in their calls
        self.given_away: set[str] = set()
        self._limit_s: float | None = None  # limit of `within_limit`, in s; None: not read yet

    @functools.cached_property
    def facts(self) -> Facts:
        return _worker.facts()

    def make(self, call: ReportCall, *, validates: bool, then: Callable[[ReportCall], None] | None) -> None:
        """Makes the report, or queues it to be made behind the loop. Raises ValueError if it cannot be made.

        validates: the run has a validation. then: called when every rank has made the report.
        """
        handle = _worker.handle("report") if call.goes_behind else _worker.handle_in_order("report")
        self.count += 1
        if self._limit_s is None:
            self._limit_s = float(_names.setting("COLLECTIVE_TIMEOUT_S") or 0)
        if call.directory is None and not self._limit_s:
            _commit.commit_metrics(handle, call)
            if then is not None:
                then(call)
            return
        elsewhere = _elsewhere.of(self.facts.run_path)
        _check.check(call, elsewhere, self.facts, validates=validates)
        if call.upload_fn is None and call.directory in self.given_away:
            call = dataclasses.replace(call, owned=True)
        report = _Report(self, handle, call, elsewhere, self.count, then)
        if call.goes_behind:
            # the directory must not be removed before the upload function has read it
            self.taken_over.add(str(call.directory))
            _behind.start(f"report {report.number}, {_place.name_of(call, report.number)}", report.make_behind, _behind.fail)
        else:
            report.make()

    def within_limit(self, commit: Callable[[], None], number: int) -> None:
        """Calls `commit`, which waits for the other ranks, for at most RTRAIN_TRAIN_COLLECTIVE_TIMEOUT_S."""
        if not self._limit_s:
            commit()
            return
        # imported in the function, since the module imports the client of the head
        from rtrain.train._worker import _collective_limit

        _collective_limit.within(self._limit_s, commit, _collective_limit.Coming(self.facts, "report", number, "report()"))


@dataclasses.dataclass
class _Report:
    reports: Reports
    handle: ctypes.c_void_p
    call: ReportCall
    elsewhere: Elsewhere | None
    number: int
    then: Callable[[ReportCall], None] | None

    def make(self) -> None:
        self._make(self._brought)

    def make_behind(self, bring: _behind.Bring) -> None:
        brought = bring(self._brought)
        self._make(lambda: brought)

    def _make(self, brought: Callable[[], ReportCall]) -> None:
        self.reports.within_limit(lambda: self._commit(brought()), self.number)
        if self.then is not None:
            self.then(self.call)

    def _brought(self) -> ReportCall:
        if self.call.directory is None:
            return self.call
        index = int(library().rtw_next_report(self.handle)) or self.number  # number of the report as the agent counts
        return _bring.brought(self.call, self.elsewhere, self.reports.facts, index, self.number)

    def _commit(self, call: ReportCall) -> None:
        if self.call.directory is None:
            _commit.commit_metrics(self.handle, call)
            return
        if call.directory is not None:
            self.reports.taken_over.add(call.directory)
        _commit.commit(self.handle, call, self.reports.facts.run_path)
