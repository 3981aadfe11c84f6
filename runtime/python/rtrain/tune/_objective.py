"""The metric and mode of a sweep: shared by schedulers and searchers."""

from __future__ import annotations

import pathlib
import pickle

from rtrain import _public_names


class Objective:
    """A metric and whether less or more of it is better. None leaves that to TuneConfig. Raises ValueError for an unknown
    mode.
    """

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

    def save(self, checkpoint_path: str) -> None:
        """Writes the state to the file `checkpoint_path`.

        A sweep keeps a pickle of the whole object. A class that overrides this and `restore` is kept by them instead: `save` is
        called whenever the sweep's file is written, and `restore` when `Tuner.restore(...).fit()` begins, on the object that the
        Tuner was made with.
        """
        pathlib.Path(checkpoint_path).write_bytes(_public_names.dumps(self.__dict__))

    def restore(self, checkpoint_path: str) -> None:
        """Reads the state from a file that `save` has written."""
        self.__dict__.update(pickle.loads(pathlib.Path(checkpoint_path).read_bytes()))

    def _complete(self, metric: str | None, mode: str | None) -> None:
        self._metric, self._mode = self._metric or metric, self._mode or mode
