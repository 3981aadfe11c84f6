"""The class API: a Trainable is set up once and steps until it is done; it says how it is kept and brought back."""

from __future__ import annotations

import contextlib
import datetime
import os
import pathlib
import pickle
from collections.abc import Iterator, Mapping
from typing import Any

from rtrain.train import _loop, _session
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._session._protocol import Session

__all__ = ["Trainable"]

_VALUES = "trainable_checkpoint.pkl"
_COUNT = ".trainable_iteration"


class Trainable:
    """A trial as a class. Override `setup`, `step`, `save_checkpoint` and `load_checkpoint`; others where they are needed.

    Checkpoints are taken every CheckpointConfig(checkpoint_frequency=) steps, and whenever one is requested, by a drain for
    example. With checkpoint_at_end one is taken at the last step: at `done`, or at the sweep's `stop`.
    """

    def __init__(self) -> None:
        self.config: dict[str, Any] = {}
        self.iteration = 0
        self._session: Session | None = None

    # -- what is overridden -------------------------------------------------------------------------------------------
    def setup(self, config: dict[str, Any], **parameters: Any) -> None:
        """Called once, before the first step. parameters: those of `tune.with_parameters`."""

    def step(self) -> Mapping[str, Any]:
        """Makes one iteration and returns its metrics. {"done": True} ends the trial."""
        raise NotImplementedError(f"{type(self).__name__} trains nothing: override step()")

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any] | str | None:
        """Writes files into the directory, or returns a dict that is kept."""
        raise NotImplementedError(f"{type(self).__name__} cannot be kept: override save_checkpoint(checkpoint_dir)")

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Restores what `save_checkpoint` returned or wrote: it is given the dict, or the directory."""
        raise NotImplementedError(f"{type(self).__name__} cannot go on from a checkpoint: override load_checkpoint(checkpoint)")

    def cleanup(self) -> None:
        """Called at the trial's end."""

    def log_result(self, result: dict[str, Any]) -> None:
        """Called with what each step returned, before it is reported."""

    def get_auto_filled_metrics(
        self,
        now: datetime.datetime | None = None,
        time_this_iter: float | None = None,
        timestamp: int | None = None,
        debug_metrics_only: bool = False,  # noqa: FBT001, FBT002
    ) -> dict[str, Any]:
        """Returns metrics that join those of each step, which win. Every report has its iteration, times and trial id anyway."""
        return {}

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Makes the object train with another config, and returns whether it can. It is called with TuneConfig(reuse_actors=True).

        A trial that population based training moves has a process of its own. There `setup` is called with the config that the
        trial had before, and this with the new one. If it returns False, a new object's `setup` is called with the new config.
        """
        return False

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> Any:
        """Returns the resources of a trial with this config: a tune.PlacementGroupFactory with one bundle, or {"CPU": 2, "GPU": 1}.

        None: one CPU. The driver calls it for each run of a trial, unless tune.with_resources says otherwise.
        """
        return None

    @classmethod
    def resource_help(cls, config: dict[str, Any]) -> str:
        """Returns a sentence that the driver adds when it says why a trial waits for its resources."""
        return ""

    # -- what it may ask ----------------------------------------------------------------------------------------------
    @property
    def training_iteration(self) -> int:
        """How many steps were made, over all starts of the trial."""
        return self.iteration

    @property
    def trial_id(self) -> str:
        """This trial's id."""
        from rtrain.tune._context import get_context

        return get_context().get_trial_id()

    @property
    def trial_name(self) -> str:
        """This trial's name."""
        from rtrain.tune._context import get_context

        return get_context().get_trial_name()

    @property
    def logdir(self) -> str:
        """A directory on the node's fast local disk. It is removed with the attempt."""
        return _loop.scratch_dir()

    # -- what runs it -------------------------------------------------------------------------------------------------
    def _begin(self, config: dict[str, Any], parameters: Mapping[str, Any]) -> None:
        self.config = config
        self._session = _session.current("Trainable")
        self.setup(config, **parameters)

    def _load(self, checkpoint: Checkpoint | None) -> None:
        if checkpoint is None:
            return
        with checkpoint.as_directory() as directory:
            kept = pathlib.Path(directory) / _VALUES
            count = pathlib.Path(directory) / _COUNT
            self.iteration = int(count.read_text()) if count.is_file() else 0
            self.load_checkpoint(pickle.loads(kept.read_bytes()) if kept.is_file() else directory)

    def _checkpoint_due(self, metrics: dict[str, Any], frequency: int, *, at_end: bool) -> contextlib.AbstractContextManager[Any]:
        """A directory with the checkpoint where one is due at this step, else None."""
        last = at_end and (self._is_last(metrics) or bool(metrics.get("done")))
        due = last or (bool(frequency) and self.iteration % frequency == 0) or _loop.should_checkpoint()
        return self._saved() if due else contextlib.nullcontext()

    def _is_last(self, metrics: dict[str, Any]) -> bool:
        """Whether the sweep's `stop` ends the trial at this report. It is asked here instead of in `report`."""
        from rtrain.train._session._cluster import ClusterSession

        session = self._session
        if not isinstance(session, ClusterSession) or session.stop is None:
            return False
        stop = session.stop.stop if isinstance(session.stop, _Answered) else session.stop
        result = {**metrics, "training_iteration": metrics.get("training_iteration", self.iteration)}
        session.stop = _Answered(stop, answer=bool(stop(session.facts.experiment_name, result)))
        return session.stop.answer

    @contextlib.contextmanager
    def _saved(self) -> Iterator[str]:
        with _loop.checkpoint_dir() as directory:
            values = self.save_checkpoint(directory)
            if isinstance(values, Mapping):
                (pathlib.Path(directory) / _VALUES).write_bytes(pickle.dumps(dict(values)))
            elif values is not None and not os.path.abspath(str(values)).startswith(os.path.abspath(directory)):  # noqa: PTH100
                raise ValueError(f"save_checkpoint gave {values!r}; it gives a dict, the directory {directory}, or None")
            (pathlib.Path(directory) / _COUNT).write_text(str(self.iteration))
            yield directory


class _Answered:
    """A `stop` that was asked about this step already: its report has the same answer."""

    def __init__(self, stop: Any, *, answer: bool) -> None:
        self.stop, self.answer = stop, answer

    def __call__(self, _run_name: str, _metrics: dict[str, Any]) -> bool:
        return self.answer
