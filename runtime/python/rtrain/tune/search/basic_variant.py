"""The searcher that is used when none is given: grids crossed, the rest drawn, `num_samples` times."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from typing import Any

from rtrain.tune.search import _variants
from rtrain.tune.search._searcher import Searcher

__all__ = ["BasicVariantGenerator"]


class BasicVariantGenerator(Searcher):
    """Proposes every variant of the space, in order.

    points_to_evaluate: configs that come first; what one leaves out is drawn.
    max_concurrent: how many trials may be alive; 0: as many as TuneConfig says.
    constant_grid_search: all points of a grid draw the same values.
    random_state: the seed, a number. None takes RTRAIN_TUNE_SEED, else draws one from Python's `random`, so that
    `random.seed(1)` before `fit()` repeats a sweep.
    """

    def __init__(
        self,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
        max_concurrent: int = 0,
        constant_grid_search: bool = False,  # noqa: FBT001, FBT002
        random_state: int | None = None,
    ) -> None:
        super().__init__()
        if random_state is not None and (isinstance(random_state, bool) or not isinstance(random_state, int)):
            raise ValueError(f"random_state is {random_state!r}; it is a whole number")
        if isinstance(max_concurrent, bool) or not isinstance(max_concurrent, int) or max_concurrent < 0:
            raise ValueError(f"max_concurrent is {max_concurrent!r}; it is a whole number from 0 (no limit)")
        self.max_concurrent = max_concurrent
        self._points = [dict(point) for point in points_to_evaluate or ()]
        self._constant_grid = constant_grid_search
        self._given_seed = random_state
        self.seed = 0
        self.drawn: dict[str, Any] = {}  # values of the latest suggestion that differ among trials; key: "a/b"
        self._space: Mapping[str, Any] = {}
        self._total: int | None = None
        self._at = 0

    def set_search_properties(self, metric: str | None, mode: str | None, config: Mapping[str, Any], **spec: Any) -> bool:
        """Takes the `param_space`. `num_samples` and `seed` of TuneConfig are in `spec`."""
        super().set_search_properties(metric, mode, config)
        samples = int(spec.get("num_samples", 1))
        self._space = config
        self._total = None if samples == -1 else samples * _variants.grid_size(config)
        given = self._given_seed if self._given_seed is not None else spec.get("seed")
        self.seed = given if given is not None else _seed_of_environment()
        return True

    @property
    def total(self) -> int | None:
        """Returns how many trials there will be; None: without end."""
        return None if self._total is None else self._total + len(self._points)

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        total, index = self.total, self._at
        if total is not None and index >= total:
            return self.FINISHED
        space: Any = self._space
        if index < len(self._points):
            space = _variants.merged(_without_grids(space), self._points[index])
        else:
            index -= len(self._points)
        next_variant = _variants.variant(space, self.seed, index, constant_grid_search=self._constant_grid)
        self._at += 1
        self.drawn = next_variant.differing
        return next_variant.config


def _without_grids(space: Any) -> Any:
    """Grids become choices: a point to evaluate is one trial."""
    if _variants.is_grid(space):
        from rtrain.tune.search.sample import Categorical

        return Categorical(space["grid_search"])
    if isinstance(space, Mapping):
        return {key: _without_grids(inner) for key, inner in space.items()}
    return space


def _seed_of_environment() -> int:
    text = os.environ.get("RTRAIN_TUNE_SEED", "")
    if text:
        try:
            return int(text)
        except ValueError as error:
            raise ValueError(f"RTRAIN_TUNE_SEED is {text!r}; it is a whole number") from error
    return random.getrandbits(32)
