"""Compares a function that torch.compile turns into a kernel with the uncompiled one. A forked worker must find the GPU like
a plain one.
"""

import torch
from rtrain.train.torch import get_device
from torch._inductor import metrics
from worker_facts import tell


def waves(values):
    return torch.sin(values) * values + torch.cos(values * 2).square()


device = get_device()
values = torch.linspace(0, 8, 1 << 20, device=device)
difference = float((torch.compile(waves)(values) - waves(values)).abs().max())
tell("result", device=device.type, difference=difference, kernels=metrics.generated_kernel_count)
