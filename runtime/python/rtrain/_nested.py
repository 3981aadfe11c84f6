"""Flattens nested dicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def flatten(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Names joined by a slash: {"val": {"loss": 1}} is {"val/loss": 1}. An empty dict stays a value."""
    level: dict[str, Any] = {}
    for name, value in nested.items():
        if isinstance(value, Mapping) and value:
            level.update(flatten(value, f"{prefix}{name}/"))
        else:
            level[f"{prefix}{name}"] = value
    return level
