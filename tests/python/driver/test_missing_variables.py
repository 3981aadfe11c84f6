"""The warning about variables that a script reads and its workers will not have."""

from __future__ import annotations

import pathlib
import sys
import types

import pytest
from rtrain.train._driver import _missing_variables
from rtrain.train._driver._missing_variables import names_read


def test_names_that_are_read_by_a_literal_are_found() -> None:
    source = """
import os
from os import environ, getenv
a = os.environ["SUBSCRIPT"]
b = os.environ.get("GET", "default")
c = os.getenv("GETENV")
d = environ["BARE"], environ.get("BARE_GET"), getenv("BARE_GETENV")
os.environ["WRITTEN"] = "x"
del os.environ["DELETED"]
name = "DYNAMIC"
e = os.environ[name], os.environ.get(name), {}.get("OTHER"), os.environ.get()
"""
    assert names_read(source) == {"SUBSCRIPT", "GET", "GETENV", "BARE", "BARE_GET", "BARE_GETENV"}
    assert names_read("this is no Python") == names_read("\0") == set()


@pytest.fixture
def script(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Makes a file the main script of this process, and a module beside it."""
    file = tmp_path / "train.py"
    main = types.ModuleType("__main__")
    main.__file__ = str(file)
    (tmp_path / "reads_more.py").write_text('import os\nvalue = os.getenv("OF_A_MODULE")\n')
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(_missing_variables, "_named", set())
    monkeypatch.delenv("RTRAIN_RUN_ID", raising=False)
    monkeypatch.delitem(sys.modules, "reads_more", raising=False)
    return file


def test_each_variable_that_is_set_here_and_not_in_the_job_is_named_once(
    script: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("SENT", "SECRET", "MISSING", "UNSET", "HOME", "RANK")
    script.write_text("import os, reads_more\n" + "".join(f'os.environ.get("{name}")\n' for name in names))
    for name in ("SENT", "SECRET", "MISSING", "HOME", "RANK", "OF_A_MODULE"):
        monkeypatch.setenv(name, "a value that no warning shows")
    job = {"env": {"SENT": "1"}, "secrets": ["SECRET"]}
    text = _missing_variables.hint(job)
    assert text.startswith("this program reads MISSING, set here and not in the job: workers have it only if")
    assert 'RunConfig(secrets=["MISSING"])' in text and "a value that" not in text
    __import__("reads_more")
    assert _missing_variables.hint(job).startswith("this program reads OF_A_MODULE,")
    assert _missing_variables.hint(job) == ""


def test_a_process_of_a_run_gets_no_warning(script: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script.write_text('import os\nos.environ["MISSING"]\n')
    monkeypatch.setenv("MISSING", "1")
    monkeypatch.setenv("RTRAIN_RUN_ID", "c0ffee-1")
    assert _missing_variables.hint({}) == ""


def test_a_script_that_cannot_be_read_gives_no_warning(script: pathlib.Path) -> None:
    assert not script.exists() and _missing_variables.hint({}) == ""
