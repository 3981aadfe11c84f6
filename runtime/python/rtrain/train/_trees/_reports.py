"""Reports of rounds: metrics of each, and rank 0's model as a checkpoint every few rounds."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rtrain import train

HISTORY = "evaluations.json"  # a file beside the model in a checkpoint, with the metrics of all rounds so far

Metrics = dict[str, float]
Metric = str | Sequence[str] | Mapping[str, str] | None


class Reports:
    """Reports rounds for the callback of a library. `filename` is the name of the model's file in a checkpoint.

    metrics: which ones are reported, by the names `<dataset>-<metric>`: a name, a list, or a dict from reported names to those; None: all.
    frequency: a checkpoint every so many rounds; 0: none before the end. checkpoint_at_end: one with the last model, too.
    results_postprocessing_fn: changes the dict that is reported.
    """

    def __init__(
        self,
        metrics: Metric,
        filename: str,
        frequency: int,
        checkpoint_at_end: bool,  # noqa: FBT001  by position, as the callbacks have it
        results_postprocessing_fn: Callable[[Metrics], Metrics] | None,
    ) -> None:
        if isinstance(frequency, bool) or not isinstance(frequency, int) or frequency < 0:
            raise ValueError(f"frequency is {frequency!r}; it is a number of rounds, 0 for no checkpoint before the end")
        self._names = [metrics] if isinstance(metrics, str) else metrics
        self.filename, self.frequency, self.at_end = filename, frequency, checkpoint_at_end
        self._change = results_postprocessing_fn
        self.history: list[Metrics] = []  # one entry for each round, including rounds of earlier attempts

    def begin(self) -> None:
        """Loads the history from the checkpoint with which this attempt resumes."""
        self.history = history_of(train.get_checkpoint())

    def report(self, metrics: Metrics, save: Callable[[str], Any] | None) -> None:
        """Reports metrics by the names `<dataset>-<metric>`. save: writes the model to a path; None: no checkpoint is reported."""
        chosen = self._chosen(metrics)
        if save is None or train.get_context().get_world_rank() not in (0, None):
            train.report(chosen)
            return
        with train.checkpoint_dir() as folder:
            save(str(pathlib.Path(folder) / self.filename))
            (pathlib.Path(folder) / HISTORY).write_text(json.dumps(self.history))
            train.report(chosen, checkpoint=train.Checkpoint.from_directory(folder))

    def _chosen(self, metrics: Metrics) -> Metrics:
        if self._names is None:
            chosen = dict(metrics)
        else:
            renamed = self._names if isinstance(self._names, Mapping) else {name: name for name in self._names}
            missing = [name for name in renamed.values() if name not in metrics]
            if missing:
                raise KeyError(f"the callback reports {missing[0]!r}, and a round has {', '.join(metrics) or 'no metrics'}")
            chosen = {shown: metrics[name] for shown, name in renamed.items()}
        return chosen if self._change is None else self._change(chosen)


def history_of(checkpoint: train.Checkpoint | None) -> list[Metrics]:
    """Returns the metrics of all rounds up to the checkpoint. Returns an empty list for a checkpoint that was not
    reported by this class.
    """
    if checkpoint is None:
        return []
    with checkpoint.as_directory() as folder:
        file = pathlib.Path(folder) / HISTORY
        history: list[Metrics] = json.loads(file.read_text()) if file.is_file() else []
    return history


def model_of(checkpoint: train.Checkpoint, filename: str, load: Callable[[str], Any]) -> Any:
    """Returns the result of `load` for the model's file. If the checkpoint has no such file, raises FileNotFoundError
    with the names of its files.
    """
    with checkpoint.as_directory() as folder:
        file = pathlib.Path(folder) / filename
        if not file.is_file():
            names = sorted(other.name for other in pathlib.Path(folder).iterdir() if not other.name.startswith("."))
            raise FileNotFoundError(
                f"the checkpoint {checkpoint.path} has no file {filename!r}; it has {', '.join(names) or 'none'}. Give the file's name "
                "as `filename`, as the callback that saved it had it"
            )
        return load(str(file))
