"""Names of the directories of reports' checkpoints in the run's directory. Every rank finds the name by itself, or the
name is that of a directory that is reported in its place.
"""

from __future__ import annotations

import json
import os
import pathlib

from rtrain.train._report._call import ReportCall
from rtrain.train._run_directory import _claims, _records
from rtrain.train._run_directory._claims import Claim
from rtrain.train._values import _checkpoint_names
from rtrain.train._values._checkpoint_names import MANIFEST
from rtrain.train._values._facts import Facts


def name_of(call: ReportCall, index: int) -> str:
    """Returns the name of a report's checkpoint for messages of errors."""
    return call.directory_name or f"checkpoint_{index:06}"


def name_for_fn(call: ReportCall, facts: Facts, index: int) -> tuple[str, bool | None]:
    """Returns a name for the checkpoint. Every rank of this report computes the same name, and no other report has it.
    Agents never use names of this form. Also returns whether this rank was the first to claim the name; None: no claim
    was made.
    """
    wish = call.directory_name
    if not wish:
        return f"checkpoint_r{index:06}-a{facts.attempt:03}", None
    if _records.format_of(facts.run_path) >= 2:
        claim = _claims.claim_name(pathlib.Path(facts.run_path), wish, facts.attempt, index)
        if claim is not Claim.TAKEN:
            return wish, claim is Claim.FIRST
    return f"{wish}-{index}-a{facts.attempt:03}", None


def is_place(directory: str, run_path: str, name: str) -> bool:
    """Returns whether the directory is that of the run's checkpoint `name`."""
    return pathlib.Path(directory).resolve() == pathlib.Path(run_path).resolve() / name


def taken(run_path: str, name: str) -> str:
    """Returns why a directory in the run's directory cannot be this report's checkpoint; empty if it can."""
    run = pathlib.Path(run_path).resolve()
    if (run / "names" / name).is_dir():
        return f"{run / name} holds checkpoints of this run, and cannot be one itself: report another directory"
    for above in (run / name).parents:
        if run in above.parents and (run / "names" / above.relative_to(run)).is_file():
            return f"{run / name} lies in {above}, which is the directory of another report: report one that does not lie in a checkpoint"
    return (
        f"{run / name} is the directory of another report, of this attempt or of an earlier one: what is reported in its place stays "
        "there, so every report needs a directory of its own"
    )


def place_in_run(call: ReportCall, facts: Facts) -> str:
    """Returns the path, relative to the run's directory, of a directory that is reported in place. Raises ValueError
    if it cannot be a checkpoint under this name.
    """
    assert call.directory is not None
    if not _inside(call.directory, facts.run_path):
        raise ValueError(
            f"the checkpoint {call.directory} does not lie in the run's directory {facts.run_path}: NO_UPLOAD and "
            "checkpoint_upload_fn need that, on a path that the node sees"
        )
    given = pathlib.Path(call.directory).resolve()
    name = given.relative_to(pathlib.Path(facts.run_path).resolve()).as_posix()
    if _committed(given, name):
        raise ValueError(f"{given} is a committed checkpoint of this run, and stays one: put new files into another directory")
    if call.directory_name and call.directory_name not in (name, given.name):
        raise ValueError(
            f"with NO_UPLOAD the files stay in {given}, so the checkpoint's name is {name!r} and not {call.directory_name!r}: leave "
            "checkpoint_dir_name out, or make the directory of that name"
        )
    if not os.access(given, os.R_OK | os.W_OK | os.X_OK):
        raise PermissionError(f"{given} cannot become a checkpoint where it is: this user may not write there")
    _check_name(given, name, facts)
    return name


def _check_name(given: pathlib.Path, name: str, facts: Facts) -> None:
    """Raises ValueError unless a checkpoint of this attempt may have the name."""
    deeper = "/" in name
    if not deeper and _checkpoint_names.has_attempt(name):
        if int(name.rpartition("-a")[2]) != facts.attempt:
            raise ValueError(f"{given} has the name of another attempt's checkpoint, and this is attempt {facts.attempt}")
    elif why := _checkpoint_names.path_fault_of(name):
        what = "path in the run's directory" if deeper else "name"
        raise ValueError(f"{given} cannot become a checkpoint where it is: its {what} {why}")
    elif deeper and _records.format_of(facts.run_path) < 3:
        raise ValueError(
            f"{given}: an earlier rtrain began this run, in which a checkpoint lies directly in the run's directory: "
            f"{facts.run_path}/{given.name}"
        )
    elif _records.format_of(facts.run_path) < 2:
        raise ValueError(
            f"{given}: an earlier rtrain began this run, in which a checkpoint's name says its attempt: call it {name}-a{facts.attempt:03}"
        )


def _committed(directory: pathlib.Path, name: str) -> bool:
    try:
        manifest = json.loads((directory / MANIFEST).read_text())
    except (OSError, ValueError):
        return False
    return isinstance(manifest, dict) and manifest.get("directory") == name


def _inside(directory: str, run_path: str) -> bool:
    return "://" not in directory and pathlib.Path(run_path).resolve() in pathlib.Path(directory).resolve().parents
