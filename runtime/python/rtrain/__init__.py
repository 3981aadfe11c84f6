"""rtrain: train PyTorch models on many machines. `rtrain.train` is what a training script uses.

Submodules are loaded when they are first named, so that `import rtrain` is quick and imports neither PyTorch nor NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rtrain import data as data
    from rtrain import train, tune
    from rtrain._remote._api import kill, remote
    from rtrain._remote._refs import ObjectRef, get, put, wait
    from rtrain._where import init, is_initialized, shutdown

__version__ = "0.1.0"
__all__ = [
    "ObjectRef",
    "__version__",
    "get",
    "init",
    "is_initialized",
    "kill",
    "put",
    "remote",
    "shutdown",
    "train",
    "tune",
    "wait",
]

_MODULES = ("train", "data", "tune", "integrations", "exceptions")
_NAMES: dict[str, str] = {  # a public name of the package and the module that has it
    "ObjectRef": "rtrain._remote._refs",
    "get": "rtrain._remote._refs",
    "init": "rtrain._where",
    "kill": "rtrain._remote._api",
    "put": "rtrain._remote._refs",
    "remote": "rtrain._remote._api",
    "wait": "rtrain._remote._refs",
    "is_initialized": "rtrain._where",
    "shutdown": "rtrain._where",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    if name in _MODULES:
        try:
            return import_module(f"rtrain.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"rtrain.{name}":
                raise
    raise AttributeError(f"module 'rtrain' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES, *__all__})
