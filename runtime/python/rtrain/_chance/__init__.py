"""Random numbers by position: what a function draws for an item depends on (seed, epoch, position) alone.

The caller of a user's function names the position in `here`. `generator` makes a generator from the position. The global
generators of `random`, NumPy and torch are seeded from the position too, in the processes of a DataLoader alone: in a rank
the model draws from the global generators.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, overload

from rtrain._lazy import public_in

if TYPE_CHECKING:
    import numpy as np
    import torch


class _Here(threading.local):
    """The position of the item that this thread makes."""

    prefix: tuple[int, ...] | None = None  # seed, epoch, and numbers that distinguish equal positions; None: no position
    place: int = 0
    # Whether each call of a function seeds the global generators 33s replaced, never changed => is replaced, never modified.
    seeds: bool = False
    generators_of: tuple[tuple[int, ...] | None, int] = (None, 0)
    generators: dict[str, Any] = {}  # noqa: RUF012  # replaced, never changed


here = _Here()


@contextlib.contextmanager
def at(*prefix: int, calls: int = 0) -> Iterator[None]:
    """Names a position for the block: its calls of a user's function are numbered from `calls` on. An inner block stands for itself.

    An item that is made once more, in another block of its position, gets generators that begin anew.
    """
    before = here.prefix, here.place, here.seeds, here.generators_of, here.generators
    here.prefix, here.place, here.seeds = prefix, calls - 1, is_loader_process()
    here.generators_of = None, 0
    try:
        yield
    finally:
        here.prefix, here.place, here.seeds, here.generators_of, here.generators = before


@overload
def generator(kind: Literal["numpy"] = "numpy") -> np.random.Generator: ...
@overload
def generator(kind: Literal["torch"]) -> torch.Generator: ...
def generator(kind: str = "numpy") -> Any:
    """Returns the random generator of the item that is being made, seeded by (seed, epoch, position).

    Call it in a function of an `rtrain.data` operation, or in the dataset, the transforms or the `collate_fn` of a loader that
    `prepare_data_loader` returned. A resumed epoch draws the numbers of the undisturbed one, and another epoch draws others. All calls for one
    item return the same generator. kind: "numpy" gives a `numpy.random.Generator`, "torch" a `torch.Generator` on the CPU.

    Elsewhere, as in `dataset[0]` in a notebook, there is no position: the generator is then new and unseeded, and a warning says so.
    """
    if kind not in _MAKERS:
        raise ValueError(f"generator({kind!r}): use 'numpy' or 'torch'")
    if here.prefix is None:
        warnings.warn(
            "rtrain.data.generator() was called outside of an operation of rtrain.data and of a loader that prepare_data_loader "
            "returned. No position seeds it, so its numbers differ each time",
            stacklevel=2,
        )
        return _MAKERS[kind](random.SystemRandom().getrandbits(63))
    now = (here.prefix, here.place)
    if here.generators_of != now:
        here.generators_of, here.generators = now, {}
    if kind not in here.generators:
        seeded = _MAKERS[kind](number_of(*here.prefix, here.place, _SALTS[kind]))
        here.generators = {**here.generators, kind: seeded}
    return here.generators[kind]


def number_of(*key: int) -> int:
    """Returns 63 bits that look random and depend on the key alone."""
    return int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=8).digest(), "little") >> 1


def seed_global_generators() -> None:
    """Seeds `random`, NumPy and torch by the position. Only for processes that run no model."""
    number = number_of(*(here.prefix or ()), here.place)
    random.seed(number)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(number % 2**32)
    torch_module = sys.modules.get("torch")
    if torch_module is not None:
        torch_module.default_generator.manual_seed(number)


def is_loader_process() -> bool:
    """Returns true in a process that a torch DataLoader has started to make items."""
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None


def _numpy(number: int) -> np.random.Generator:
    import numpy as np

    return np.random.default_rng(number)


def _torch(number: int) -> torch.Generator:
    import torch

    return torch.Generator().manual_seed(number)


_MAKERS: dict[str, Any] = {"numpy": _numpy, "torch": _torch}
_SALTS = {"numpy": 1, "torch": 2}  # makes the generators differ from each other and from the global ones


public_in("rtrain.data", generator)
