"""Claims of the directories of a run. A file in names/ records the report that a directory belongs to. The first
report that claims a name gets it.
"""

from __future__ import annotations

import enum
import json
import pathlib

from rtrain import _files
from rtrain.train._run_directory import _records
from rtrain.train._values import _checkpoint_names


class Claim(enum.Enum):
    FIRST = "FIRST"  # the name was free
    AGAIN = "AGAIN"  # this report has the name already: another rank of it, or an earlier try, has claimed the name
    TAKEN = "TAKEN"


def claim_name(run: pathlib.Path, name: str, attempt: int, report: int) -> Claim:
    """Claims the name for the report by the file names/<name>, and returns the result. Returns TAKEN also if the name
    belongs to other files of the run.
    """
    if _checkpoint_names.fault_of(name):
        return Claim.TAKEN
    # These files are looked for before the claim, since the owner of the name adds files after its claim.
    files = (run / name).is_file() or any((run / name).rglob("*"))
    if files and not (run / "names" / name).exists():
        return Claim.TAKEN
    return claim_in_place(run, name, attempt, report)


def claim_in_place(run: pathlib.Path, name: str, attempt: int, report: int) -> Claim:
    """Claims a directory that may hold the report's files already. The directory may lie deeper: names/epochs/3 is
    the claim of epochs/3. A file and a directory cannot have the same name, so a checkpoint inside of another one is
    TAKEN.
    """
    claim = run / "names" / name
    try:
        claim.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        return Claim.TAKEN
    if _records.create(claim, {"schema_version": 1, "attempt": attempt, "report": report}):
        _sync_above(run, [claim, run / name])
        return Claim.FIRST
    return Claim.AGAIN if claim_of(run, name) == (attempt, report) else Claim.TAKEN


def _sync_above(run: pathlib.Path, places: list[pathlib.Path]) -> None:
    """Syncs the folders that contain the places, up to the run's directory. Needed because a checkpoint's directory may
    be created after its claim.
    """
    above = {folder for place in places for folder in place.parents if run in folder.parents and folder.is_dir()}
    for folder in [*sorted(above, key=lambda path: len(path.parts), reverse=True), run]:
        _files.sync_folder(folder)


def claim_of(run: pathlib.Path, name: str) -> tuple[int, int] | None:
    """Returns the attempt and the report that own the directory; None if the claim cannot be read. Raises
    FileNotFoundError if there is no claim.
    """
    try:
        claim = json.loads((run / "names" / name).read_text())
        return int(claim["attempt"]), int(claim["report"])
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError):
        return None
