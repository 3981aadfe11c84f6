"""Names of Ray Train that rtrain does not implement. They can be imported. Their constructors raise an error that
names the replacement.
"""

from __future__ import annotations

from typing import Any, NoReturn


class NotInRtrainError(NotImplementedError):
    """rtrain has no such trainer. The text names the way to run the same training."""


def refused(name: str, instead: str, module: str) -> type:
    """Returns a class with the name; its constructor raises NotInRtrainError."""

    def refuse(cls: type, *_arguments: Any, **_named: Any) -> NoReturn:
        raise NotInRtrainError(f"rtrain has no {name}: {instead}")

    body = {"__new__": refuse, "__module__": module, "__doc__": f"Not in rtrain: {instead}"}
    return type(name, (), body)


def refused_function(name: str, instead: str, module: str) -> Any:
    """Returns a function with the name; a call of it raises NotInRtrainError."""

    def function(*_arguments: Any, **_named: Any) -> NoReturn:
        raise NotInRtrainError(f"rtrain has no {name}: {instead}")

    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    function.__doc__ = f"Not in rtrain: {instead}"
    return function
