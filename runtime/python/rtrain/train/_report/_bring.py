"""Stages a report's files for the agent. The files are used in place, stored by the caller's function, taken from
the run's directory or from a worker's start directory (without its code), or replaced by pointers to another file
system.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
from collections.abc import Callable

from rtrain.train import _worker
from rtrain.train._checkpoint import Checkpoint
from rtrain.train._report import _check, _place
from rtrain.train._report._call import ReportCall
from rtrain.train._report._left_over import LeftOver
from rtrain.train._run_directory import _claims
from rtrain.train._run_directory._claims import Claim
from rtrain.train._run_directory._elsewhere import Elsewhere
from rtrain.train._values._checkpoint_names import MANIFEST
from rtrain.train._values._facts import CheckpointUploadMode, Facts

_NOTE = ".rtrain-in-place"  # name of a file in a staged directory that the agent reads
_NOT_KEPT = ("__pycache__", ".torchelastic-error.json")


def brought(call: ReportCall, elsewhere: Elsewhere | None, facts: Facts, index: int, number: int) -> ReportCall:
    """Returns the report with its files staged for the worker library. elsewhere: the place of the run's files if they
    are not on rtrain's storage, else None. index: the agent's number of the report; number: this process's number of
    it.
    """
    prepared_call = prepared(call, facts, index, _worker.fresh_directory)
    return carried(prepared_call, elsewhere, facts, number, _worker.fresh_directory)


def prepared(call: ReportCall, facts: Facts, index: int, fresh: Callable[[], str]) -> ReportCall:
    """Returns the report with its files staged for the worker library. Raises ValueError if the reported directory must
    be in the run's directory and is not.

    Ranks do not communicate here, so any subset of them may report files. `index` counts this rank's reports, `fresh`
    returns a new directory for staged files.
    """
    in_place = call.upload is CheckpointUploadMode.NO_UPLOAD
    if in_place:
        call = dataclasses.replace(call, upload=None)
    if call.directory is None:
        return call
    if call.upload_fn is not None:
        _check.check_place("checkpoint_upload_fn", facts)
        return _uploaded(call, facts, index, fresh)
    if in_place:
        _check.check_place("CheckpointUploadMode.NO_UPLOAD", facts)
        return _in_place(call, facts, index, fresh)
    return _without_code(call, fresh)


def _uploaded(call: ReportCall, facts: Facts, index: int, fresh: Callable[[], str]) -> ReportCall:
    name, first = _place.name_for_fn(call, facts, index)
    brought = brought_by_fn(call, name)
    left_over = call.directory_to_remove(facts.run_path)
    if left_over is not None and one_in_the_other(left_over.path, brought._at):
        left_over = None
    call = dataclasses.replace(call, directory=brought._at, directory_name=None, upload_fn=None, left_over=left_over)
    as_named = _place.is_place(brought._at, facts.run_path, name)
    return _in_place(call, facts, index, fresh, first=first if as_named else None)


def brought_by_fn(call: ReportCall, name: str) -> Checkpoint:
    """Returns the checkpoint that the caller's function returned. Raises ValueError or FileNotFoundError if that is
    no checkpoint.
    """
    assert call.upload_fn is not None
    assert call.directory is not None
    brought = call.upload_fn(call.given or Checkpoint.from_directory(call.directory), name)
    if not isinstance(brought, Checkpoint):
        raise ValueError(f"checkpoint_upload_fn gave a {type(brought).__name__}; it gives the Checkpoint that it made")
    given = pathlib.Path(brought._at)
    if "://" not in brought._at and not given.is_dir():
        raise FileNotFoundError(
            f"checkpoint_upload_fn gave {brought._at}, which is not a directory; it gives the Checkpoint that it made"
        )
    return brought


def one_in_the_other(directory: str, other: str) -> bool:
    first, second = pathlib.Path(directory).resolve(), pathlib.Path(other).resolve()
    return first == second or first in second.parents or second in first.parents


def _in_place(call: ReportCall, facts: Facts, index: int, fresh: Callable[[], str], *, first: bool | None = None) -> ReportCall:
    """Returns the report of a directory that lies in the run's directory and becomes the checkpoint itself. If several
    ranks report one directory, the first of them stages a note with its path, for the agent. first: whether this rank
    is the first; None: not known.
    """
    name = _place.place_in_run(call, facts)
    given = pathlib.Path(facts.run_path).resolve() / name
    if first is None:
        claim = _claims.claim_in_place(pathlib.Path(facts.run_path), name, facts.attempt, index)
        if claim is Claim.TAKEN:
            raise ValueError(_place.taken(facts.run_path, name))
        first = claim is Claim.FIRST
    if not first:  # an earlier rank reports this directory, including this rank's files
        return dataclasses.replace(call, directory=None)
    # removes the manifest of the checkpoint from which these files were copied
    (given / MANIFEST).unlink(missing_ok=True)
    staged = pathlib.Path(fresh())
    # An older agent accepts only a name here.
    (staged / _NOTE).write_text(f"{given}\0{name}" if "/" in name else str(given))
    return dataclasses.replace(call, directory=str(staged), directory_name=None, owned=True)


def carried(call: ReportCall, elsewhere: Elsewhere | None, facts: Facts, report: int, fresh: Callable[[], str]) -> ReportCall:
    """If the run's files lie on another file system, copies the report's files there, and returns the report with
    pointers in place of its files. `fresh` returns a new directory.
    """
    if elsewhere is None or call.directory is None:
        return call
    staged = pathlib.Path(fresh())
    elsewhere.store(pathlib.Path(call.directory), facts, report, staged)
    given_away = LeftOver(call.directory) if call.owned else call.directory_to_remove(facts.run_path)
    return dataclasses.replace(call, directory=str(staged), owned=True, removed=False, left_over=given_away)


def _without_code(call: ReportCall, fresh: Callable[[], str]) -> ReportCall:
    """Leaves out the job's code if the reported directory is the worker's start directory, as in
    `Checkpoint.from_directory(".")`. Files of the code that are unchanged since it was unpacked are not reported. An
    older agent writes no list of the code; then all files are reported.
    """
    listed, start = os.environ.get("RTRAIN_CODE_LIST"), os.environ.get("RTRAIN_START_DIR")
    directory = pathlib.Path(call.directory or "")
    if not listed or not start or directory.resolve() != pathlib.Path(start).resolve() or not pathlib.Path(listed).exists():
        return call
    target = pathlib.Path(fresh())
    _take_new(directory, "", _code(pathlib.Path(listed)), target)
    return dataclasses.replace(call, directory=str(target), owned=True)


def _code(listed: pathlib.Path) -> dict[str, str]:
    """Reads what the start directory contained when the code had been unpacked. Returns, by relative path: "d" for a
    directory, "f BYTES MTIME_NS" for a file, "l TARGET" for a link.
    """
    came: dict[str, str] = {}
    words = iter(os.fsdecode(listed.read_bytes()).split("\0"))
    for word in words:
        if word.startswith("d "):
            came[word[2:]] = "d"
        elif word.startswith("l "):
            came[word[2:]] = "l " + next(words)
        elif word:
            kind, size, time, path = word.split(" ", 3)
            came[path] = f"{kind} {size} {time}"
    return came


def _take_new(directory: pathlib.Path, inside: str, came: dict[str, str], target: pathlib.Path) -> None:
    for entry in directory.iterdir():
        path = inside + entry.name
        if entry.name in _NOT_KEPT or _as_it_came(entry, came.get(path)):
            continue
        if entry.is_dir() and not entry.is_symlink() and came.get(path) == "d":
            _take_new(entry, path + "/", came, target / entry.name)
        elif entry.is_dir():
            shutil.copytree(entry, target / entry.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(entry, target / entry.name)


def _as_it_came(entry: pathlib.Path, came: str | None) -> bool:
    """Returns whether the entry is unchanged since the code was unpacked. Each unpacked file has a unique time,
    which its copies keep.
    """
    if came is None:
        return False
    if entry.is_symlink():
        return came == f"l {entry.readlink()}"
    if not entry.is_file():
        return False
    here = entry.stat()
    return came == f"f {here.st_size} {here.st_mtime_ns}"
