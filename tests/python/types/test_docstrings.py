"""Every public name has a docstring. scripts/docs makes the reference of these docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import pathlib
import sys
import types
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "runtime" / "python"), str(ROOT / "tests" / "python")]

from public_modules import imported, public_modules  # noqa: E402


def without_docstring(module: types.ModuleType) -> Iterator[str]:
    """Yields the names of the module and of its public classes that lack a docstring. Also yields a module without
    `__all__`, since its names would not be checked.
    """
    if not module.__doc__:
        yield module.__name__
    if not hasattr(module, "__all__"):
        yield f"{module.__name__}.__all__"
    for name in getattr(module, "__all__", []):
        member = getattr(module, name)
        if isinstance(member, type | types.FunctionType) and str(member.__module__).startswith("rtrain"):
            if not own_docstring(member):
                yield f"{module.__name__}.{name}"
            yield from (f"{module.__name__}.{name}.{inner}" for inner in silent_members(member))


def own_docstring(member: object) -> bool:
    text = vars(member).get("__doc__") if isinstance(member, type) else member.__doc__
    made_up = isinstance(member, type) and dataclasses.is_dataclass(member) and str(text).startswith(f"{member.__name__}(")
    return bool(text) and not made_up


def silent_members(kind: type | types.FunctionType) -> Iterator[str]:
    """Yields the members without a docstring. Members inherited from another class of the package count, since that
    class may be private.
    """
    bases = [base for base in kind.__mro__ if base.__module__.startswith("rtrain")] if isinstance(kind, type) else []
    for name, member in {name: member for base in reversed(bases) for name, member in vars(base).items()}.items():
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        written = isinstance(function, types.FunctionType) and function.__module__.startswith("rtrain")
        described = member if isinstance(member, property) else getattr(kind, name)
        if written and not name.startswith("_") and not inspect.getdoc(described):
            yield name


@pytest.mark.parametrize("name", public_modules())
def test_every_public_name_has_a_docstring(name) -> None:
    assert list(without_docstring(imported(name))) == []


def test_a_name_that_says_nothing_is_found() -> None:
    source = '''
from dataclasses import dataclass
__all__ = ["f", "C", "D"]
def f(): ...
class Private:
    def inherited(self): ...
@dataclass
class C(Private):
    """Is documented."""
    def said(self):
        """So is this."""
    def silent(self): ...
    @property
    def quiet(self): ...
    def _own(self): ...
@dataclass
class D:
    x: int
class E: ...
'''
    module = types.ModuleType("rtrain.planted")
    sys.modules["rtrain.planted"] = module
    try:
        exec(source, vars(module))
        missing = list(without_docstring(module))
    finally:
        del sys.modules["rtrain.planted"]
    planted = "rtrain.planted"
    assert missing == [planted, *(f"{planted}.{name}" for name in ("f", "C.inherited", "C.silent", "C.quiet", "D"))]


def test_a_module_that_does_not_say_what_is_public_is_found() -> None:
    module = types.ModuleType("rtrain.planted", "Is documented.")
    assert list(without_docstring(module)) == ["rtrain.planted.__all__"]
