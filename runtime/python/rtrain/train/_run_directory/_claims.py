"""Claims of the directories of a run: the files in names/ say which report each one belongs to. The first report that claims a name has it."""

from __future__ import annotations

import enum
import json
import pathlib

from rtrain import _files
from rtrain.train._run_directory import _records
from rtrain.train._values import _checkpoint_names


class Claim(enum.Enum):
    FIRST = "FIRST"  # nobody had the name
    AGAIN = "AGAIN"  # this report has it already, as another of its ranks or an earlier try has asked
    TAKEN = "TAKEN"


def claim_name(run: pathlib.Path, name: str, attempt: int, report: int) -> Claim:
    """Whose the directory of exactly this name is, as names/<name> says from now on. TAKEN also where other files are there."""
    if _checkpoint_names.fault_of(name):
        return Claim.TAKEN
    files = (run / name).is_file() or any((run / name).rglob("*"))  # looked for first: who has the name brings some
    if files and not (run / "names" / name).exists():
        return Claim.TAKEN
    return claim_in_place(run, name, attempt, report)


def claim_in_place(run: pathlib.Path, name: str, attempt: int, report: int) -> Claim:
    """The same of a directory in which the report's files may lie already. It may lie deeper: names/epochs/3 is the claim of epochs/3.
    A file and a directory cannot have one name, so no checkpoint lies in another one: TAKEN as well."""
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
    """The names in the folders above, up to the run's, are on disk when this returns. A directory may come after its claim."""
    above = {folder for place in places for folder in place.parents if run in folder.parents and folder.is_dir()}
    for folder in [*sorted(above, key=lambda path: len(path.parts), reverse=True), run]:
        _files.sync_folder(folder)


def claim_of(run: pathlib.Path, name: str) -> tuple[int, int] | None:
    """The attempt and the report whose directory it is; None: it cannot be read. FileNotFoundError: nobody's."""
    try:
        claim = json.loads((run / "names" / name).read_text())
        return int(claim["attempt"]), int(claim["report"])
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError):
        return None
