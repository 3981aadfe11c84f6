"""MLflow: one MLflow run for all attempts of a run, found again by its tag `rtrain.run_id`.

`tracking: {mlflow: true}` logs every report. `setup_mlflow` gives the module itself to a loop that logs on its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from rtrain.integrations._run import Nothing, current_run, plain, rank
from rtrain.train._workers._tracked_run import TrackedRun, numbers

__all__ = ["MLflowTracker", "setup_mlflow"]

_TAG = "rtrain.run_id"


class MLflowTracker:
    """Logs reports through MLflow's client. The server is that of MLFLOW_TRACKING_URI, else `<run directory>/mlruns`. The
    experiment is MLFLOW_EXPERIMENT_NAME, else the run's name. 63s ValueError when the experiment does not exist and may not
    be made. => Raises ValueError if the experiment does not exist and may not be created.
    """

    def __init__(self, run: TrackedRun) -> None:
        import mlflow

        self._client = mlflow.MlflowClient(_tracking_uri(None, run))
        experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME") or run.name
        self._run_id = _one_run(self._client, _experiment(self._client, experiment, create=True), run, {})
        self._step = _last_step(self._client, self._run_id)

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Logs the numbers among `metrics` at `step`, a count of reports. A step that an earlier attempt wrote is left out."""
        from mlflow.entities import Metric

        if step <= self._step:
            return
        now = int(time.time() * 1000)
        values = [Metric(name, value, now, step) for name, value in numbers(metrics).items()]
        if values:
            self._client.log_batch(self._run_id, metrics=values)
        self._step = step

    def finish(self, *, failed: bool) -> None:
        """Ends the MLflow run as FAILED or FINISHED."""
        self._client.set_terminated(self._run_id, "FAILED" if failed else "FINISHED")


def setup_mlflow(
    config: Mapping[str, Any] | None = None,
    tracking_uri: str | None = None,
    registry_uri: str | None = None,
    experiment_id: str | None = None,
    experiment_name: str | None = None,
    tracking_token: str | None = None,
    artifact_location: str | None = None,
    run_name: str | None = None,
    create_experiment_if_not_exists: bool = True,
    tags: Mapping[str, Any] | None = None,
    rank_zero_only: bool = True,
) -> Any:
    """Returns the `mlflow` module with an active run, the same one in every attempt. `config` becomes its parameters.

    `log_metric` and `log_metrics` leave out steps that an earlier attempt wrote. On ranks other than 0 every call does nothing,
    unless `rank_zero_only` is False. ValueError when the experiment does not exist and may not be made.
    """
    if rank_zero_only and rank() != 0:
        return Nothing()
    import mlflow

    run = current_run(run_name)
    if tracking_token:
        os.environ["MLFLOW_TRACKING_TOKEN"] = tracking_token
    uri = _tracking_uri(tracking_uri, run)
    if uri:
        mlflow.set_tracking_uri(uri)
    if registry_uri:
        mlflow.set_registry_uri(registry_uri)
    client = mlflow.MlflowClient()
    if experiment_id is None:
        name = experiment_name or os.environ.get("MLFLOW_EXPERIMENT_NAME") or run.name
        experiment_id = _experiment(client, name, create=create_experiment_if_not_exists, location=artifact_location)
    run_id = _one_run(client, experiment_id, run, {key: str(value) for key, value in (tags or {}).items()})
    mlflow.start_run(run_id=run_id)
    known = client.get_run(run_id).data.params
    fresh = {key: value for key, value in plain(config).items() if key not in known}
    if fresh:
        mlflow.log_params(fresh)
    return _Module(mlflow, _last_step(client, run_id))


class _Module:
    """The mlflow module, which drops metrics at steps that were written before this attempt."""

    def __init__(self, module: Any, last_step: int) -> None:
        self._module = module
        self._last_step = last_step

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def log_metric(self, key: str, value: float, step: int | None = None, **others: Any) -> Any:
        return self.log_metrics({key: value}, step, **others)

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None, **others: Any) -> Any:
        if step is not None and step <= self._last_step:
            return None
        return self._module.log_metrics(dict(metrics), step=step, **others)


def _tracking_uri(given: str | None, run: TrackedRun) -> str | None:
    if given or os.environ.get("MLFLOW_TRACKING_URI"):
        return given or os.environ["MLFLOW_TRACKING_URI"]
    if run.folder is None:
        return None  # MLflow's own default
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # runs on a shared file system store into a directory
    return (run.folder / "mlruns").as_uri()


def _experiment(client: Any, name: str, *, create: bool, location: str | None = None) -> str:
    experiment = client.get_experiment_by_name(name)
    if experiment is not None:
        return str(experiment.experiment_id)
    if not create:
        raise ValueError(f"MLflow has no experiment {name!r}; create it, or pass create_experiment_if_not_exists=True")
    return str(client.create_experiment(name, artifact_location=location))


def _one_run(client: Any, experiment_id: str, run: TrackedRun, tags: dict[str, str]) -> str:
    """Returns the MLflow run with this run's tag; creates one if there is none."""
    if run.run_id:
        runs = client.search_runs([experiment_id], f"tags.`{_TAG}` = '{run.run_id}'", max_results=1)
        if runs:
            client.update_run(runs[0].info.run_id, status="RUNNING")
            return str(runs[0].info.run_id)
        tags = {**tags, _TAG: run.run_id}
    return str(client.create_run(experiment_id, run_name=run.name, tags=tags).info.run_id)


def _last_step(client: Any, run_id: str) -> int:
    names = client.get_run(run_id).data.metrics
    return max((point.step for name in names for point in client.get_metric_history(run_id, name)), default=-1)
