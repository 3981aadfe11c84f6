"""A trainer from the directory of its run alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rtrain.train import _package, _run_directory

if TYPE_CHECKING:
    from rtrain.train._trainer import DataParallelTrainer

_OVERRIDES = ("train_loop_per_worker", "train_loop_config", "datasets", "scaling_config", "run_config")


def has_driver(path: str) -> bool:
    try:
        _run_directory.open_directory(path).read("driver.pkl")
    except (OSError, ValueError):
        return False
    return True


def restored(kind: type[DataParallelTrainer], path: str, overrides: dict[str, Any]) -> DataParallelTrainer:
    """ValueError where `path` is no run of `fit()`, or an override has no such name."""
    for name in overrides:
        if name not in _OVERRIDES:
            raise TypeError(f"restore() has no override {name!r}; there are: {', '.join(_OVERRIDES)}")
    place = path.rstrip("/")
    try:
        payload = _package.Payload.from_bytes(
            _run_directory.open_directory(place).read("driver.pkl"), f"{place}/driver.pkl"
        )
    except FileNotFoundError as error:
        raise ValueError(
            f"{place} cannot be restored: it has no driver.pkl, so no `fit()` made it (`rtrain restore {place}` goes on with "
            f"any run): {error}"
        ) from error
    _package.check_versions(payload.header, "of the run's directory")
    rest = payload.part("trainer")
    run_config = overrides.get("run_config") or rest["run_config"]
    run_config.name = rest["run_config"].name
    run_config.storage_path = rest["run_config"].storage_path
    if "stop" in payload.parts and run_config.stop is None:
        run_config.stop = payload.part("stop")
    arguments: dict[str, Any] = {
        "train_loop_config": overrides.get("train_loop_config", payload.part("config")),
        "scaling_config": overrides.get("scaling_config") or rest["scaling_config"],
        "run_config": run_config,
        "dataset_config": payload.part("data_config"),
        "metadata": payload.header.get("metadata") or None,
    }
    if "datasets" in payload.parts or "datasets" in overrides:
        arguments["datasets"] = overrides.get("datasets") or payload.part("datasets")
    if "validation" in payload.parts:
        arguments["validation_config"] = payload.part("validation")
    arguments["torch_config" if kind._torch else "backend_config"] = payload.part("torch_config")
    return kind(overrides.get("train_loop_per_worker") or payload.part("loop"), **arguments)
