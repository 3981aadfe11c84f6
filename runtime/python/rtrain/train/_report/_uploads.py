"""Reports whose files are brought in another way: by the caller's own function, from the run's directory itself, or from a
worker's own directory, where the code lies beside the files."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
from collections.abc import Callable

from rtrain.train._checkpoint import Checkpoint
from rtrain.train._report._left_over import left_over_of
from rtrain.train._run_directory._reading import FORMAT, MANIFEST, header_of
from rtrain.train._run_directory._writer import Claim, claim_in_place, claim_name
from rtrain.train._session._records import CheckpointUploadMode, Facts, ReportCall
from rtrain.train._values import _checkpoint_names

_NOTE = ".rtrain-in-place"  # as the agent knows it
_NOT_KEPT = ("__pycache__", ".torchelastic-error.json")


def prepared(call: ReportCall, facts: Facts, index: int, fresh: Callable[[], str]) -> ReportCall:
    """The report as the library takes it. ValueError for a directory that must lie in the run's and does not.

    No rank asks another here: any subset of them may bring files this way. `index` counts this rank's reports, `fresh`
    gives a staged directory.
    """
    in_place = call.upload is CheckpointUploadMode.NO_UPLOAD
    if in_place:
        call = dataclasses.replace(call, upload=None)
    if call.directory is None:
        return call
    if call.upload_fn is not None:
        check_place("checkpoint_upload_fn", facts)
        return _uploaded(call, facts, index, fresh)
    if in_place:
        check_place("CheckpointUploadMode.NO_UPLOAD", facts)
        return _in_place(call, facts, index, fresh)
    return _without_code(call, fresh)


def check_place(what: str, facts: Facts) -> None:
    """What the loop brings itself lies in the run's directory: not in a bucket, nor on the head. Said before anything is uploaded."""
    if "://" in facts.run_path:
        raise ValueError(
            f"{what} works where the run's directory is a path that the nodes mount, and this run's is {facts.run_path}: report the "
            f"local directory without {what}, and the agent brings it there; or give RunConfig(storage_path=) such a path"
        )


def _uploaded(call: ReportCall, facts: Facts, index: int, fresh: Callable[[], str]) -> ReportCall:
    name, first = _name_for_fn(call, facts, index)
    brought = brought_by_fn(call, name)
    left_over = left_over_of(call, facts.run_path)
    if left_over is not None and one_in_the_other(left_over.path, brought._at):
        left_over = None
    call = dataclasses.replace(call, directory=brought._at, directory_name=None, upload_fn=None, left_over=left_over)
    as_named = is_place(brought._at, facts.run_path, name)
    return _in_place(call, facts, index, fresh, first=first if as_named else None)


def name_of(call: ReportCall, index: int) -> str:
    """What a report's checkpoint is called in errors."""
    return call.directory_name or f"checkpoint_{index:06}"


def _name_for_fn(call: ReportCall, facts: Facts, index: int) -> tuple[str, bool | None]:
    """A name that every rank of this report comes to by itself, and no other report does; agents give none of this form. Whether this
    rank is the first to have it; None: nobody has asked yet."""
    wish = call.directory_name
    if not wish:
        return f"checkpoint_r{index:06}-a{facts.attempt:03}", None
    if _run_format(facts) >= 2:
        claim = claim_name(pathlib.Path(facts.run_path), wish, facts.attempt, index)
        if claim is not Claim.TAKEN:
            return wish, claim is Claim.FIRST
    return f"{wish}-{index}-a{facts.attempt:03}", None


def _run_format(facts: Facts) -> int:
    try:
        return int(header_of((pathlib.Path(facts.run_path) / "run.json").read_bytes(), facts.run_path).get("format", 1))
    except FileNotFoundError:
        return FORMAT


def brought_by_fn(call: ReportCall, name: str) -> Checkpoint:
    """What the caller's function made of the checkpoint. ValueError, FileNotFoundError when that is none."""
    assert call.upload_fn is not None
    assert call.directory is not None
    brought = call.upload_fn(call.given or Checkpoint.from_directory(call.directory), name)
    if not isinstance(brought, Checkpoint):
        raise ValueError(f"checkpoint_upload_fn gave a {type(brought).__name__}; it gives the Checkpoint that it made")
    given = pathlib.Path(brought._at)
    if "://" not in brought._at and not given.is_dir():
        raise FileNotFoundError(f"checkpoint_upload_fn gave {brought._at}, which is not a directory; it gives the Checkpoint that it made")
    return brought


def is_place(directory: str, run_path: str, name: str) -> bool:
    """Whether the directory is that of the run's checkpoint `name`."""
    return pathlib.Path(directory).resolve() == pathlib.Path(run_path).resolve() / name


def one_in_the_other(directory: str, other: str) -> bool:
    first, second = pathlib.Path(directory).resolve(), pathlib.Path(other).resolve()
    return first == second or first in second.parents or second in first.parents


def _in_place(call: ReportCall, facts: Facts, index: int, fresh: Callable[[], str], *, first: bool | None = None) -> ReportCall:
    """Files that lie in the run's directory already stay there, and the directory is the checkpoint. Of several ranks that name one
    directory the first brings it, once all have come: it stages a note of where it is. first: whether this rank is; None: not known."""
    name = place_in_run(call, facts)
    given = pathlib.Path(facts.run_path).resolve() / name
    if first is None:
        claim = claim_in_place(pathlib.Path(facts.run_path), name, facts.attempt, index)
        if claim is Claim.TAKEN:
            raise ValueError(taken(facts.run_path, name))
        first = claim is Claim.FIRST
    if not first:  # a rank that was quicker brings it, what this one has put there included
        return dataclasses.replace(call, directory=None)
    (given / MANIFEST).unlink(missing_ok=True)  # of the checkpoint that these files are a copy of
    staged = pathlib.Path(fresh())
    (staged / _NOTE).write_text(f"{given}\0{name}" if "/" in name else str(given))  # an agent of before knows names alone
    return dataclasses.replace(call, directory=str(staged), directory_name=None, owned=True)


def taken(run_path: str, name: str) -> str:
    """Why the directory of the run is not this report's."""
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
    """The path, relative to the run's directory, of the directory that the call reports in its place. ValueError for one that cannot be a
    checkpoint there, as it is called."""
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
    """ValueError unless a checkpoint of this attempt may have the name in this run."""
    deeper = "/" in name
    if not deeper and _checkpoint_names.has_attempt(name):
        if int(name.rpartition("-a")[2]) != facts.attempt:
            raise ValueError(f"{given} has the name of another attempt's checkpoint, and this is attempt {facts.attempt}")
    elif why := _checkpoint_names.path_fault_of(name):
        what = "path in the run's directory" if deeper else "name"
        raise ValueError(f"{given} cannot become a checkpoint where it is: its {what} {why}")
    elif deeper and _run_format(facts) < 3:
        raise ValueError(
            f"{given}: an earlier rtrain began this run, in which a checkpoint lies directly in the run's directory: "
            f"{facts.run_path}/{given.name}"
        )
    elif _run_format(facts) < 2:
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


def _without_code(call: ReportCall, fresh: Callable[[], str]) -> ReportCall:
    """`Checkpoint.from_directory(".")`: the directory that a worker starts in holds the code that came along. What of it is as it
    came stays behind. Without the agent's list of it (an agent of before made the directory) all of it is reported."""
    listed, start = os.environ.get("RTRAIN_CODE_LIST"), os.environ.get("RTRAIN_START_DIR")
    directory = pathlib.Path(call.directory or "")
    if not listed or not start or directory.resolve() != pathlib.Path(start).resolve() or not pathlib.Path(listed).exists():
        return call
    target = pathlib.Path(fresh())
    _take_new(directory, "", _code(pathlib.Path(listed)), target)
    return dataclasses.replace(call, directory=str(target), owned=True)


def _code(listed: pathlib.Path) -> dict[str, str]:
    """What the start directory held at first: "d" for a directory, "f BYTES MTIME_NS", "l TARGET", by relative path."""
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
    """Every file of the code has a time of its own, which its copies keep."""
    if came is None:
        return False
    if entry.is_symlink():
        return came == f"l {entry.readlink()}"
    if not entry.is_file():
        return False
    here = entry.stat()
    return came == f"f {here.st_size} {here.st_mtime_ns}"
