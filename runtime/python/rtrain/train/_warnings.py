"""Says once per process what an older shape of a call means here."""

from __future__ import annotations

import sys
import warnings

_said: set[str] = set()


def once(key: str, message: str) -> None:
    if key not in _said:
        _said.add(key)
        warnings.warn(message, DeprecationWarning, stacklevel=4)
        print(f"rtrain: {message}", file=sys.stderr)
