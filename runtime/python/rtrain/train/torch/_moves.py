"""Batches to their device: whatever they are nested in, and one batch ahead of the training on a stream of its own."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch


def moved(batch: Any, device: torch.device, non_blocking: bool) -> Any:
    """`batch` with every tensor in it on `device`: in dicts, lists, tuples, named tuples and data classes of any
    depth, and in objects with a `to` method. What holds no tensor is the same object as before."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=non_blocking)
    if isinstance(batch, Mapping):
        return _like_mapping(batch, {key: moved(value, device, non_blocking) for key, value in batch.items()})
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(moved(value, device, non_blocking) for value in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(moved(value, device, non_blocking) for value in batch)
    if callable(getattr(batch, "to", None)):
        return _by_its_own_method(batch, device, non_blocking)
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        names = [field.name for field in dataclasses.fields(batch) if field.init]
        return dataclasses.replace(batch, **{name: moved(getattr(batch, name), device, non_blocking) for name in names})
    return batch


def _like_mapping(before: Mapping[Any, Any], values: dict[Any, Any]) -> Any:
    """A dict stays a dict; another mapping keeps its type where that can be made from a dict."""
    if type(before) is dict:
        return values
    try:
        return type(before)(values)  # type: ignore[call-arg]
    except TypeError:
        return values


def _by_its_own_method(batch: Any, device: torch.device, non_blocking: bool) -> Any:
    try:
        return batch.to(device, non_blocking=non_blocking)
    except TypeError:
        return batch.to(device)


def tensors_in(batch: Any) -> Iterator[torch.Tensor]:
    """The tensors of a batch, wherever they lie in it; of objects that `moved` moves by their own `to`, those in attributes."""
    return _tensors_in(batch, set())


def _tensors_in(batch: Any, seen: set[int]) -> Iterator[torch.Tensor]:
    if isinstance(batch, torch.Tensor):
        yield batch
    elif isinstance(batch, Mapping):
        for value in batch.values():
            yield from _tensors_in(value, seen)
    elif isinstance(batch, list | tuple):
        for value in batch:
            yield from _tensors_in(value, seen)
    elif dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        for field in dataclasses.fields(batch):
            yield from _tensors_in(getattr(batch, field.name), seen)
    elif seen or callable(getattr(batch, "to", None)):
        yield from _tensors_of_attributes(batch, seen)


def _tensors_of_attributes(owner: Any, seen: set[int]) -> Iterator[torch.Tensor]:
    """Objects may refer to each other in circles: each is looked at once."""
    if id(owner) in seen or isinstance(owner, type | types.ModuleType | types.FunctionType):
        return
    seen.add(id(owner))
    for kind in type(owner).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__"):
                yield from _tensors_in(getattr(owner, name, None), seen)
    for value in list(getattr(owner, "__dict__", {}).values()):
        yield from _tensors_in(value, seen)


def batches_on(device: torch.device, batches: Iterable[Any], ahead: bool) -> Iterator[Any]:
    """The batches, moved. `ahead`: on a GPU the next one is copied on a side stream while the present one is used."""
    if device.type != "cuda" or not ahead:
        for batch in batches:
            yield moved(batch, device, non_blocking=False)
        return
    yield from _ahead(device, iter(batches))


def _ahead(device: torch.device, batches: Iterator[Any]) -> Iterator[Any]:
    side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    end = object()

    def fetch() -> Any:
        batch = next(batches, end)
        if batch is end:
            return end
        with torch.cuda.stream(side):
            return moved(batch, device, non_blocking=True)

    following = fetch()
    while following is not end:
        present = following
        main = torch.cuda.current_stream(device)
        main.wait_stream(side)
        for tensor in tensors_in(present):
            tensor.record_stream(main)  # its memory is not reused by the side stream while the main one reads it
        following = fetch()
        yield present
