"""The JSON records of a run's directory, and the format of the directory, which run.json contains."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from typing import Any

from rtrain import _files

FORMAT = 3  # format in run.json; since 2 a checkpoint's name may lack the attempt, since 3 its directory may lie deeper


def header_of(content: bytes, path: str) -> dict[str, Any]:
    """Returns run.json of the run at `path`. Raises RuntimeError if a later version of rtrain wrote it."""
    header = json.loads(content)
    if not isinstance(header, dict):
        raise RuntimeError(f"{path}/run.json is damaged: it is no JSON object")
    version = header.get("format", 1)
    if not isinstance(version, int) or version > FORMAT:
        raise RuntimeError(
            f"{path}/run.json has format {version}; this rtrain reads formats 1 to {FORMAT}: use the rtrain that made the run, or a newer one"
        )
    return header


def format_of(run_path: str) -> int:
    """Returns the format of the run's directory on this machine; the newest format if it has no run.json yet."""
    try:
        return int(header_of((pathlib.Path(run_path) / "run.json").read_bytes(), run_path).get("format", 1))
    except FileNotFoundError:
        return FORMAT


def create(file: pathlib.Path, record: Mapping[str, Any]) -> bool:
    """Writes a new record. Returns False, and changes nothing, if the file exists."""
    return _files.create(file, _text(record))


def replace(file: pathlib.Path, record: Mapping[str, Any]) -> None:
    """Writes a record in place of an earlier one. The record is on disk when this returns."""
    _files.replace(file, _text(record), durable=True)


def _text(record: Mapping[str, Any]) -> bytes:
    return (json.dumps(record, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()
