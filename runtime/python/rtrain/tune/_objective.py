"""What a sweep looks for: the part that schedulers and searchers have alike."""

from __future__ import annotations


class Objective:
    """A metric and whether less or more of it is better; None where TuneConfig is to say so. ValueError: no such mode."""

    def __init__(self, metric: str | None = None, mode: str | None = None) -> None:
        if mode not in (None, "min", "max"):
            raise ValueError(f"mode is {mode!r}; it is 'min' or 'max'")
        self._metric, self._mode = metric, mode

    @property
    def metric(self) -> str | None:
        """The metric that trials are compared by; None before it is known."""
        return self._metric

    @property
    def mode(self) -> str | None:
        """ "min" or "max"; None before it is known."""
        return self._mode

    def _complete(self, metric: str | None, mode: str | None) -> None:
        self._metric, self._mode = self._metric or metric, self._mode or mode
