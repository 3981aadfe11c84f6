"""`DataContext`, which scripts set options of: they are kept and nothing reads them, which is said once for each."""

from __future__ import annotations

import warnings
from typing import Any

from rtrain._lazy import public_in


class DataContext:
    """Accepts Ray Data's options: any name can be set and read back. None changes anything here."""

    _current: DataContext | None = None

    @classmethod
    def get_current(cls) -> DataContext:
        """Returns the DataContext of this process."""
        if cls._current is None:
            cls._current = cls()
        return cls._current

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__dict__:
            warnings.warn(f"DataContext.{name} has no effect: rtrain.data reads in the process that asks for rows", stacklevel=2)
        self.__dict__[name] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(f"DataContext.{name} was not set; nothing in rtrain.data reads it")


public_in("rtrain.data", DataContext)
