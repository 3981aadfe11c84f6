"""Pickles values for a driver, which may have no GPU: their tensors arrive on the CPU."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

from rtrain import _public_names


def dumps(value: Any, protocol: int | None = None, buffer_callback: Callable[[Any], Any] | None = None) -> bytes:
    """Pickles like _public_names.dumps, with each GPU tensor copied to the CPU. Two views of one storage become two tensors."""

    class Pickler(_public_names.pickler()):  # type: ignore[misc]
        def reducer_override(self, obj: Any) -> Any:
            torch = sys.modules.get("torch")
            if torch is None or not isinstance(obj, torch.Tensor) or obj.device.type in ("cpu", "meta"):
                return super().reducer_override(obj)
            here = obj.detach().cpu()
            if isinstance(obj, torch.nn.Parameter):
                here = torch.nn.Parameter(here, requires_grad=obj.requires_grad)
            else:
                here.requires_grad_(obj.requires_grad)
            return here.__reduce_ex__(protocol or 4)

    with io.BytesIO() as out:
        Pickler(out, protocol=protocol, buffer_callback=buffer_callback).dump(value)
        return out.getvalue()
