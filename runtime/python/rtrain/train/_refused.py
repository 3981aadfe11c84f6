"""Names of the incumbent that rtrain does not have: they can be imported, and making one says what to use instead."""

from __future__ import annotations

from typing import Any, NoReturn


class NotInRtrainError(NotImplementedError):
    """rtrain has no such trainer. The text names the way to run the same training."""


def refused(name: str, instead: str, module: str) -> type:
    """A class of that name whose construction raises NotInRtrainError."""

    def refuse(cls: type, *_arguments: Any, **_named: Any) -> NoReturn:
        raise NotInRtrainError(f"rtrain has no {name}: {instead}")

    body = {"__new__": refuse, "__module__": module, "__doc__": f"Not in rtrain: {instead}"}
    return type(name, (), body)


def refused_function(name: str, instead: str, module: str) -> Any:
    """A function of that name that raises NotInRtrainError when it is called."""

    def function(*_arguments: Any, **_named: Any) -> NoReturn:
        raise NotInRtrainError(f"rtrain has no {name}: {instead}")

    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    function.__doc__ = f"Not in rtrain: {instead}"
    return function
