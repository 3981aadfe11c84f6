"""Describes training without a loop of the user: parameters, datasets and a number of rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rtrain import train
from rtrain.train._configs import RunConfig

TRAIN = "train"  # name of the dataset that trees are grown on; the others are evaluated
FREQUENCY = 10  # number of rounds between checkpoints if the user gives none


@dataclass(frozen=True)
class Rounds:
    """The arguments of a trainer that trains without a loop. of_columns: by dataset, further arguments for the
    library's dataset; a text in them names a column.
    """

    params: dict[str, Any]
    label_column: str
    num_boost_round: int
    names: list[str]
    frequency: int = FREQUENCY
    at_end: bool = True
    of_columns: dict[str, dict[str, Any]] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)  # further arguments of the library's function `train`

    def table(self, name: str) -> Any:
        """Returns this rank's rows of a dataset as an Arrow table."""
        import pyarrow as pa

        shard = train.get_dataset_shard(name)
        if not hasattr(shard, "iter_batches"):
            raise TypeError(
                f"datasets[{name!r}] is no rtrain.data.Dataset, so its rows have no columns; make one, for example by from_pandas"
            )
        batches = list(shard.iter_batches(batch_size=None, batch_format="pyarrow"))
        if not batches:
            raise ValueError(f"this rank has no row of datasets[{name!r}]: it has fewer rows than there are workers")
        return pa.concat_tables(batches)

    def split(self, name: str) -> tuple[Any, Any, dict[str, Any]]:
        """Returns this rank's rows of a dataset: features, labels, and the arguments in `of_columns` with columns in
        place of names.
        """
        table = self.table(name)
        beside = dict(self.of_columns.get(name, {}))
        columns = {key: value for key, value in beside.items() if isinstance(value, str)}
        for column in [self.label_column, *columns.values()]:
            if column not in table.column_names:
                raise ValueError(f"datasets[{name!r}] has no column {column!r}; it has {', '.join(table.column_names)}")
        beside.update({key: _numbers(table, column) for key, column in columns.items()})
        labels = _numbers(table, self.label_column)
        return table.drop_columns([self.label_column, *columns.values()]), labels, beside


def _numbers(table: Any, column: str) -> np.ndarray[Any, Any]:
    numbers: np.ndarray[Any, Any] = table.column(column).to_numpy()
    return numbers


def rounds_of(
    trainer: str,
    given: Mapping[str, Any],
    datasets: Mapping[str, Any] | None,
    run_config: RunConfig | None,
    allowed: Sequence[str],
    arguments: Mapping[str, Any],
) -> Rounds:
    """Returns the Rounds for the arguments of a trainer that trains without a loop. allowed: the arguments of the
    library's `train` that it takes.

    Raises ValueError or TypeError for a missing or unknown argument.
    """
    label, params = given.get("label_column"), given.get("params")
    if not isinstance(label, str) or not isinstance(params, Mapping):
        raise ValueError(f"{trainer} takes a train_loop_per_worker, or params= (a dict), datasets= and label_column= (a name)")
    if TRAIN not in (datasets or {}):
        raise ValueError(
            f"{trainer}: datasets has no {TRAIN!r}; it is the one that trees are grown on, and the others are evaluated"
        )
    unknown = [name for name in arguments if name not in allowed]
    if unknown:
        raise TypeError(f"{trainer} has no argument {unknown[0]!r}; those of `train` that it takes are {', '.join(allowed)}")
    rounds = given.get("num_boost_round")
    rounds = 10 if rounds is None else rounds
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
        raise ValueError(f"{trainer}: num_boost_round is {rounds!r}; it is a whole number from 1 on")
    config = run_config.checkpoint_config if run_config is not None else None
    frequency = config.checkpoint_frequency if config is not None else None
    at_end = config.checkpoint_at_end if config is not None else None
    return Rounds(
        params=dict(params),
        label_column=label,
        num_boost_round=rounds,
        names=sorted(datasets or {}, key=lambda name: (name != TRAIN, name)),
        frequency=FREQUENCY if frequency is None else frequency,
        at_end=True if at_end is None else at_end,
        of_columns={name: dict(of) for name, of in (given.get("of_columns") or {}).items()},
        arguments=dict(arguments),
    )


def nested(history: Sequence[Mapping[str, float]], datasets: Sequence[str]) -> dict[str, dict[str, list[float]]]:
    """Returns the metrics by dataset and metric: a list with a value for each round. Names of metrics may contain
    dashes.
    """
    values: dict[str, dict[str, list[float]]] = {}
    for name in history[0] if history else ():
        owner = max((dataset for dataset in datasets if name.startswith(f"{dataset}-")), key=len, default=None)
        if owner is not None:
            values.setdefault(owner, {})[name[len(owner) + 1 :]] = [metrics[name] for metrics in history if name in metrics]
    return values
