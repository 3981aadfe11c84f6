"""Tools that look into classes find what they look for: the types of the fields, and the source."""

from __future__ import annotations

import inspect
import pathlib
import sys
import typing

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "runtime" / "python"), str(ROOT / "tests" / "python")]

from public_modules import imported, public_modules  # noqa: E402


def public_classes(name: str) -> list[type]:
    """Returns the module's classes that belong to rtrain and have a source. A refused name is a generated class
    without one.
    """
    module = imported(name)
    members = [getattr(module, one) for one in module.__all__]
    ours = [one for one in members if isinstance(one, type) and one.__module__.startswith("rtrain")]
    return [one for one in ours if not (one.__doc__ or "").startswith("Not in rtrain: ")]


@pytest.mark.parametrize("name", public_modules())
def test_types_of_public_classes_are_found(name) -> None:
    for member in public_classes(name):
        assert isinstance(typing.get_type_hints(member), dict), member


@pytest.mark.parametrize("name", public_modules())
def test_sources_of_public_classes_are_found(name) -> None:
    for member in public_classes(name):
        assert inspect.getsource(member).lstrip("@").partition("\n")[0], member
        assert f"class {member.__name__}" in inspect.getsource(member)
