"""The modules that users may import, for tests that try every one of them."""

from __future__ import annotations

import importlib
import pathlib
import types

import pytest

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "runtime" / "python"


def public_modules() -> list[str]:
    """Returns all modules without a part that begins with an underscore."""
    names = []
    for file in sorted((PACKAGE / "rtrain").rglob("*.py")):
        parts = file.relative_to(PACKAGE).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if not any(part.startswith("_") for part in parts):
            names.append(".".join(parts))
    return names


def imported(name: str) -> types.ModuleType:
    """Imports the module. Skips the test if it needs an optional package, or if its error names a replacement."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        pytest.skip(str(error))
