"""Types as users meet them: the package is strict, the examples pass, and mistakes are found by both checkers."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "runtime" / "python"
HERE = pathlib.Path(__file__).parent
MISTAKES = HERE / "mistakes.py"
sys.path.insert(0, str(PACKAGE))

from rtrain import _argument_types, _arguments  # noqa: E402
from rtrain._remote._options import Options  # noqa: E402
from rtrain.train._driver import _restore  # noqa: E402


def mypy(*arguments: object, folder: pathlib.Path = ROOT) -> tuple[int, str]:
    cache = os.environ.get("RTRAIN_MYPY_CACHE", str(ROOT / ".mypy_cache"))
    command = [sys.executable, "-m", "mypy", "--cache-dir", cache, "--no-error-summary", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def pyright() -> dict:
    """Its report on the examples and on the mistakes: one run, since most of its time is for the libraries that both import."""
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    # The folders that `pyright` checks without arguments.
    assert 'include = ["examples"]' in (ROOT / "pyproject.toml").read_text()
    command = [sys.executable, "-m", "pyright", "--outputjson", "examples", str(MISTAKES)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return json.loads(done.stdout)


def wrong_lines() -> list[int]:
    return [number for number, line in enumerate(MISTAKES.read_text().splitlines(), 1) if line.endswith("  # wrong")]


def test_the_package_passes_mypy_strict():
    code, text = mypy(folder=PACKAGE)
    assert code == 0, text


def test_the_examples_pass_mypy_strict():
    code, text = mypy(*sorted(ROOT.glob("examples/*/*.py")))
    assert code == 0, text


def test_the_examples_pass_pyright(pyright):
    assert pyright["summary"]["filesAnalyzed"] >= 13 + 1  # the mistakes
    assert [one for one in pyright["generalDiagnostics"] if pathlib.Path(one["file"]) != MISTAKES] == []


def test_mypy_finds_each_mistake():
    code, text = mypy(MISTAKES)
    lines = {int(line.split(":")[1]) for line in text.splitlines() if ": error: " in line}
    assert code == 1 and sorted(lines) == wrong_lines(), text


def test_pyright_finds_each_mistake(pyright):
    diagnostics = [one for one in pyright["generalDiagnostics"] if pathlib.Path(one["file"]) == MISTAKES]
    lines = {one["range"]["start"]["line"] + 1 for one in diagnostics if one["severity"] == "error"}
    assert sorted(lines) == wrong_lines(), diagnostics


@pytest.mark.parametrize("package", ["rtrain", "rtrain.train", "rtrain.tune"])
def test_each_public_import_of_a_package_loads_and_is_in_all(package):
    module = importlib.import_module(package)
    imports = [node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.ImportFrom)]
    lazy_modules = {alias.name for node in imports if node.module == package and node.col_offset for alias in node.names}
    public = {alias.asname for node in imports for alias in node.names if alias.asname} - lazy_modules
    assert len(public) > 5 and public <= set(module.__all__)
    assert {*public, *lazy_modules} <= set(dir(module))
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_a_lazy_submodule_that_fails_to_import_says_why(tmp_path, monkeypatch):
    (tmp_path / "lazy_one").mkdir()
    (tmp_path / "lazy_one/broken.py").write_text("import a_module_that_nobody_has")
    (tmp_path / "lazy_one/__init__.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "from rtrain._lazy import lazy_names\n"
        "if TYPE_CHECKING:\n    from lazy_one import broken as broken, missing as missing\n"
        "else:\n    __getattr__, __dir__, __all__ = lazy_names(__name__)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    lazy_one = importlib.import_module("lazy_one")
    assert lazy_one.__all__ == []
    with pytest.raises(ModuleNotFoundError, match="a_module_that_nobody_has"):
        _ = lazy_one.broken
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        _ = lazy_one.missing


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        (_argument_types.OperationArguments, set(_arguments.OPERATIONS)),
        (_argument_types.ReaderArguments, set(_arguments.READERS)),
        (_argument_types.WriterArguments, {*_arguments.WRITERS, "min_rows_per_file", "max_rows_per_file"}),
        (_argument_types.InitArguments, set(_arguments.INIT)),
        (_argument_types.ReporterArguments, set(_arguments.REPORTER)),
        (_argument_types.RemoteArguments, {*_arguments.REMOTE, *(field.name for field in dataclasses.fields(Options))}),
        (_argument_types.RestoreArguments, set(_restore._OVERRIDES)),
    ],
)
def test_the_types_of_arguments_have_the_names_of_the_tables(typed, names):
    assert set(typed.__annotations__) == names
