"""A directory for temporary files of one pytest run, in which nothing of rtrain may be left at its end."""

import os
import pathlib
import shutil
import sys
import tempfile

import pytest

KEPT = (f"rtrain-checkpoints-{os.getuid()}",)  # copies that a user's processes share; its files are locks


def left_in(folder):
    """Returns what programs of rtrain have left in the directory, hidden files too."""
    names = (path.name for path in pathlib.Path(folder).iterdir())
    return sorted(name for name in names if name.lstrip(".").startswith("rtrain") and name not in KEPT)


@pytest.fixture(scope="session", autouse=True)
def own_temporary_folder(tmp_path_factory):
    """Gives this process and those that it starts a temporary directory of their own. Fails at the end if something is left there:
    who makes a temporary directory removes it."""
    tmp_path_factory.getbasetemp()  # stays where it is: people look there after a failure
    folder = tempfile.mkdtemp(prefix="rt-", dir="/tmp")  # a short name: sockets may lie below it
    os.chmod(folder, 0o1777)  # as /tmp: jobs of other users pass through
    before = os.environ.get("TMPDIR"), tempfile.tempdir
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    yield folder
    tempfile.tempdir = before[1]
    os.environ.pop("TMPDIR")
    if before[0] is not None:
        os.environ["TMPDIR"] = before[0]
    if own_folders := sys.modules.get("rtrain._own_folders"):
        own_folders.remove_all()  # objects of tests that are still alive: the interpreter's end would do it
    left = left_in(folder)
    shutil.rmtree(folder, ignore_errors=True)
    assert left == [], f"left in the temporary directory: {', '.join(left)}"
