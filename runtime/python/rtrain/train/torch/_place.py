"""The place of this process among the ranks, and its devices."""

import torch

from rtrain._lazy import public_in
from rtrain.train._process_group import Place, own_devices, place

__all__ = ["Place", "get_device", "get_devices", "place"]


def get_devices() -> list[torch.device]:
    """Returns the devices that are this worker's own: the CPU, or one or more GPUs, by their index among the visible ones."""
    return own_devices()


def get_device() -> torch.device:
    """Returns the device to train on: the first of `get_devices()`."""
    return get_devices()[0]


public_in("rtrain.train.torch", get_device, get_devices)
