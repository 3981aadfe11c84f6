"""`log_once`: true the first time."""

from __future__ import annotations

from rtrain._lazy import public_in

_seen: set[str] = set()


def log_once(key: str) -> bool:
    """Returns true the first time that this process calls it with the key, and false after that."""
    if key in _seen:
        return False
    _seen.add(key)
    return True


public_in("rtrain.util", log_once)
