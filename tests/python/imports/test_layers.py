"""The imports of the package follow its layers, and no two modules import each other. pyproject.toml defines the
layers, import-linter finds breaches.
"""

import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "runtime" / "python"
UPWARD = "from rtrain.train._driver import _follower\n"
CIRCLE = "from rtrain.data import _dataset\n"
LINTER = pathlib.Path(sys.executable).parent / "lint-imports"

# scripts/versions tests other releases of Python without the tools of `scripts/check`.
pytestmark = pytest.mark.skipif(not LINTER.exists(), reason="import-linter is not installed beside this Python")


def linted(package):
    command = [LINTER, "--no-logo", "--no-cache"]
    return subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": str(package)}, capture_output=True, text=True)


def test_the_package_keeps_the_layers():
    done = linted(PACKAGE)
    assert done.returncode == 0 and "2 kept, 0 broken" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "planted", "breach"),
    [
        ("train/_values/_names.py", UPWARD, "rtrain.train._values is not allowed to import rtrain.train._driver"),
        (
            "train/_session/_gather.py",
            f"def f():\n    {UPWARD}",
            "rtrain.train._session is not allowed to import rtrain.train._driver",
        ),
        (
            "train/_report/_commit.py",
            f"if TYPE_CHECKING:\n    {UPWARD}",
            "rtrain.train._report is not allowed to import rtrain.train._driver",
        ),
        ("data/_grouped.py", CIRCLE, "No cycles are allowed in rtrain.data."),
        ("data/_grouped.py", f"if TYPE_CHECKING:\n    {CIRCLE}", "No cycles are allowed in rtrain.data."),
        ("train/_new.py", "", "rtrain.train._new"),  # a module that belongs to no layer
    ],
)
def test_a_planted_breach_is_found(tmp_path, module, planted, breach):
    shutil.copytree(PACKAGE / "rtrain", tmp_path / "rtrain", ignore=shutil.ignore_patterns("__pycache__", "_lib"))
    with (tmp_path / "rtrain" / module).open("a") as file:
        file.write(planted)
    done = linted(tmp_path)
    assert done.returncode == 1 and breach in done.stdout, done.stdout + done.stderr


LAYERS_OF_A_REPORT = """
import pathlib, sys
import rtrain.train as t

made = pathlib.Path(sys.argv[1])
made.mkdir()
(made / "weights").write_text("w")
t.report({"loss": 0.5}, checkpoint=made)  # the first one reads settings and makes trackers
package = str(pathlib.Path(t.__file__).parent) + "/"
layers, entered = [], []

def note(frame, event, _argument):
    file = frame.f_code.co_filename
    if event == "call":
        layer = file.removeprefix(package).partition("/")[0] if file.startswith(package) else layers[-1] if layers else ""
        if layers and layer != layers[-1]:
            entered.append(layer)
        layers.append(layer)
    elif event == "return" and layers:
        layers.pop()

sys.setprofile(note)
t.report({"loss": 0.5}, checkpoint=made)
sys.setprofile(None)
print(*entered)
"""


def test_a_report_enters_each_layer_once(agent, start, tmp_path):
    """_values is entered twice, for the metrics and for the path; _session twice, to find the session and to report."""
    program = tmp_path / "program.py"
    program.write_text(LAYERS_OF_A_REPORT.replace("sys.argv[1]", repr(str(tmp_path / "made"))))
    layers = "_values _values _session _session _report _worker _run_directory _workers"
    assert start(program).finish() == f"{layers}\n"
