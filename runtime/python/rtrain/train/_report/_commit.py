"""Sends a report to the agent. The report is complete once every rank has sent its own."""

from __future__ import annotations

import ctypes
import os

from rtrain.train._report._call import ReportCall
from rtrain.train._values._facts import CheckpointUploadMode
from rtrain.train._worker._library import ReportArgs, check, library

_UPLOADS = {
    None: 0,
    CheckpointUploadMode.SYNC: 1,
    CheckpointUploadMode.ASYNC: 2,
    CheckpointUploadMode.NO_UPLOAD: 3,
}  # the values of the enum fields of rtw_report_args


def commit_metrics(handle: ctypes.c_void_p, call: ReportCall) -> None:
    """Makes a report without files: the usual case, which costs microseconds."""
    code = library().rtw_report_metrics(handle, call.metrics_json.encode())
    if code:
        check(code, "report")


def commit(handle: ctypes.c_void_p, call: ReportCall, run_path: str) -> None:
    """Makes the report. Its files are staged for the agent. If it has no directory, another rank may report the files.
    Then removes the reported directory if the report owns it. Raises CheckpointUploadError, Stopped and other errors of
    the worker library.
    """
    arguments = ReportArgs(call.metrics_json.encode())
    if call.directory is not None:
        arguments = ReportArgs(
            metrics_json=call.metrics_json.encode(),
            checkpoint_path=os.fsencode(call.directory),
            directory_name=None if call.directory_name is None else call.directory_name.encode(),
            owned=2 if call.may_remove_directory(run_path) else int(call.owned),
            upload=_UPLOADS[call.upload],
        )
    code = int(library().rtw_report(handle, ctypes.byref(arguments)))
    if code:
        check(code, "report")
    if call.left_over is not None:
        call.left_over.remove()
