"""Tensors and plain values in files that Python and C++ (`runtime/torch`) both read and write.

Not imported by `rtrain.train`, since it needs torch.

`<name>.safetensors` holds the tensors, `<name>.json` the rest (step, learning rate, configuration).
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import torch
from safetensors.torch import load_file, save_file

__all__ = ["load", "save"]


def save(
    directory: str | os.PathLike[str],
    name: str,
    tensors: Mapping[str, torch.Tensor],
    values: Mapping[str, Any] | None = None,
) -> None:
    """Writes `tensors` to `<name>.safetensors` and `values` to `<name>.json` in `directory`.

    tensors: may have any device and shape. They are made contiguous, and shared memory is written once for each
    name. values: JSON values; default: none.
    """
    folder = pathlib.Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    whole = {key: tensor.detach().to("cpu").contiguous().clone() for key, tensor in tensors.items()}
    save_file(whole, str(folder / f"{name}.safetensors"))
    (folder / f"{name}.json").write_text(json.dumps(dict(values or {}), allow_nan=False))


def load(directory: str | os.PathLike[str], name: str) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Returns the tensors, on the CPU, and the values that `save` wrote to `directory` under `name`.

    Raises FileNotFoundError if one of the two files is missing, and ValueError if the values are no JSON object.
    """
    folder = pathlib.Path(directory)
    values = json.loads((folder / f"{name}.json").read_text())
    if not isinstance(values, dict):
        raise ValueError(f"{folder / f'{name}.json'} holds {type(values).__name__}, not an object; write it with save")
    return load_file(str(folder / f"{name}.safetensors")), values
