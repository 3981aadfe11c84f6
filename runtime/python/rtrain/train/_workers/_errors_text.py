"""A worker's exception as text: the deepest frame of the user's files first, the frames of rtrain and of installed
packages folded."""

from __future__ import annotations

import os
import pathlib
import sys
import traceback

_OURS = str(pathlib.Path(__file__).absolute().parents[2])


def describe(error: BaseException) -> str:
    """`ValueError: boom`, where it was raised in the user's files, and the folded traceback."""
    chain = [error]
    while (before := chain[-1].__cause__ or (None if chain[-1].__suppress_context__ else chain[-1].__context__)) is not None:
        if before in chain:
            break
        chain.append(before)
    lines = _summary(error)
    deepest = next((frame for chained_error in chain for frame in reversed(_frames(chained_error)) if is_users(frame)), None)
    if deepest is not None:
        code = f": {deepest.line}" if deepest.line else ""
        lines.append(f"  at {_short(deepest.filename)}:{deepest.lineno}, in {deepest.name}{code}")
    lines.append("Traceback (most recent call last):")
    for place, exception in enumerate(reversed(chain)):
        lines += _folded(exception)
        lines += _summary(exception)
        if place < len(chain) - 1:
            lines.append("which led to:")
    return "\n".join(lines)


def show(error: BaseException) -> None:
    """The whole traceback on stderr, nothing folded."""
    traceback.print_exception(type(error), error, error.__traceback__, file=sys.stderr)


def is_users(frame: traceback.FrameSummary) -> bool:
    file = frame.filename
    if file.startswith(_OURS + os.sep) or "site-packages" in file or "dist-packages" in file or file.startswith("<frozen"):
        return False
    return not file.startswith(os.path.dirname(os.__file__) + os.sep)  # noqa: PTH120


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    return list(traceback.extract_tb(error.__traceback__))


def _summary(error: BaseException) -> list[str]:
    return "".join(traceback.format_exception_only(type(error), error)).rstrip().splitlines()


def _short(file: str) -> str:
    """Relative to the code that was sent along, where it lies there."""
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
        lines.append(f'  File "{_short(frame.filename)}", line {frame.lineno}, in {frame.name}')
        if frame.line:
            lines.append(f"    {frame.line}")
    if hidden:
        lines.append(f"  ... {hidden} frames of libraries")
    return lines
