"""`enable_reproducibility`: the same numbers at each start, in the loaders' processes too."""

from __future__ import annotations

import os
import random
from typing import Any

import torch

from rtrain._lazy import public_in

_seed: int | None = None


def enable_reproducibility(seed: int = 0) -> None:
    """Seeds Python, NumPy (where it is installed) and torch on every device, and asks torch for its deterministic
    algorithms.

    Loaders that are prepared afterwards seed their worker processes from `seed`, the rank, the epoch and the worker's
    number. Slower: cuDNN no longer looks for the fastest algorithm. Call it before the first CUDA work: cuBLAS reads
    CUBLAS_WORKSPACE_CONFIG, which is set here, when it starts.
    """
    global _seed
    _seed = seed
    random.seed(seed)
    torch.manual_seed(seed)
    _seed_numpy(seed)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


def seed() -> int | None:
    """What `enable_reproducibility` was given; None when it was not called."""
    return _seed


def seed_loader(loader: Any, rank: int) -> None:
    """Gives a prepared loader's worker processes seeds that do not depend on what else drew from torch's generator.

    torch derives the seeds of a worker's torch, `random` and NumPy from a number that it draws from the loader's
    generator each epoch; a loader that has none gets one of its own here.
    """
    if _seed is None or loader.generator is not None:
        return
    loader.__dict__["generator"] = torch.Generator().manual_seed(_seed + 1_000_003 * (rank + 1))


def _seed_numpy(number: int) -> None:
    try:
        import numpy  # noqa: PLC0415
    except ImportError:
        return
    numpy.random.seed(number % 2**32)


public_in("rtrain.train.torch", enable_reproducibility)
