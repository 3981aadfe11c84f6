"""What proposes configs: the interface, and one that limits how many of another's proposals are alive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rtrain._lazy import public_in
from rtrain.tune._objective import Objective


class Searcher(Objective):
    """Proposes configs, and hears what came of them. Override `suggest`, and `on_trial_complete` to learn.

    A searcher is pickled with the sweep's state, so that `Tuner.restore` goes on with what it knows.
    """

    FINISHED = "FINISHED"

    def set_search_properties(self, metric: str | None, mode: str | None, config: Mapping[str, Any], **spec: Any) -> bool:
        """Called once, before the first trial, with what is looked for and the `param_space`. False: the searcher takes none of these."""
        self._complete(metric, mode)
        return True

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Returns the config of a new trial; None: ask again later; Searcher.FINISHED: there are no more."""
        raise NotImplementedError(f"{type(self).__name__} proposes nothing: override suggest(trial_id)")

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Called when a trial reported."""

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:  # noqa: FBT001, FBT002
        """Called when a trial has ended. result: its last report, None where there was none. error: whether it failed."""


class ConcurrencyLimiter(Searcher):
    """Passes proposals of `searcher` on while fewer than `max_concurrent` of its trials are alive.

    batch: the next ones come when all have ended.
    """

    def __init__(self, searcher: Searcher, max_concurrent: int, batch: bool = False) -> None:  # noqa: FBT001, FBT002
        if not isinstance(searcher, Searcher):
            raise ValueError(f"ConcurrencyLimiter takes a Searcher, not {searcher!r}")
        if isinstance(max_concurrent, bool) or not isinstance(max_concurrent, int) or max_concurrent < 1:
            raise ValueError(f"max_concurrent is {max_concurrent!r}; it is a whole number from 1")
        super().__init__(searcher.metric, searcher.mode)
        self.searcher, self.max_concurrent, self.batch = searcher, max_concurrent, batch
        self._live: set[str] = set()
        self._full = False

    def set_search_properties(self, metric: str | None, mode: str | None, config: Mapping[str, Any], **spec: Any) -> bool:
        super().set_search_properties(metric, mode, config, **spec)
        return self.searcher.set_search_properties(metric, mode, config, **spec)

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        if self._full or len(self._live) >= self.max_concurrent:
            return None
        suggestion = self.searcher.suggest(trial_id)
        if isinstance(suggestion, dict):
            self._live.add(trial_id)
            self._full = self.batch and len(self._live) >= self.max_concurrent
        return suggestion

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        self.searcher.on_trial_result(trial_id, result)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:  # noqa: FBT001, FBT002
        self._live.discard(trial_id)
        self._full = self._full and bool(self._live)
        self.searcher.on_trial_complete(trial_id, result, error)


public_in("rtrain.tune.search", ConcurrencyLimiter, Searcher)
