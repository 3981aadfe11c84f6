"""Refuses reports that cannot be made, before any of their files is touched."""

from __future__ import annotations

from rtrain.train._report._call import ReportCall
from rtrain.train._run_directory._elsewhere import Elsewhere
from rtrain.train._values._facts import CheckpointUploadMode, Facts


def check(call: ReportCall, elsewhere: Elsewhere | None, facts: Facts, *, validates: bool) -> None:
    """Raises ValueError if the report is invalid, whatever its files are. elsewhere: the place of the run's files
    outside of rtrain's storage, or None. validates: the trainer has a validation_config.
    """
    if call.validation and not validates:
        raise ValueError("report(validation=...) needs a trainer with validation_config")
    if elsewhere is not None:
        _check_elsewhere(call)
    if call.goes_behind:
        check_place("checkpoint_upload_fn", facts)


def _check_elsewhere(call: ReportCall) -> None:
    """Raises ValueError if the loop stores the files itself, although the run's files lie on another file
    system.
    """
    if call.upload_fn is not None or call.upload is CheckpointUploadMode.NO_UPLOAD:
        what = "checkpoint_upload_fn" if call.upload_fn is not None else "CheckpointUploadMode.NO_UPLOAD"
        raise ValueError(
            f"{what} brings files into a run's directory that is a path, and those of this run lie on storage_filesystem: report the local "
            f"directory without {what}, and it is copied there"
        )


def check_place(what: str, facts: Facts) -> None:
    """Raises ValueError unless the run's directory is a mounted path, which the loop needs for storing files there
    itself. To be called before any upload.
    """
    if "://" in facts.run_path:
        raise ValueError(
            f"{what} works where the run's directory is a path that the nodes mount, and this run's is {facts.run_path}: report the "
            f"local directory without {what}, and the agent brings it there; or give RunConfig(storage_path=) such a path"
        )
