"""Finds the GPUs of a worker, by its environment and by CUDA, and allocates memory on one. Without CUDA the stand-in answers."""

import os


def assigned():
    """Returns the UUIDs of this worker's GPUs from its environment, without CUDA."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    places = os.environ.get("RTRAIN_DEVICES", "")
    return [visible[int(place)] for place in places.split(",")] if places else []


def uuids():
    """Returns the UUIDs of this worker's GPUs from CUDA; without CUDA, from the environment."""
    import torch
    from rtrain.train.torch import get_devices

    if not torch.cuda.is_available():
        return assigned()
    named = [str(torch.cuda.get_device_properties(device).uuid) for device in get_devices()]
    return [one if one.startswith(("GPU-", "MIG-")) else f"GPU-{one}" for one in named]


def visible_count():
    """Returns how many devices CUDA sees; without CUDA, how many the environment names."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.device_count()
    return len([one for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one])


def hold(count):
    """Takes `count` bytes of this worker's GPU; returns an object that holds them. The stand-in counts them until the
    process ends.
    """
    import torch
    from rtrain.train.torch import get_device

    if torch.cuda.is_available():
        taken = torch.ones(count, dtype=torch.uint8, device=get_device())
        torch.cuda.synchronize()
        return taken
    from gpu_check import stand_in

    stand_in.take(assigned()[0], count)
    return None
