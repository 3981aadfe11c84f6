"""The loop of a `fit()` with GPUs."""


def loop():
    import rtrain.train
    import torch
    from rtrain.train.torch import get_device

    total = torch.tensor([torch.distributed.get_rank() + 1.0], device=get_device())
    torch.distributed.all_reduce(total)
    backend = torch.distributed.get_backend()
    rtrain.train.report({"sum": total.item(), "backend": backend, "device": total.device.type})
