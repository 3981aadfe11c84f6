"""The `rtrain` program that a process runs: the same for `python -m rtrain` and for a cluster that `fit()` starts."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import venv

import pytest
from conftest import PACKAGE

FOUND = "from rtrain._local_cluster import find_program; print(find_program())"


def program(file: pathlib.Path) -> pathlib.Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text('#!/bin/sh\necho "$0"\n')
    file.chmod(0o755)
    return file


def found_by(python: pathlib.Path, home: pathlib.Path, path: pathlib.Path, **more: str) -> set[str]:
    """Returns the programs that are found by each way."""
    environment = {"PYTHONPATH": str(PACKAGE), "HOME": str(home), "PATH": f"{path}:/usr/bin:/bin", **more}
    commands = ([python, "-c", FOUND], [python, "-m", "rtrain"])
    return {subprocess.run(one, env=environment, capture_output=True, text=True, check=True).stdout.strip() for one in commands}


@pytest.fixture
def python(tmp_path) -> pathlib.Path:
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    return tmp_path / "env" / "bin" / "python"


def test_the_program_that_was_installed_with_the_interpreter_comes_before_the_one_on_path(tmp_path, python) -> None:
    on_path = program(tmp_path / "other" / "rtrain")
    assert found_by(python, tmp_path, on_path.parent) == {str(on_path)}
    installed = program(tmp_path / "env" / "bin" / "rtrain")
    assert found_by(python, tmp_path, on_path.parent) == {str(installed)}
    named = program(tmp_path / "named")
    assert found_by(python, tmp_path, on_path.parent, RTRAIN_BINARY=str(named)) == {str(named)}


def test_a_program_in_the_users_own_folder_counts_where_its_packages_do(tmp_path, python) -> None:
    users = program(tmp_path / ".local" / "bin" / "rtrain")
    on_path = program(tmp_path / "other" / "rtrain")
    # An environment does not include the user's folder.
    assert found_by(python, tmp_path, on_path.parent) == {str(on_path)}
    base = pathlib.Path(os.path.realpath(sys.executable))
    enabled = subprocess.run(
        [base, "-c", "import site; print(site.ENABLE_USER_SITE)"], capture_output=True, text=True, check=True
    )
    if enabled.stdout.strip() != "True" or (base.parent / "rtrain").exists():
        pytest.skip("this Python has no packages of the user's own, or a program beside it")
    assert found_by(base, tmp_path, on_path.parent) == {str(users)}
    assert found_by(base, tmp_path, on_path.parent, PYTHONNOUSERSITE="1") == {str(on_path)}
