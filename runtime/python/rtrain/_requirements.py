"""The packages that this one cannot do without, as pyproject.toml names them. They are loaded when they are needed; whether they are
there is looked at before anything is started."""

from __future__ import annotations

import importlib.util
import sys

REQUIRED = {"cloudpickle": "cloudpickle", "yaml": "pyyaml", "zstandard": "zstandard"}  # the package by its module


def check(*modules: str) -> None:
    """ModuleNotFoundError, with what to install, where one of these is missing; of all, where none is named."""
    missing = [module for module in modules or REQUIRED if importlib.util.find_spec(module) is None]
    if missing:
        names = " ".join(REQUIRED[module] for module in missing)
        raise ModuleNotFoundError(f"rtrain needs {names}: {sys.executable} -m pip install {names}", name=missing[0])
