"""The package's requirements are checked before anything is started, and equal those in pyproject.toml."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from conftest import PACKAGE
from rtrain import _requirements

FIT = """
import sys
sys.path.insert(0, {package!r})
sys.modules[{module!r}] = None  # as if it was not installed
import rtrain
from rtrain import train
from rtrain.train import DataParallelTrainer, ScalingConfig
started = []
rtrain._local_cluster.LocalCluster.start = classmethod(lambda *arguments, **named: started.append(1))
try:
    DataParallelTrainer(lambda: None, scaling_config=ScalingConfig(num_workers={workers})).fit()
except ModuleNotFoundError as error:
    print(error, started)
"""


def test_the_list_is_that_of_pyproject() -> None:
    text = (PACKAGE / "pyproject.toml").read_text()
    listed = re.search(r"\ndependencies = \[(.*?)\n\]", text, re.DOTALL)
    assert listed
    assert sorted(re.findall(r'"([\w-]+)', listed[1])) == sorted(_requirements.REQUIRED.values())


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("module", list(_requirements.REQUIRED))
def test_a_package_that_is_missing_is_named_before_a_cluster_is_started(tmp_path, module, workers) -> None:
    script = tmp_path / "driver.py"
    script.write_text(FIT.format(package=str(PACKAGE), module=module, workers=workers))
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    ran = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
    package = _requirements.REQUIRED[module]
    assert ran.stdout.strip() == f"rtrain needs {package}: {sys.executable} -m pip install {package} []", ran.stderr


def test_a_context_file_that_cannot_be_read_without_yaml_says_so(tmp_path, monkeypatch) -> None:
    from rtrain._settings import read_yaml

    monkeypatch.setitem(sys.modules, "yaml", None)
    assert read_yaml(tmp_path / "none.yaml") == {}
    (tmp_path / "config.yaml").write_text("current: a\n")
    with pytest.raises(ModuleNotFoundError, match="rtrain needs pyyaml: "):
        read_yaml(tmp_path / "config.yaml")
