"""A temporary directory for one pytest run, in which rtrain must leave no files."""

import os
import pathlib
import shutil
import sys
import tempfile

import pytest

KEPT = (f"rtrain-checkpoints-{os.getuid()}",)  # copies of checkpoints that a user's processes share; the files are locks


def left_in(folder):
    """Returns the files of rtrain programs in the directory, including hidden ones."""
    names = (path.name for path in pathlib.Path(folder).iterdir())
    return sorted(name for name in names if name.lstrip(".").startswith("rtrain") and name not in KEPT)


@pytest.fixture(scope="session", autouse=True)
def own_temporary_folder(tmp_path_factory):
    """Gives this process and its children a new temporary directory. Fails at the end if rtrain files are left in it."""
    tmp_path_factory.getbasetemp()  # is created before TMPDIR changes, as people look there after a failure
    folder = tempfile.mkdtemp(prefix="rt-", dir="/tmp")  # a short path, since sockets may be created below it
    os.chmod(folder, 0o1777)  # mode of /tmp, since jobs of other users need access
    before = os.environ.get("TMPDIR"), tempfile.tempdir
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    yield folder
    tempfile.tempdir = before[1]
    os.environ.pop("TMPDIR")
    if before[0] is not None:
        os.environ["TMPDIR"] = before[0]
    if own_folders := sys.modules.get("rtrain._own_folders"):
        own_folders.remove_all()  # removes the directories of objects that live until the interpreter ends
    left = left_in(folder)
    shutil.rmtree(folder, ignore_errors=True)
    assert left == [], f"left in the temporary directory: {', '.join(left)}"
