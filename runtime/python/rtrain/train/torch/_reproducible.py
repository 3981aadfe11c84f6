"""Defines `enable_reproducibility`, after which every start of a training uses the same random numbers, also in the
loaders' processes.
"""

from __future__ import annotations

import os
import random
from typing import Any

import torch

from rtrain._lazy import public_in

_seed: int | None = None


def enable_reproducibility(seed: int = 0) -> None:
    """Seeds Python, NumPy (if installed) and torch on every device, and enables torch's deterministic algorithms.

    Loaders that are prepared afterwards seed their worker processes from `seed`, the rank, the epoch and the
    worker's number. Training gets slower, since cuDNN no longer looks for the fastest algorithm. Call it before the
    first CUDA work: this function sets CUBLAS_WORKSPACE_CONFIG, which cuBLAS reads at its start.
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
    """Returns the seed of `enable_reproducibility`; None if it was not called."""
    return _seed


def seed_loader(loader: Any, rank: int) -> None:
    """Gives a prepared loader's worker processes seeds that do not depend on other uses of torch's generator.

    torch derives the seeds of a worker's torch, `random` and NumPy from a number that it draws from the loader's
    generator each epoch; a loader without a generator gets one here.
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
