"""Converts metrics to strict JSON. Supports NumPy scalars and arrays, 0-dim tensors and dates. Raises a TypeError
that names the key for other values. Non-finite numbers become "NaN", "Infinity", "-Infinity".
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping
from typing import Any

_text = json.encoder.encode_basestring_ascii
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def encode(metrics: Mapping[str, object]) -> str:
    # The check by `type` comes first, since `isinstance` takes longer than writing the text.
    if type(metrics) is not dict and not isinstance(metrics, Mapping):
        raise TypeError(f"metrics must be a dict of names to values, not {type(metrics).__name__}")
    return _encoded_flat(metrics) or json.dumps(_plain(metrics, "metrics"), allow_nan=False)


def _encoded_flat(metrics: Mapping[str, object]) -> str | None:
    """Encodes the usual case, names to finite numbers and texts, in one pass, since a report should take
    microseconds. Returns None for other metrics.
    """
    parts = []
    for key, value in metrics.items():
        kind = type(value)
        if type(key) is not str:
            return None
        if kind is float and math.isfinite(value):  # type: ignore[arg-type]
            text = float.__repr__(value)
        elif kind is int:
            text = int.__repr__(value)
        elif kind is str:
            text = _text(value)  # type: ignore[arg-type]
        elif kind is bool:
            text = "true" if value else "false"
        else:
            return None
        parts.append(f"{_text(key)}:{text}")
    return "{" + ",".join(parts) + "}"


def decode(value: object) -> object:
    """Returns the values of stored metrics. Non-finite numbers become floats again."""
    if isinstance(value, str):
        return _NOT_FINITE.get(value, value)
    if isinstance(value, dict):
        return {key: decode(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [decode(inner) for inner in value]
    return value


def _plain(value: object, where: str) -> object:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _number(float(value))
    if isinstance(value, Mapping):
        return {_key(key, where): _plain(inner, f"{where}[{key!r}]") for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, f"{where}[{place}]") for place, inner in enumerate(value)]
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return _from_array(value, where)


def _number(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _key(key: object, where: str) -> str:
    if isinstance(key, str):
        return str(key)
    raise TypeError(f"{where} has the key {key!r} of type {type(key).__name__}; names of metrics are strings")


def _from_array(value: object, where: str) -> object:
    """Converts NumPy's and PyTorch's values. Recognises them by their attributes, so that neither library is
    imported.
    """
    dimensions = getattr(value, "ndim", None)
    if dimensions == 0 and hasattr(value, "item"):
        try:
            item = value.item()
        except Exception as error:  # a tensor without data raises an error, and so does a failed device
            raise TypeError(f"{where} is a {_described(value)}, whose value cannot be had: {error}") from error
        if not isinstance(item, type(value)):
            return _plain(item, where)
    if dimensions and type(value).__module__.split(".")[0] == "numpy" and hasattr(value, "tolist"):
        return _plain(value.tolist(), where)
    raise TypeError(
        f"{where} is a {_described(value)}, which cannot be a metric; metrics are numbers, strings, booleans, dates, None, "
        "and lists and dicts of these. Turn a tensor into numbers with .item() or .tolist(), or put it into the "
        "checkpoint"
    )


def _described(value: object) -> str:
    shape = f" of shape {tuple(value.shape)}" if hasattr(value, "shape") else ""
    device = str(getattr(value, "device", "cpu"))
    return type(value).__name__ + shape + ("" if device == "cpu" else f" on {device}")


def nested(metrics: Mapping[str, Any], name: str) -> Any:
    """Returns metrics["a/b"]; if there is none, returns metrics["a"]["b"], or None. The head's retention reads scores
    in the same way.
    """
    if name in metrics:
        return metrics[name]
    at = name.find("/")
    while at >= 0:
        inner = metrics.get(name[:at])
        value = nested(inner, name[at + 1 :]) if isinstance(inner, Mapping) else None
        if value is not None:
            return value
        at = name.find("/", at + 1)
    return None
