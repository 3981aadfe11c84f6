"""Makes a text of the loop's config, by which the page compares runs. Workers do not read it."""

from __future__ import annotations

import json
import math
import numbers
from collections.abc import Mapping
from typing import Any

VARIABLE = "RTRAIN_SHOWN_CONFIG"  # name of a variable in the job's `env`; viewers and other users do not see its value

_BYTES_MOST = 4096
_TEXT_MOST = 200


def shown_config(config: Mapping[str, Any] | None) -> dict[str, str]:
    """Returns the variable with the config as JSON. Returns nothing if there is no config, or if the text is longer than 4 KiB."""
    shown = _shown(config or {})
    text = json.dumps(shown, allow_nan=False)
    return {VARIABLE: text} if shown and len(text) <= _BYTES_MOST else {}


def _shown(value: Any) -> Any:
    """Converts numbers, texts, maps and lists. For any other value returns the name of its type, since its text
    could be anything.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return value[:_TEXT_MOST]
    if isinstance(value, Mapping):
        return {str(key): _shown(inner) for key, inner in value.items() if not str(key).startswith("__")}
    if isinstance(value, list | tuple):
        return [_shown(inner) for inner in value]
    return f"({type(value).__name__})"
