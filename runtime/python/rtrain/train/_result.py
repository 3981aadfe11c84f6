"""The result of a run."""

import html
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rtrain._lazy import public_in
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._run_directory import _elsewhere, _filesystems, _reading, _records, _views
from rtrain.train._values import _metrics

_SHOWN, _SHOWN_BEST = 8, 3


@dataclass
class Result:
    """How a run ended, with its metrics and checkpoints.

    metrics: the metrics of the last report. checkpoint: the latest one. error: the reason of a failure; None after
    success.
    path: the run's directory; with RunConfig(storage_filesystem=) its path there. best_checkpoints: pairs
    (checkpoint, metrics), at most `num_to_keep`. The last one is the best by checkpoint_score_attribute, or the
    newest without that. return_value: the value that rank 0's loop returned.
    """

    metrics: dict[str, Any] | None = None
    checkpoint: Checkpoint | None = None
    error: Exception | None = None
    path: str | None = None
    best_checkpoints: list[tuple[Checkpoint, dict[str, Any]]] = field(default_factory=list)
    return_value: Any = None
    all_metrics: list[dict[str, Any]] = field(default_factory=list)  # one entry for each report, in order
    _filesystem: Any = field(default=None, repr=False)
    # path of the run as rtrain uses it; set if `path` is on a storage_filesystem
    _run_path: str | None = field(default=None, repr=False)

    @property
    def filesystem(self) -> Any:
        """The file system of `path`: pyarrow's LocalFileSystem for a path, or the `storage_filesystem` that was
        given.

        None for a bucket, whose file system is `pyarrow.fs.FileSystem.from_uri(path)`, and if pyarrow is not
        installed.
        """
        if self._filesystem is not None:
            return self._filesystem
        return None if self.path is None else _reading.filesystem_of(self.path)

    @property
    def metrics_dataframe(self) -> Any:
        """A pandas DataFrame with one row for each report. Raises ImportError without pandas."""
        try:
            import pandas  # type: ignore[import-untyped,import-not-found,unused-ignore]
        except ImportError as error:
            raise ImportError("metrics_dataframe needs pandas (pip install pandas); .all_metrics has the same rows") from error
        return pandas.DataFrame(self.all_metrics)

    @property
    def config(self) -> Any:
        """Raises a DeprecationWarning: the config is not stored. The text names a replacement."""
        raise DeprecationWarning("Result.config is not kept; the job of each attempt is in attempts/ of the run's directory")

    def get_best_checkpoint(self, metric: str, mode: str) -> Checkpoint | None:
        """Returns the kept checkpoint whose `metric` (`a/b` for a nested one) is the "max" or "min". NaN is never the best."""
        if mode not in ("max", "min"):
            raise ValueError(f"mode is {mode!r}; it is 'max' or 'min'")
        if not self.best_checkpoints:
            return None
        if all(_missing(_metrics.nested(metrics, metric)) for _, metrics in self.best_checkpoints):
            there = sorted({key for _, metrics in self.best_checkpoints for key in metrics})
            raise RuntimeError(f"no kept checkpoint has the metric {metric!r}; there are: {', '.join(there) or 'none'}")
        return max(self.best_checkpoints[::-1], key=lambda pair: score(pair[1], metric, mode))[0]

    @classmethod
    def from_path(cls, path: str | os.PathLike[str], storage_filesystem: Any = None) -> "Result":
        """Returns the Result of the run in the directory `path`.

        path: on this machine, on the head, mounted by the cluster alone, or in a bucket. With a storage_filesystem
        it may be the run's path there, `<storage_path>/<name>`, or rtrain's own path of the run.
        storage_filesystem: provides the keys and the endpoint of a bucket. This process reads any other file system
        of pyarrow or fsspec.

        Raises RuntimeError if there is no run.
        """
        directory: _reading.RunDirectory
        try:
            if _filesystems.is_carried(storage_filesystem):
                place = _filesystems.place_of(path, storage_filesystem)
                _filesystems.remember(place)
                text = place.path
                directory = _reading.open_directory(text)
                if storage_filesystem is not None:
                    _views.remember(directory.path, _views.View.of(path, storage_filesystem, directory.path))
            else:
                text = os.fspath(path).rstrip("/")
                if (known := recorded(text, storage_filesystem)) is not None:
                    return _of_directory(known, None)
                directory = _reading.FilesystemDirectory(text, _filesystems.as_pyarrow(storage_filesystem))
                directory.read("run.json")
        except FileNotFoundError as error:
            raise RuntimeError(f"Experiment folder {text} doesn't exist.") from error
        if _filesystems.is_carried(storage_filesystem):
            return _of_directory(directory, None)
        return _of_directory(directory, storage_filesystem)

    def __repr__(self) -> str:
        return "Result(\n" + "".join(f"  {name}: {text}\n" for name, text in self._rows()) + ")"

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>" for name, text in self._rows())
        return f"<table>{rows}</table>"

    def _rows(self) -> list[tuple[str, str]]:
        rows = [("metrics", _shown(self.metrics or {}))]
        rows.append(
            (
                "checkpoint",
                f"{self.checkpoint._shown or self.checkpoint._at}  {_shown(self.checkpoint.metrics)}"
                if self.checkpoint
                else "none",
            )
        )
        best = [
            f"{checkpoint.name} {_shown(metrics)}" for checkpoint, metrics in [*reversed(self.best_checkpoints)][:_SHOWN_BEST]
        ]
        if best:
            rows.append(("best", "; ".join(best)))
        rows.append(("path", str(self.path)))
        if self.error is not None:
            rows.append(("error", str(self.error).splitlines()[0]))
        return rows


def _missing(value: Any) -> bool:
    return isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value)


def score(metrics: Mapping[str, Any], name: str, order: str) -> float:
    """Returns a score of which larger is better. A missing or NaN value is the worst in either order."""
    value = _metrics.nested(metrics, name)
    if _missing(value):
        return -math.inf
    return float(value) if order == "max" else -float(value)


def by_score(checkpoints: list[Checkpoint], name: str | None, order: str) -> list[tuple[Checkpoint, dict[str, Any]]]:
    """Sorts from the worst to the best. The newer of two equal ones is better. A checkpoint without a score is the
    worst.
    """
    pairs = [(checkpoint, checkpoint.metrics) for checkpoint in checkpoints]
    if name is None:
        return pairs

    def key(place: int) -> tuple[bool, float, int]:
        metrics = pairs[place][1]
        return not _missing(_metrics.nested(metrics, name)), score(metrics, name, order), place

    return [pairs[place] for place in sorted(range(len(pairs)), key=key)]


def best(checkpoints: list[Checkpoint], rules: Mapping[str, Any]) -> list[tuple[Checkpoint, dict[str, Any]]]:
    """Returns the checkpoints that count as the best ones, the best last; without a score, in the order of reports.

    rules: the `checkpoint` section of the job. Returns at most its `num_to_keep`, since the run keeps its latest
    checkpoint beside them. Returns all if no checkpoint has the score, because the head then deletes none.
    """
    name = rules.get("score_attribute") or None
    ordered = by_score(checkpoints, name, rules.get("score_order") or "max")
    ranked = name is None or any(_metrics.nested(metrics, name) is not None for _, metrics in ordered)
    return ordered[-(rules.get("num_to_keep") or 0) :] if ranked else ordered


def no_score(name: str) -> str:
    return f"no checkpoint has the metric {name} (checkpoint_score_attribute): none is deleted until a report with a checkpoint has it"


def _shown(metrics: Mapping[str, Any]) -> str:
    texts = [f"{key}={value:.6g}" if isinstance(value, float) else f"{key}={value!r}" for key, value in metrics.items()]
    return ", ".join(texts[:_SHOWN]) + (f", ... ({len(texts)} in all)" if len(texts) > _SHOWN else "")


def rows_of(directory: _reading.RunDirectory, keep: Callable[[str], bool] = lambda _: True) -> list[dict[str, Any]]:
    """Returns every report in the journals of the run's attempts, in order. A report that a killed agent wrote twice
    counts once.
    """
    rows: list[dict[str, Any]] = []
    newest: dict[str, int] = {}  # key: the attempt; value: index of its last report
    for name, content in directory.like("attempts/*/metrics-*.jsonl").items():
        attempt = name.rsplit("/", 1)[0]
        for line in content.splitlines() if keep(name) else ():
            try:
                row = json.loads(line)
            except ValueError:
                continue  # the last line of a journal may be incomplete, and is skipped
            index = row.get("index")
            if isinstance(index, int):
                if index <= newest.get(attempt, 0):
                    continue
                newest[attempt] = index
            metrics: Any = _metrics.decode((row.get("metrics") or {}).get("0"))
            if isinstance(metrics, dict):
                rows.append(metrics)
    return rows


def recorded(path: str, filesystem: Any) -> _reading.RunDirectory | None:
    """Returns the directory of a run whose checkpoint files are on another file system; None if `path` is not such a
    run. `path` is the run's path on that file system, or the path of its own directory.
    """
    on_it = _reading.FilesystemDirectory(path, _filesystems.as_pyarrow(filesystem))
    try:
        if "://" in path:
            # a URI is a path on rtrain's storage, so it is no path on the other file system
            raise FileNotFoundError(path)
        directory = _reading.open_directory(str(json.loads(on_it.read(_elsewhere.RUN))["run_path"]))
        place = path.rpartition("/")[0]
    except FileNotFoundError:
        if "://" not in path and not os.path.isfile(f"{path}/run.json"):  # noqa: PTH113
            return None
        directory = _reading.open_directory(path)
        names = _reading.manifests(directory)
        pointers = (pointer for name in names for pointer in Checkpoint(f"{path}/{name}")._pointers())
        if (first := next(pointers, None)) is None:
            return directory
        place = str(first["path"])
    _elsewhere.remember(directory.path, _elsewhere.Elsewhere(filesystem, place))
    return directory


def _of_directory(directory: _reading.RunDirectory, filesystem: Any) -> Result:
    """Makes the Result from a run's directory. filesystem: the file system object of this process for the directory."""
    job = _records.header_of(directory.read("run.json"), directory.path).get("job") or {}
    rules = job.get("checkpoint") or {} if isinstance(job, dict) else {}
    kept: list[tuple[int, int, Checkpoint]] = []
    for name, manifest in _reading.manifests(directory).items():
        metrics: Any = _metrics.decode(manifest["metrics"])
        place = f"{directory.path}/{name}"
        checkpoint = Checkpoint._kept(place, metrics=metrics, name=name)
        if filesystem is not None:
            checkpoint = Checkpoint(place, filesystem, metrics=metrics, name=name)
        kept.append((int(manifest["attempt"]), int(manifest["report"]), checkpoint))
    in_order = [checkpoint for _, _, checkpoint in sorted(kept, key=lambda kept_checkpoint: kept_checkpoint[:2])]
    rows = rows_of(directory)
    path, shown_on = (directory.path, filesystem) if filesystem is not None else _views.shown_run(directory.path)
    return Result(
        metrics=rows[-1] if rows else (in_order[-1].metrics if in_order else None),
        checkpoint=in_order[-1] if in_order else None,
        path=path,
        best_checkpoints=best(in_order, rules),
        all_metrics=rows,
        _filesystem=shown_on,
        _run_path=directory.path,
    )


public_in("rtrain.train", Result)
