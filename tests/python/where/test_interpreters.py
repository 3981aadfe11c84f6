"""The other supported CPython versions that this machine has, with the package's requirements alone, without torch."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from homes import PACKAGE, Home, finish
from rtrain import _requirements

SCRIPT = """
    import importlib, pkgutil, sys
    import rtrain
    from rtrain import train, tune
    from rtrain.train import Checkpoint, DataParallelTrainer, ScalingConfig

    broken = []
    for module in pkgutil.walk_packages(rtrain.__path__, "rtrain."):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if error.name.startswith("rtrain"):
                broken.append(module.name)

    def loop(config):
        train.report({"rank": train.get_context().get_world_rank()}, Checkpoint.from_dict({"x": config["x"]}))
        return sys.version_info[:2]

    rtrain.init(num_cpus=2)
    results = [
        DataParallelTrainer(loop, train_loop_config={"x": 3}, scaling_config=ScalingConfig(num_workers=workers)).fit()
        for workers in (2, 0)
    ]
    number = rtrain.get(rtrain.remote(lambda x: x + 1).remote(4))
    def trial(config):
        yield {"x": config["x"]}

    grid = tune.Tuner(trial, param_space={"x": tune.grid_search([7, 6])}, run_config=tune.RunConfig(verbose=0)).fit()
    number += grid.get_best_result("x", "min").metrics["x"]
    print(broken, results[0].return_value, [one.checkpoint.to_dict()["x"] for one in results], number)
"""


def interpreter(version: str) -> str | None:
    # One folder may hold several versions.
    beside = pathlib.Path(sys.base_prefix).parent.glob(f"{version}*/bin/python{version}")
    for candidate in (shutil.which(f"python{version}"), *map(str, beside)):
        if candidate and subprocess.run([candidate, "-c", "import ssl, ctypes"], capture_output=True).returncode == 0:
            return candidate
    return None


def requirements() -> list[str]:
    """Returns the requirements of runtime/python/pyproject.toml, with their versions."""
    listed = re.search(r"\ndependencies = \[(.*?)\n\]", (PACKAGE / "pyproject.toml").read_text(), re.DOTALL)
    assert listed
    return re.findall(r'"([^"]+)"', listed[1])


def with_requirements(python: str, folder: pathlib.Path) -> None:
    """Installs the requirements into the folder. Links those of the running environment that the interpreter can
    load. pip installs the others, which are built for one version (zstandard).
    """
    folder.mkdir()
    module_of = {package: module for module, package in _requirements.REQUIRED.items()}
    missing = []
    for wanted in requirements():
        module = module_of[re.split(r"[^\w-]", wanted)[0]]
        spec = importlib.util.find_spec(module)
        assert spec is not None and spec.origin is not None, f"{wanted} is not installed here"
        (folder / module).symlink_to(pathlib.Path(spec.origin).parent)
        load = [python, "-c", f"import {module}"]
        if subprocess.run(load, env={"PYTHONPATH": str(folder)}, capture_output=True, timeout=60, check=False).returncode != 0:
            (folder / module).unlink()
            missing.append(wanted)
    if missing:
        install = [
            python,
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
            "--no-deps",
            "--target",
            str(folder),
            *missing,
        ]
        try:
            done = subprocess.run(install, capture_output=True, text=True, timeout=200, check=False)
        except subprocess.TimeoutExpired:
            pytest.fail(f"`{' '.join(install)}` did not end in 200 s")
        assert done.returncode == 0, f"`{' '.join(install)}` failed:\n{done.stderr}"


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_trainings_and_calls_run_with_it(home: Home, version: str) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} on this machine")
    with_requirements(python, home.folder / "packages")
    (home.folder / "project").mkdir()
    (home.folder / "project" / "driver.py").write_text("\n".join(line[4:] for line in SCRIPT.splitlines()))
    paths = os.pathsep.join([str(PACKAGE), str(home.folder / "packages")])
    out = finish(home.run([python, str(home.folder / "project" / "driver.py")], PYTHONPATH=paths))
    assert out.splitlines()[-1] == f"[] ({version.replace('.', ', ')}) [3, 3] 11"
