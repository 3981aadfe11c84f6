"""Finds the events of a trial's run, besides its reports, for which callbacks are called: failures that it recovers from, starts
from a checkpoint, commits.

Pure: takes records of the head, returns hooks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Hook = Literal["on_trial_recover", "on_trial_restore"]


@dataclass
class Observed:
    """The events of one run for which the callbacks have been called.

    attempt: the number of the newest attempt that had started. failures: how many failures the run has recovered from.
    reported: the directories of reports, in their order, whose checkpoints are not known to be committed.
    """

    attempt: int = 0
    failures: int = 0
    reported: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def recovered(self, run: Mapping[str, Any]) -> list[Hook]:
        """Returns a hook for each failure that the run has recovered from since. The failure that ends a run is none of these."""
        failures, most = int(run.get("failures") or 0), int(run.get("max_failures") or 0)
        if run["state"] == "FAILED" and 0 <= most < failures:
            failures -= 1
        before, self.failures = self.failures, max(self.failures, failures)
        return ["on_trial_recover"] * (self.failures - before)

    def restored(self, attempts: Sequence[Mapping[str, Any]], *, moved: bool) -> list[Hook]:
        """Returns a hook for each attempt that has started from a checkpoint since. The first attempt of a moved trial always has."""
        hooks: list[Hook] = []
        for attempt in sorted(attempts, key=lambda attempt: int(attempt["number"])):
            if int(attempt["number"]) <= self.attempt or attempt["started"] is None:
                continue
            self.attempt = int(attempt["number"])
            if attempt["from"] or moved:
                hooks.append("on_trial_restore")
        return hooks

    def committed(self, directories: Collection[str], *, over: bool) -> list[tuple[str, dict[str, Any]]]:
        """Returns the reported directories that are committed now, with their metrics, in the order of reports.

        A checkpoint that is missing although a later one is committed was lost or is removed already. So is every one that is
        missing when the run is over.
        """
        there = [place for place, (name, _) in enumerate(self.reported) if name in directories]
        settled = len(self.reported) if over else (there[-1] + 1 if there else 0)
        news = [self.reported[place] for place in there]
        self.reported = self.reported[settled:]
        return news
