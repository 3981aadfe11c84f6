"""Finds the modules beside a driver script. Workers call this too, so it imports nothing that only drivers need."""

from __future__ import annotations

import functools
import os
import pathlib
import sys
from types import ModuleType

_LIBRARY = os.path.dirname(os.__file__) + "/"  # noqa: PTH120


def own_modules() -> list[ModuleType]:
    """Returns the modules that lie beside the driver script: workers elsewhere need not have them."""
    return [module for module in list(sys.modules.values()) if _lies_beside_driver(module)]


def _lies_beside_driver(module: ModuleType) -> bool:
    file, name = getattr(module, "__file__", None), getattr(module, "__name__", "")
    if not isinstance(file, str) or name == "__main__" or not sys.path or sys.modules.get(name) is not module:
        return False
    if name.startswith("rtrain") or file.startswith(_LIBRARY) or "/site-packages/" in file:
        return False  # avoids disk accesses, as a forked worker has two thousand such modules
    return _is_beside(file, sys.path[0] or ".")


@functools.cache
def _is_beside(file: str, folder: str) -> bool:
    place, driver = pathlib.Path(file).resolve(), pathlib.Path(folder).resolve()
    if not place.is_relative_to(driver) or "site-packages" in place.parts:
        return False
    below = place.parents[: len(place.relative_to(driver).parts) - 1]
    return not any(_holds_installed(directory) for directory in below)


@functools.cache
def _holds_installed(folder: pathlib.Path) -> bool:
    """Returns true if packages were installed into the folder, for example by `pip install --target`."""
    return any(folder.glob("*.dist-info"))
