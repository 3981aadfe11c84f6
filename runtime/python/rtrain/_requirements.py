"""The packages that rtrain requires, as in pyproject.toml. They are imported when needed; `check` looks for them before
anything is started.
"""

from __future__ import annotations

import importlib.util
import sys

REQUIRED = {"cloudpickle": "cloudpickle", "yaml": "pyyaml", "zstandard": "zstandard"}  # package by module


def check(*modules: str) -> None:
    """Raises ModuleNotFoundError, with the packages to install, if one of the modules is missing. Checks all required ones
    by default.
    """
    missing = [module for module in modules or REQUIRED if importlib.util.find_spec(module) is None]
    if missing:
        names = " ".join(REQUIRED[module] for module in missing)
        raise ModuleNotFoundError(f"rtrain needs {names}: {sys.executable} -m pip install {names}", name=missing[0])
