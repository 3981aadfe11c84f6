"""Lets pickles name a public class by the package from which users import it, so that the private module may change.

`__module__` stays the private module, which typing.get_type_hints and inspect.getsource need. rtrain writes its own pickles
by `dumps`. In pickles by others, instances of public classes have the public name too, through copyreg; the classes do not.
"""

from __future__ import annotations

import copyreg
import functools
import importlib
import io
import pkgutil
import sys
import types
from collections.abc import Callable
from typing import Any

_PROTOCOL = 4  # the protocol of `__reduce_ex__` for instances
_public_names: dict[type, str] = {}


def register(package: str, member: type) -> None:
    """Declares that users import the class from `package`."""
    _public_names[member] = f"{package}:{member.__qualname__}"
    copyreg.pickle(member, _reduced)


def dumps(value: Any, protocol: int | None = None, buffer_callback: Callable[[Any], Any] | None = None) -> bytes:
    """Pickles like cloudpickle.dumps, with the public names of rtrain's classes. Plain pickle can read the result."""
    with io.BytesIO() as out:
        pickler()(out, protocol=protocol, buffer_callback=buffer_callback).dump(value)
        return out.getvalue()


@functools.cache
def pickler() -> Any:
    """Returns the class that `dumps` uses. cloudpickle is imported only here."""
    import cloudpickle  # type: ignore[import-untyped,unused-ignore]

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, types.CodeType):
                return _with_file_name(self.dispatch_table[types.CodeType](obj), obj.co_filename)
            if _is_special_module(obj):
                return importlib.import_module, (obj.__name__,)
            if isinstance(obj, type) and obj in _public_names:
                return pkgutil.resolve_name, (_public_names[obj],)
            if type(obj) in _public_names:
                return obj.__reduce_ex__(_PROTOCOL)
            return super().reducer_override(obj)

    return Pickler


def _is_special_module(value: Any) -> bool:
    """Returns whether the value is an imported module of a class of its own, such as `torch.ops`, which cloudpickle cannot
    pickle. cloudpickle sends it with each function that has the global `torch` and mentions a name `ops`.
    """
    is_module = isinstance(value, types.ModuleType) and type(value) is not types.ModuleType
    return is_module and sys.modules.get(value.__name__) is value


def _with_file_name(reduction: Any, file_name: str) -> Any:
    """Restores the file name of code that is pickled by value, for which cloudpickle (since 3.1.3) writes "<dynamic-code>".
    Tracebacks of a loop then name the user's file.
    """
    constructor, arguments, *state = reduction
    return constructor, tuple(file_name if argument == "<dynamic-code>" else argument for argument in arguments), *state


class _Named:
    """Stands for a class: pickled and copied, it is the class of that public name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> Any:
        return pkgutil.resolve_name, (self.name,)


def _reduced(value: Any) -> Any:
    """Returns the class's reduction of `value`, with public names for classes."""
    reduction = value.__reduce_ex__(_PROTOCOL)
    if isinstance(reduction, str):
        return reduction
    constructor, arguments, *state = reduction
    return _call, tuple(_named(part) for part in (constructor, *arguments)), *state


def _named(part: Any) -> Any:
    return _Named(_public_names[part]) if isinstance(part, type) and part in _public_names else part


def _call(*parts: Any) -> Any:
    """Makes the object from its parts; copy.copy passes them without names."""
    constructor, *arguments = [pkgutil.resolve_name(part.name) if isinstance(part, _Named) else part for part in parts]
    return constructor(*arguments)
