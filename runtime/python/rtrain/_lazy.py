"""Loads public names of a package at their first use, so that importing the package is quick, and registers the public
module of classes and functions.
"""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import sys
from collections.abc import Callable, Iterator
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


def lazy_names(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Returns the `__getattr__`, the `__dir__` and the `__all__` of a package, read from the imports in its source.

    The package imports each public name once, as `from module import name as name`: under `if TYPE_CHECKING:` if it is loaded at
    its first use, else outside. An import from the package itself under `if TYPE_CHECKING:` names a submodule, which is
    importable as an attribute and is not in `__all__`. A missing submodule raises AttributeError; an import error within a
    submodule is raised unchanged.
    """
    own_source = _source(package)
    lazy = {name: module for module, name in _public_imports(_checked_types(own_source))}
    eager = {name for module, name in _public_imports(own_source)}
    submodules = {name for name, module in lazy.items() if module == package}

    def load(name: str) -> object:
        if name in submodules:
            try:
                return importlib.import_module(f"{package}.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"{package}.{name}":
                    raise
        elif name in lazy:
            return getattr(importlib.import_module(lazy[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def listing() -> list[str]:
        """Returns the package's own attributes, public names and submodules, without its imports."""
        own = vars(sys.modules[package])
        loaded = (name for name in own if f"{package}.{name}" in sys.modules and not name.startswith("_"))
        special = (name for name in own if name.startswith("__"))
        return sorted({*special, *own.get("__all__", ()), *loaded, *lazy})

    return load, listing, sorted({*eager, *lazy} - submodules)


def _source(package: str) -> list[ast.stmt]:
    loader = sys.modules[package].__spec__.loader  # type: ignore[union-attr]  # a package that is being imported has a spec
    text = loader.get_source(package) if isinstance(loader, importlib.abc.InspectLoader) else None
    if text is None:
        raise ImportError(f"{package} needs its source: its public names are read from it. Install rtrain with its .py files")
    return ast.parse(text).body


def _checked_types(statements: list[ast.stmt]) -> list[ast.stmt]:
    """Returns the statements under `if TYPE_CHECKING:`."""
    blocks = (node for node in statements if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    return [statement for block in blocks for statement in block.body]


def _public_imports(statements: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yields module and name of each `from module import name as name`."""
    for node in statements:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names if alias.asname == alias.name)
