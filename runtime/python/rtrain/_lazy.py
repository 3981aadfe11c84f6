"""Loads public names of a package at their first use, so that importing the package is quick, and registers the public
module of classes and functions.

A package that uses this has the same imports under `if TYPE_CHECKING:` for type checkers and editors;
tests/python/types/test_types.py compares the two lists.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rtrain import _public_names


def public_in(package: str, *members: Any) -> None:
    """Declares that users import these classes and functions from `package`. Pickles then name that package, so that the
    private module that defines them may change. Functions get another `__module__`; classes are registered in
    `_public_names`.
    """
    for member in members:
        if isinstance(member, type):
            _public_names.register(package, member)
        else:
            member.__module__ = package


def lazy_names(
    package: str, names: Mapping[str, Iterable[str]], modules: Iterable[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Returns the `__getattr__`, the `__dir__` and the sorted lazy names of a package.

    names: public names by the module that defines them. modules: submodules that are importable as attributes. A missing
    submodule raises AttributeError; an import error within a submodule is raised unchanged.
    """
    module_of = {name: module for module, public in names.items() for name in public}
    submodules = frozenset(modules)

    def load(name: str) -> object:
        if name in module_of:
            return getattr(importlib.import_module(module_of[name]), name)
        if name in submodules:
            try:
                return importlib.import_module(f"{package}.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"{package}.{name}":
                    raise
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def listing() -> list[str]:
        """Returns the package's own attributes, public names and submodules, without its imports."""
        own = vars(sys.modules[package])
        loaded = (name for name in own if f"{package}.{name}" in sys.modules and not name.startswith("_"))
        special = (name for name in own if name.startswith("__"))
        return sorted({*special, *own.get("__all__", ()), *loaded, *module_of, *submodules})

    return load, listing, sorted(module_of)
