"""Types as users meet them: the package is strict, the examples pass, and mistakes are found by both checkers."""

from __future__ import annotations

import ast
import dataclasses
import importlib
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


@pytest.mark.parametrize("package", ["rtrain", "rtrain.train", "rtrain.tune", "rtrain.integrations", "rtrain.train.huggingface"])
def test_what_is_loaded_lazily_is_what_type_checkers_see(package):
    """The names imported under TYPE_CHECKING are those that the package loads at their first use."""
    module = importlib.import_module(package)
    tree = ast.parse(pathlib.Path(str(module.__file__)).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    typed = {alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    call = next(node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "lazy_names")
    table, modules = ast.literal_eval(call.args[1]), ast.literal_eval(call.keywords[0].value) if call.keywords else ()
    assert typed == {name for names in table.values() for name in names} | set(modules)
    assert typed <= set(dir(module))


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
