"""Describes a worker's exception as text. The deepest frame in the user's files comes first. Frames of rtrain and of
installed packages are folded.
"""

from __future__ import annotations

import os
import pathlib
import sys
import traceback
from types import TracebackType

from rtrain import _exception_pickle

_TRACEBACK = "Traceback (most recent call last):"
_GROUPED_MOST = 20
_OURS = str(pathlib.Path(__file__).absolute().parents[2])


def describe(error: BaseException) -> str:
    """Returns `ValueError: boom`, its place in the user's files, and the folded traceback.

    If making the text fails or takes too long, returns only the exception's class.
    """
    try:
        return _exception_pickle.within(lambda: _described(error))
    except _exception_pickle.NotCarried as why:
        lines = [type(error).__name__, f"  (its text cannot be shown: {why})", _TRACEBACK, *_folded(error)]
        return "\n".join(lines)


def _described(error: BaseException) -> str:
    chain = [error]
    while (before := chain[-1].__cause__ or (None if chain[-1].__suppress_context__ else chain[-1].__context__)) is not None:
        if before in chain:
            break
        chain.append(before)
    lines = _summary(error)
    deepest = next((frame for chained_error in chain for frame in reversed(_frames(chained_error)) if is_users(frame)), None)
    if deepest is not None:
        code = f": {deepest.line}" if deepest.line else ""
        lines.append(f"  at {short(deepest.filename)}:{deepest.lineno}, in {deepest.name}{code}")
    lines.append(_TRACEBACK)
    for place, exception in enumerate(reversed(chain)):
        lines += _folded(exception)
        lines += _summary(exception)
        lines += _grouped(exception)
        if place < len(chain) - 1:
            lines.append("which led to:")
    return "\n".join(lines)


def first_line(error: BaseException) -> str:
    """Returns the class and the first line of the text, as `rtrain runs` shows them."""
    return describe(error).partition("\n")[0]


def whole(error: BaseException, trace: TracebackType | None) -> str:
    """Returns Python's own text of `error`, unfolded, with the frames from `trace` on."""
    try:
        return _exception_pickle.within(lambda: "".join(traceback.format_exception(type(error), error, trace)))
    except _exception_pickle.NotCarried as why:
        frames = "".join(traceback.format_tb(trace))
        return f"{_TRACEBACK}\n{frames}{type(error).__name__}\n  (its text cannot be shown: {why})\n"


def show(error: BaseException) -> None:
    """Prints the whole traceback on stderr."""
    sys.stderr.write(whole(error, error.__traceback__))


def is_users(frame: traceback.FrameSummary) -> bool:
    file = frame.filename
    if file.startswith(_OURS + os.sep) or "site-packages" in file or "dist-packages" in file or file.startswith("<frozen"):
        return False
    return not file.startswith(os.path.dirname(os.__file__) + os.sep)  # noqa: PTH120


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    return list(traceback.extract_tb(error.__traceback__))


def _summary(error: BaseException) -> list[str]:
    """Returns the exception's class and text as lines. Before them are the lines that Python shows for a SyntaxError,
    after them the exception's notes.
    """
    lines = "".join(traceback.format_exception_only(type(error), error)).rstrip().splitlines()
    first = next((place for place, line in enumerate(lines) if not line.startswith(" ")), 0)
    return [lines[first], *lines[:first], *lines[first + 1 :]] if lines else [type(error).__name__]


def _grouped(error: BaseException) -> list[str]:
    """Returns the texts of the exceptions in a group, each with its frames, indented. Empty if `error` is not a group."""
    inner = getattr(error, "exceptions", ())
    if not isinstance(inner, tuple) or not all(isinstance(grouped, BaseException) for grouped in inner):
        return []
    lines: list[str] = []
    for number, grouped in enumerate(inner[:_GROUPED_MOST], start=1):
        lines.append(f"  {number} of {len(inner)}:")
        lines += [f"    {line}" for line in (*_folded(grouped), *_summary(grouped), *_grouped(grouped))]
    if len(inner) > _GROUPED_MOST:
        lines.append(f"  and {len(inner) - _GROUPED_MOST} more")
    return lines


def short(file: str) -> str:
    """Returns the path relative to the uploaded code, if the file belongs to it."""
    for top in (os.environ.get("RTRAIN_WORKING_DIR"), os.environ.get("RTRAIN_START_DIR"), os.getcwd()):  # noqa: PTH109
        if top and file.startswith(top + os.sep):
            return file[len(top) + 1 :]
    return file


def _folded(error: BaseException) -> list[str]:
    lines: list[str] = []
    hidden = 0
    for frame in _frames(error):
        if not is_users(frame):
            hidden += 1
            continue
        if hidden:
            lines.append(f"  ... {hidden} frames of libraries")
            hidden = 0
        lines.append(f'  File "{short(frame.filename)}", line {frame.lineno}, in {frame.name}')
        if frame.line:
            lines.append(f"    {frame.line}")
    if hidden:
        lines.append(f"  ... {hidden} frames of libraries")
    return lines
