"""Fixtures that several system tests share."""

import os
import pathlib
import shutil
import sys
import tempfile

import pytest
from left_behind import own_temporary_folder  # noqa: F401  # holds for every test below this folder

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "s3"))
from started import SERVERS


def serving(kind, monkeypatch):
    """Starts an object store. The environment names it as the only endpoint and its key as the only credentials."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "GS_", "GOOGLE_", "STORAGE_EMULATOR_", "AZURE_"))]:
        monkeypatch.delenv(name)
    server = SERVERS[kind]()
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    yield server
    server.stop()


@pytest.fixture
def folder():
    """Makes a folder that other users may enter, unlike pytest's own."""
    made = pathlib.Path(tempfile.mkdtemp(prefix="rtrain-users-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def s3(monkeypatch):
    yield from serving("s3", monkeypatch)


@pytest.fixture(params=SERVERS)
def bucket(request, monkeypatch):
    """Starts an object store of each kind in turn."""
    yield from serving(request.param, monkeypatch)
