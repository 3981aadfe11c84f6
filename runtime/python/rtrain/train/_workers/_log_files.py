"""Writes a rank's output to files as well, for `log_to_file`. They are stored with the run's logs."""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from rtrain.train import _session


class _Both:
    def __init__(self, shown: TextIO, kept: TextIO) -> None:
        self._shown = shown
        self._kept = kept

    def write(self, text: str) -> int:
        self._kept.write(text)
        return self._shown.write(text)

    def flush(self) -> None:
        self._kept.flush()
        self._shown.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shown, name)


def directory() -> pathlib.Path:
    """Returns `<run>/logs/attempt-NNNNNN` if this node has the run's directory. Otherwise returns a folder whose
    files the agent copies there at the attempt's end.
    """
    facts = _session.current("log_to_file").facts
    if facts.run_path and "://" not in facts.run_path and os.access(facts.run_path, os.W_OK):
        return pathlib.Path(facts.run_path) / "logs" / f"attempt-{facts.attempt:06}"
    scratch = os.environ.get("RTRAIN_SCRATCH_DIR")
    return pathlib.Path(scratch, ".rtrain-logs") if scratch else pathlib.Path.cwd() / "logs"


@contextlib.contextmanager
def copied(names: tuple[str, str]) -> Iterator[None]:
    rank = _session.current("log_to_file").facts.world_rank
    place = directory()
    place.mkdir(parents=True, exist_ok=True)
    out_name, err_name = (f"rank-{rank:05}-{name}" for name in names)
    before = sys.stdout, sys.stderr
    with contextlib.ExitStack() as stack:
        out = stack.enter_context((place / out_name).open("a", buffering=1))
        err = out if out_name == err_name else stack.enter_context((place / err_name).open("a", buffering=1))
        sys.stdout, sys.stderr = _Both(before[0], out), _Both(before[1], err)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before
