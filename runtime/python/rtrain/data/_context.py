"""`DataContext`: options of reading. Options that only Ray Data has are stored, and a warning for each states that it has no
effect."""

from __future__ import annotations

import warnings
from typing import Any

from rtrain._lazy import public_in

_PREFETCH_BYTES = 256 << 20


class DataContext:
    """Options of the process that reads rows. Other options of Ray Data can be set and read, and have no effect.

    processes: the number of processes that carry out an operation's functions; 0: none. None, the default, lets rtrain choose.
    prefetch_bytes: the largest number of bytes of rows that are made before the loop requests them. Each iteration may always
    have one piece.
    """

    processes: int | None
    prefetch_bytes: int
    _current: DataContext | None = None

    def __init__(self) -> None:
        self.__dict__.update(processes=None, prefetch_bytes=_PREFETCH_BYTES)

    @classmethod
    def get_current(cls) -> DataContext:
        """Returns the DataContext of this process."""
        if cls._current is None:
            cls._current = cls()
        return cls._current

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("processes", "prefetch_bytes"):
            is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
            if not is_number and not (name == "processes" and value is None):
                raise ValueError(f"DataContext.{name} is {value!r}; it is a whole number from 0 on")
        elif name not in self.__dict__:
            warnings.warn(f"DataContext.{name} has no effect: rtrain.data reads in the process that asks for rows", stacklevel=2)
        self.__dict__[name] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(f"DataContext.{name} was not set; nothing in rtrain.data reads it")


public_in("rtrain.data", DataContext)
