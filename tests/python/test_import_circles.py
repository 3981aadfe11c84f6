"""scripts/tidy's rule about circles among Python imports: planted ones are found, and the package has none."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from import_circles import circles  # noqa: E402

PLAIN = {"__init__.py": "", "a.py": "import p.b\n", "b.py": "", "sub/__init__.py": "", "sub/c.py": "from p import a\n"}


def circles_in(folder, files):
    for name, text in {**PLAIN, **files}.items():
        file = folder / "p" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return [(str(file.relative_to(folder)), line, path) for file, line, path in circles(folder, "p")]


@pytest.mark.parametrize(
    "planted",
    [
        "\nfrom p.sub import c\n",
        "\nfrom p.sub.c import name\n",
        "def f():\n    from p.sub import c\n",
        "import importlib\nc = importlib.import_module('p.sub.c')\n",
        "\nimport p.sub.c as c\n",
    ],
)
def test_a_planted_circle_is_found(tmp_path, planted):
    assert circles_in(tmp_path, {"b.py": planted}) == [("p/a.py", 1, ["p.a", "p.b", "p.sub.c", "p.a"])]


@pytest.mark.parametrize(
    "allowed",
    [
        "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from p.sub import c\n",
        "from q.sub import c\n",
        "text = 'from p.sub import c'\n",
    ],
)
def test_imports_for_type_checkers_and_of_others_are_no_circle(tmp_path, allowed):
    assert circles_in(tmp_path, {"b.py": allowed}) == []


def test_the_package_has_no_circle():
    assert list(circles(ROOT / "runtime" / "python", "rtrain")) == []


def test_importing_the_package_loads_nothing_heavy():
    """Neither what a dataset or a model needs, nor the client of the head with its TLS."""
    heavy = {"torch", "numpy", "pyarrow", "ssl", "http.client", "asyncio", "cloudpickle"}
    check = f"import sys; from rtrain import train, tune; sys.exit(', '.join({heavy} & set(sys.modules)) or 0)"
    done = subprocess.run(
        [sys.executable, "-c", check], env={"PYTHONPATH": str(ROOT / "runtime" / "python")}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
