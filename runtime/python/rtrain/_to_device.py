"""Moves the tensors of a nested batch to a device; imports torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch


def to_device(batch: Any, device: torch.device | None, *, non_blocking: bool = False, pin: bool = False) -> Any:
    """Moves every tensor in `batch` to `device` (None: leaves it where it is): in dicts, lists, tuples, named tuples and
    data classes of any depth, and in objects with a `to` method. An object without tensors is returned unchanged.

    non_blocking: copies may be unfinished when this returns. pin: copies tensors to page-locked memory first.
    """
    if isinstance(batch, torch.Tensor):
        if pin:
            batch = batch.pin_memory()
        return batch if device is None else batch.to(device, non_blocking=non_blocking)
    if device is None and not pin:
        return batch

    def inner(value: Any) -> Any:
        return to_device(value, device, non_blocking=non_blocking, pin=pin)

    if isinstance(batch, Mapping):
        return _like_mapping(batch, {key: inner(value) for key, value in batch.items()})
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(inner(value) for value in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(inner(value) for value in batch)
    if callable(getattr(batch, "to", None)):
        return batch if device is None else _by_its_own_method(batch, device, non_blocking)
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        names = [field.name for field in dataclasses.fields(batch) if field.init]
        return dataclasses.replace(batch, **{name: inner(getattr(batch, name)) for name in names})
    return batch


def _like_mapping(before: Mapping[Any, Any], values: dict[Any, Any]) -> Any:
    """Returns a dict for a dict. Another mapping keeps its type if that can be made from a dict."""
    if type(before) is dict:
        return values
    try:
        return type(before)(values)  # type: ignore[call-arg]
    except (TypeError, ValueError, KeyError):
        return values


def _by_its_own_method(batch: Any, device: torch.device, non_blocking: bool) -> Any:
    try:
        return batch.to(device, non_blocking=non_blocking)
    except TypeError:
        return batch.to(device)
