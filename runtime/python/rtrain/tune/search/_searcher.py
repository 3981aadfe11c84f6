"""Searchers: the interface of objects that propose configs, and one that limits how many proposals of another are alive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rtrain._lazy import public_in
from rtrain.tune._objective import Objective


class Searcher(Objective):
    """Proposes configs, and is called with their results. Override `suggest`, and `on_trial_complete` to learn.

    A searcher is kept with the sweep's state, so that `Tuner.restore` continues with what it knows: by its `save` and `restore`
    if the class overrides them, else by pickle.
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

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Called by a ConcurrencyLimiter around this searcher. Returns whether the searcher keeps the limit itself."""
        return False


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
        self._limits_itself = bool(searcher.set_max_concurrency(max_concurrent))

    def set_search_properties(self, metric: str | None, mode: str | None, config: Mapping[str, Any], **spec: Any) -> bool:
        super().set_search_properties(metric, mode, config, **spec)
        return self.searcher.set_search_properties(metric, mode, config, **spec)

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        if not self._limits_itself and (self._full or len(self._live) >= self.max_concurrent):
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

    def save(self, checkpoint_path: str) -> None:
        """Calls the `save` of the searcher inside, whose file its `restore` reads."""
        self.searcher.save(checkpoint_path)

    def restore(self, checkpoint_path: str) -> None:
        """Calls the `restore` of the searcher inside."""
        self.searcher.restore(checkpoint_path)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({"_limits_itself": False, **state})


def innermost(searcher: Searcher) -> Searcher:
    """Returns the searcher behind the limits of concurrency."""
    while isinstance(searcher, ConcurrencyLimiter):
        searcher = searcher.searcher
    return searcher


def resume(searcher: Searcher, live: set[str]) -> None:
    """Makes limits of concurrency count the trials that are alive."""
    while isinstance(searcher, ConcurrencyLimiter):
        searcher._live = set(live)
        searcher = searcher.searcher


public_in("rtrain.tune.search", ConcurrencyLimiter, Searcher)
