"""Moves batches to their device, with all nested tensors. Copies one batch ahead of the training, on a separate
stream.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from rtrain._to_device import to_device


def tensors_in(batch: Any) -> Iterator[torch.Tensor]:
    """Yields the tensors of a batch, at any depth. For an object that `to_device` moves by its own `to`, yields
    those in its attributes.
    """
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
    """Yields tensors in the attributes of an object. Objects may refer to each other in circles, so each is visited
    once.
    """
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
    """Yields the batches on the device. `ahead`: on a GPU, the next batch is copied on a side stream while the loop
    uses the present one.
    """
    if device.type != "cuda" or not ahead:
        for batch in batches:
            yield to_device(batch, device)
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
            return to_device(batch, device, non_blocking=True)

    following = fetch()
    while following is not end:
        present = following
        main = torch.cuda.current_stream(device)
        main.wait_stream(side)
        for tensor in tensors_in(present):
            tensor.record_stream(main)  # keeps the side stream from reusing its memory while the main stream reads it
        following = fetch()
        yield present
