"""Weights & Biases: all attempts of a run log to one W&B run, which has the run's id.

`tracking: {wandb: true}` logs every report. `setup_wandb` returns a W&B run for loops with their own logging. In offline
mode (WANDB_MODE=offline) each attempt writes a directory with the same id, and `wandb sync` merges them.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from typing import Any

from rtrain.integrations._run import HighWater, Nothing, current_run, plain, rank
from rtrain.train._workers._tracked_run import TrackedRun

__all__ = ["WandbTracker", "setup_wandb"]


class WandbTracker:
    """Logs reports to one W&B run. Its project is that of WANDB_PROJECT, else "rtrain". 43s ValueError when both a key and a
    file of it are given. => Raises ValueError if both a key and a key file are given.
    """

    def __init__(self, run: TrackedRun) -> None:
        self._run, self._written = _open(run, {})

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Logs `metrics` at `step`, a count of reports. A step that an earlier attempt wrote is left out."""
        if self._written.passes(step):
            self._run.log(dict(metrics), step=step)

    def finish(self, *, failed: bool) -> None:
        """Ends the W&B run, with exit code 1 where the run failed."""
        self._run.finish(exit_code=1 if failed else 0)


def setup_wandb(
    config: Mapping[str, Any] | None = None,
    api_key: str | None = None,
    api_key_file: str | None = None,
    rank_zero_only: bool = True,
    **options: Any,
) -> Any:
    """Returns a W&B run, the same one in every attempt. `config` becomes its config, `options` go to `wandb.init`.

    `run.log(..., step=n)` leaves out steps that an earlier attempt wrote. On ranks other than 0 every call does nothing, unless
    `rank_zero_only` is False. ValueError when both a key and a file of it are given.
    """
    if api_key and api_key_file:
        raise ValueError("setup_wandb takes api_key or api_key_file, not both")
    if api_key_file:
        api_key = pathlib.Path(api_key_file).expanduser().read_text().strip()
    if api_key:
        os.environ["WANDB_API_KEY"] = api_key
    here = rank()
    if rank_zero_only and here != 0:
        return Nothing()
    run = current_run(options.pop("name", None))
    suffix = "" if rank_zero_only else f"-rank-{here}"
    opened, written = _open(run, {**options, "config": plain(config)}, suffix)
    return _Run(opened, written)


class _Run:
    """A W&B run that drops values at steps that were written before."""

    def __init__(self, run: Any, written: HighWater) -> None:
        self._run = run
        self._written = written
        self._before = written.step

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)

    def log(self, data: Mapping[str, Any], step: int | None = None, **others: Any) -> None:
        if step is not None:
            if step <= self._before:
                return
            self._written.passes(step)
        self._run.log(dict(data), step=step, **others)


def _open(run: TrackedRun, options: Mapping[str, Any], suffix: str = "") -> tuple[Any, HighWater]:
    import wandb

    given: dict[str, Any] = {"project": os.environ.get("WANDB_PROJECT") or "rtrain", "name": run.name + suffix, **options}
    if run.run_id:
        given.setdefault("id", run.run_id + suffix)
        given.setdefault("resume", "allow")
    if run.folder is not None and "dir" not in given and "WANDB_DIR" not in os.environ:
        given["dir"] = str(run.folder)
    opened = wandb.init(**given)
    keeps = run.folder / f".wandb-steps{suffix}.json" if run.folder is not None else None
    written = HighWater(keeps)
    written.step = max(written.step, int(getattr(opened, "starting_step", 0) or 0) - 1)
    return opened, written
