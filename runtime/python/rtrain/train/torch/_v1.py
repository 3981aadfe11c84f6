"""Mixed precision as in the older API: `accelerate` once, then `prepare_model`, `prepare_optimizer` and `backward`."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn

from rtrain._lazy import public_in
from rtrain.train.torch._place import get_device

_amp = False
_scaler: torch.amp.GradScaler | None = None


def accelerate(amp: bool = False) -> None:
    """Enables automatic mixed precision for models that are prepared afterwards. Call it first.

    Uses float16 with gradient scaling on a GPU, and bfloat16 on the CPU. Raises RuntimeError for a second call with
    another setting.
    """
    global _amp, _scaler
    if _amp and not amp:
        raise RuntimeError(
            "accelerate(amp=False) after accelerate(amp=True): models may be prepared already; call it once, first"
        )
    _amp = amp
    if amp and _scaler is None and get_device().type == "cuda":
        _scaler = torch.amp.GradScaler("cuda")


def prepare_optimizer(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Returns the optimizer. With `accelerate(amp=True)`, its `step` unscales the gradients."""
    if _scaler is None:
        return optimizer
    scaler = _scaler
    plain_step = optimizer.step

    @functools.wraps(plain_step)
    def step(closure: Any = None) -> Any:
        if closure is not None:
            raise RuntimeError("an optimizer that needs a closure cannot be used with mixed precision")
        optimizer.__dict__["step"] = plain_step  # the gradient scaler calls the plain step
        try:
            done = scaler.step(optimizer)
        finally:
            optimizer.__dict__["step"] = step
        scaler.update()
        return done

    optimizer.__dict__["step"] = step
    return optimizer


def backward(tensor: torch.Tensor) -> None:
    """Calls `tensor.backward()`. With `accelerate(amp=True)`, scales the loss first."""
    scaled = tensor if _scaler is None else _scaler.scale(tensor)
    scaled.backward()  # type: ignore[no-untyped-call]


def with_autocast(model: nn.Module, device: torch.device) -> nn.Module:
    """Returns the model. After `accelerate(amp=True)` its forward pass runs under autocast. Its keys stay the same."""
    if _amp:
        kind = torch.float16 if device.type == "cuda" else torch.bfloat16
        model.__dict__["forward"] = _Autocast(model.forward, device.type, kind)
    return model


class _Autocast:
    """A forward pass under autocast; a class, so that the model can still be pickled."""

    def __init__(self, forward: Any, device_type: str, kind: torch.dtype) -> None:
        self.forward, self.device_type, self.kind = forward, device_type, kind

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        with torch.autocast(self.device_type, self.kind):
            return self.forward(*arguments, **named)


public_in("rtrain.train.torch", accelerate, backward, prepare_optimizer)
